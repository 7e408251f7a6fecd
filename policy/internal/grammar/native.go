//go:build cgo

package grammar

import (
	"errors"

	pg "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// Compiled says that the parser is PostgreSQL's compiled code.
const Compiled = true

func parse(sql string) (*pg.ParseResult, error) { return pg.Parse(sql) }

func parsePLpgSQL(sql string) (string, error) { return pg.ParsePlPgSqlToJSON(sql) }

func plain(text string, err error) error {
	var e *parser.Error
	if !errors.As(err, &e) {
		return &Error{Message: err.Error(), Offset: -1}
	}
	return &Error{Message: e.Message, Offset: byteOffset(text, e.Cursorpos)}
}
