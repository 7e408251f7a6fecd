package inspect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// values are constant texts that variables hold.
type values map[string]string

// text is the value of an expression that is a constant text.
func text(n *pg.Node) (string, bool) { return values(nil).text(n) }

func (v values) text(n *pg.Node) (string, bool) {
	s, holes := v.fold(n)
	return s, holes == 0
}

// hole stands in a folded text for what is known only when the statement runs: a
// name, so that the text around it can be parsed.
const hole = "unknown_value"

// fold is the value of a text expression, with a name in place of each part that is
// not constant, and how many those are.
func (v values) fold(n *pg.Node) (string, int) {
	switch e := n.GetNode().(type) {
	case *pg.Node_AConst:
		if s, ok := e.AConst.GetVal().(*pg.A_Const_Sval); ok {
			return s.Sval.GetSval(), 0
		}
	case *pg.Node_ColumnRef:
		if fields := e.ColumnRef.GetFields(); len(fields) == 1 {
			if s, ok := v[fields[0].GetString_().GetSval()]; ok {
				return s, 0
			}
		}
	case *pg.Node_TypeCast:
		return v.fold(e.TypeCast.GetArg())
	case *pg.Node_CollateClause:
		return v.fold(e.CollateClause.GetArg())
	case *pg.Node_AExpr:
		if op, own := name(e.AExpr.GetName()); own && op == "||" && e.AExpr.GetLexpr() != nil {
			left, l := v.fold(e.AExpr.GetLexpr())
			right, r := v.fold(e.AExpr.GetRexpr())
			return left + right, l + r
		}
	case *pg.Node_FuncCall:
		return v.foldCall(e.FuncCall)
	}
	return hole, 1
}

// foldCall is the value of a call that puts texts together.
func (v values) foldCall(n *pg.FuncCall) (string, int) {
	last, own := name(n.GetFuncname())
	if !own || len(n.GetArgs()) == 0 {
		return hole, 1
	}
	args := n.GetArgs()
	switch last {
	case "concat":
		var all strings.Builder
		holes := 0
		for _, a := range args {
			s, h := v.fold(a)
			all.WriteString(s)
			holes += h
		}
		return all.String(), holes
	case "quote_ident":
		if s, ok := v.text(args[0]); ok {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`, 0
		}
	case "quote_literal", "quote_nullable":
		if s, ok := v.text(args[0]); ok {
			return quote(s), 0
		}
		return quote(hole), 1
	case "format":
		if pattern, ok := v.text(args[0]); ok {
			return v.foldFormat(pattern, args[1:])
		}
	}
	return hole, 1
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// foldFormat is the value of format(pattern, args...).
func (v values) foldFormat(pattern string, args []*pg.Node) (string, int) {
	var out strings.Builder
	holes, next := 0, 0
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) {
			out.WriteByte(pattern[i])
			continue
		}
		i++
		position := 0
		for start := i; i < len(pattern) && strings.IndexByte("0123456789$-*", pattern[i]) >= 0; i++ {
			if pattern[i] == '$' {
				for _, d := range pattern[start:i] {
					position = min(position*10+int(d-'0'), len(args)+1)
				}
			}
		}
		if i == len(pattern) {
			break
		}
		if pattern[i] == '%' {
			out.WriteByte('%')
			continue
		}
		if position > 0 {
			next = position - 1
		}
		value, h := hole, 1
		if next >= 0 && next < len(args) {
			value, h = v.fold(args[next])
		}
		next++
		holes += h
		switch pattern[i] {
		case 'L':
			value = quote(value)
		case 'I':
			value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
		}
		out.WriteString(value)
	}
	return out.String(), holes
}
