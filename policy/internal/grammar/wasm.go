//go:build !cgo

package grammar

import (
	"errors"

	pg "github.com/pganalyze/pg_query_go/v6"
	wasm "github.com/wasilibs/go-pgquery"
	"github.com/wasilibs/go-pgquery/parser"
)

func parse(sql string) (*pg.ParseResult, error) { return wasm.Parse(sql) }

func parsePLpgSQL(sql string) (string, error) { return wasm.ParsePlPgSqlToJSON(sql) }

func plain(text string, err error) error {
	var e *parser.Error
	if !errors.As(err, &e) {
		return &Error{Message: err.Error(), Offset: -1}
	}
	return &Error{Message: e.Message, Offset: byteOffset(text, e.Cursorpos)}
}
