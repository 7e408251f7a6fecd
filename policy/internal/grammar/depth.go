package grammar

import (
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/lex"
)

// tooDeep is where a text nests too deeply, or -1. Parentheses nest, and so do
// chains: 1+1+1 is an addition within an addition.
func tooDeep(sql string) int {
	stack := []level{{}}
	depth := 0
	for _, t := range lex.Tokens(sql) {
		top := &stack[len(stack)-1]
		switch t.Kind {
		case lex.Symbol:
			switch sql[t.Start] {
			case '(', '[':
				stack = append(stack, level{})
				depth++
			case ')', ']':
				if len(stack) > 1 {
					depth -= top.operators + top.arms + 1
					stack = stack[:len(stack)-1]
				}
			case ',':
				depth -= top.operators
				top.operators = 0
			case ';':
				depth -= top.operators + top.arms
				*top = level{}
			case '.':
			default:
				top.operators++
				depth++
			}
		case lex.Word:
			switch word := strings.ToLower(t.Text(sql)); {
			case word == "and" || word == "or": // chains of these are flat
				depth -= top.operators
				top.operators = 0
			case slices.Contains(operators, word):
				top.operators++
				depth++
			case slices.Contains(arms, word):
				top.arms++
				depth++
			}
		}
		if depth > maxDepth {
			return t.Start
		}
	}
	return -1
}

// level counts what puts the text before it one level deeper, between parentheses.
type level struct{ operators, arms int }

var (
	operators = []string{"case", "not", "operator", "collate", "is", "isnull", "notnull", "like", "ilike", "similar", "in", "between", "at"}
	arms      = []string{"if", "loop", "begin", "union", "intersect", "except", "join"}
)
