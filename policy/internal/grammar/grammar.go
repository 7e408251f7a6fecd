// Package grammar parses SQL and PL/pgSQL with PostgreSQL's own parser.
//
// With a C compiler the parser is built from PostgreSQL's sources. Without one
// (CGO_ENABLED=0) the same sources run as WebAssembly: nothing but Go is needed, and
// each run begins with seconds of compilation.
package grammar

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/seed4391e180/runlane/policy/internal/lex"
)

// Version is the version of PostgreSQL whose grammar this is.
const Version = "17"

// maxDepth bounds how deeply a text may nest. The parser is recursive C: beyond some
// depth it would not fail but end the process.
const maxDepth = 1000

// An Error says where a text stops being SQL.
type Error struct {
	Message string
	Offset  int // in bytes; -1 if the parser does not say
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (by the grammar of PostgreSQL %s)", e.Message, Version)
}

// Parse parses the statements of a text.
func Parse(sql string) (*pg.ParseResult, error) {
	if nul(sql) {
		return nil, &Error{Message: "the text has a zero byte", Offset: -1}
	}
	if offset := tooDeep(sql); offset >= 0 {
		return nil, &Error{Message: fmt.Sprintf("nested more than %d levels deep", maxDepth), Offset: offset}
	}
	// A comment between the words of NOT IN, NULLS FIRST and the like, which the
	// parser reads ahead for, would be an error to libpg_query.
	sql = lex.Blank(sql)
	tree, err := parse(sql)
	if err != nil {
		return nil, plain(sql, err)
	}
	return tree, nil
}

// ParsePLpgSQL parses the body of a CREATE FUNCTION, CREATE PROCEDURE or DO
// statement in PL/pgSQL. The tree is JSON.
func ParsePLpgSQL(statement string) (string, error) {
	if nul(statement) {
		return "", &Error{Message: "the text has a zero byte", Offset: -1}
	}
	if offset := tooDeep(statement); offset >= 0 {
		return "", &Error{Message: fmt.Sprintf("nested more than %d levels deep", maxDepth), Offset: offset}
	}
	for _, t := range lex.Tokens(statement) {
		if t.Kind != lex.Dollar && t.Kind != lex.String {
			continue
		}
		// The body, or a literal; between the quotes either way.
		if body := strings.Trim(t.Text(statement), "'"); tooDeep(strings.TrimSuffix(body[tag(body):], body[:tag(body)])) >= 0 {
			return "", &Error{Message: fmt.Sprintf("nested more than %d levels deep", maxDepth), Offset: -1}
		}
	}
	tree, err := parsePLpgSQL(statement)
	if err != nil {
		e := plain(statement, err)
		var own *Error
		if errors.As(e, &own) {
			own.Offset = -1 // counted from somewhere within the body
		}
		return "", e
	}
	return tree, nil
}

// tag is the length of the dollar quote that a literal begins with.
func tag(literal string) int {
	if !strings.HasPrefix(literal, "$") {
		return 0
	}
	return strings.IndexByte(literal[1:], '$') + 2
}

func nul(text string) bool {
	for i := range len(text) {
		if text[i] == 0 {
			return true
		}
	}
	return false
}

// byteOffset is the offset in bytes of a position that counts characters from 1.
func byteOffset(text string, position int) int {
	if position < 1 {
		return -1
	}
	offset := 0
	for range position - 1 {
		if offset >= len(text) {
			break
		}
		_, size := utf8.DecodeRuneInString(text[offset:])
		offset += size
	}
	return offset
}
