// Package lex splits SQL text into tokens and statements. It knows just enough to
// tell text from quotation and comment, where a statement ends, and what is psql's;
// what a statement means is for the grammar.
package lex

import "strings"

// A Kind is the kind of a token.
type Kind int

// The kinds of tokens. Comments and space are none.
const (
	Word    Kind = iota // an unquoted word or number
	Quoted              // a quoted identifier
	String              // a literal in quotes, with its prefix
	Dollar              // a literal in dollar quotes
	Param               // $1
	Symbol              // any other character
	Command             // psql's: a backslash and the rest of its line
)

// A Token is a piece of text.
type Token struct {
	Kind       Kind
	Start, End int
}

// Text is the text of a token.
func (t Token) Text(sql string) string { return sql[t.Start:t.End] }

// Is reports whether a token is an unquoted word, in any case.
func (t Token) Is(sql, word string) bool {
	return t.Kind == Word && strings.EqualFold(t.Text(sql), word)
}

// Tokens are the tokens of a text. What is quoted and never closed ends with the text.
func Tokens(sql string) []Token {
	var list []Token
	for i := 0; i < len(sql); {
		if end := skip(sql, i); end > i {
			i = end
			continue
		}
		t := next(sql, i)
		list = append(list, t)
		i = t.End
	}
	return list
}

// Blank puts spaces in place of comments. Lines and offsets stay.
func Blank(sql string) string {
	var out []byte
	for i := 0; i < len(sql); {
		end := skip(sql, i)
		if end == i {
			i = next(sql, i).End
			continue
		}
		if !isSpace(sql[i]) {
			if out == nil {
				out = []byte(sql)
			}
			for at := i; at < end; at++ {
				if out[at] != '\n' {
					out[at] = ' '
				}
			}
		}
		i = end
	}
	if out == nil {
		return sql
	}
	return string(out)
}

// skip is the end of the space or the comment at i; i itself if there is none.
func skip(sql string, i int) int {
	switch {
	case isSpace(sql[i]):
		return i + 1
	case strings.HasPrefix(sql[i:], "--"):
		if n := strings.IndexByte(sql[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(sql)
	case strings.HasPrefix(sql[i:], "/*"):
		return blockComment(sql, i)
	}
	return i
}

// blockComment is the end of the comment at i. Block comments nest.
func blockComment(sql string, i int) int {
	depth := 0
	for i < len(sql) {
		switch {
		case strings.HasPrefix(sql[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(sql[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(sql)
}

func next(sql string, i int) Token {
	c := sql[i]
	switch {
	case c == '\'':
		return Token{String, i, quoted(sql, i, '\'', false)}
	case c == '"':
		return Token{Quoted, i, quoted(sql, i, '"', false)}
	case c == '$':
		return dollar(sql, i)
	case c == '\\':
		return Token{Command, i, commandEnd(sql, i)}
	case isWordStart(c) || isDigit(c):
		return word(sql, i)
	}
	return Token{Symbol, i, i + 1}
}

// word is a word, or a literal or identifier whose prefix it is.
func word(sql string, i int) Token {
	end := i + 1
	for end < len(sql) && isWordPart(sql[end]) {
		end++
	}
	if end < len(sql) && sql[end] == '\'' && end == i+1 {
		switch sql[i] {
		case 'e', 'E':
			return Token{String, i, quoted(sql, end, '\'', true)}
		case 'b', 'B', 'x', 'X', 'n', 'N':
			return Token{String, i, quoted(sql, end, '\'', false)}
		}
	}
	if end == i+1 && (sql[i] == 'u' || sql[i] == 'U') && end+1 < len(sql) && sql[end] == '&' {
		switch sql[end+1] {
		case '\'':
			return Token{String, i, quoted(sql, end+1, '\'', false)}
		case '"':
			return Token{Quoted, i, quoted(sql, end+1, '"', false)}
		}
	}
	return Token{Word, i, end}
}

// quoted is the end of the quotation that begins at i.
func quoted(sql string, i int, quote byte, escapes bool) int {
	for i++; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return i + 1
		}
	}
	return len(sql)
}

// dollar is a literal in dollar quotes, a parameter, or a mere dollar.
func dollar(sql string, i int) Token {
	end := i + 1
	for end < len(sql) && isDigit(sql[end]) {
		end++
	}
	if end > i+1 {
		return Token{Param, i, end}
	}
	for end < len(sql) && isWordPart(sql[end]) && sql[end] != '$' {
		end++
	}
	if end >= len(sql) || sql[end] != '$' {
		return Token{Symbol, i, i + 1}
	}
	tag := sql[i : end+1]
	if n := strings.Index(sql[end+1:], tag); n >= 0 {
		return Token{Dollar, i, end + 1 + n + len(tag)}
	}
	return Token{Dollar, i, len(sql)}
}

// Body is where the text between dollar quotes begins and ends.
func (t Token) Body(sql string) (start, end int) {
	tag := strings.IndexByte(sql[t.Start+1:t.End], '$') + 2
	start, end = t.Start+tag, t.End-tag
	if end < start { // never closed
		end = t.End
	}
	return start, end
}

// commandEnd is the end of psql's command at i: the end of its line, or a double
// backslash.
func commandEnd(sql string, i int) int {
	line := sql[i:]
	if n := strings.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	if n := strings.Index(line[1:], `\\`); n >= 0 {
		return i + 1 + n + 2
	}
	return i + len(line)
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func isWordPart(c byte) bool { return isWordStart(c) || isDigit(c) || c == '$' }
