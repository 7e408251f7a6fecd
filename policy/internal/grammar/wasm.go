//go:build !cgo

package grammar

import (
	"errors"
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
	wasm "github.com/wasilibs/go-pgquery"
	"github.com/wasilibs/go-pgquery/parser"
)

// Compiled says that the parser is PostgreSQL's compiled code.
const Compiled = false

func parse(sql string) (tree *pg.ParseResult, err error) {
	defer overflow(&err)
	return wasm.Parse(sql)
}

func parsePLpgSQL(sql string) (tree string, err error) {
	defer overflow(&err)
	return wasm.ParsePlPgSqlToJSON(sql)
}

// overflow makes an error of the panic of a machine whose stack is full.
func overflow(err *error) {
	if problem := recover(); problem != nil {
		*err = fmt.Errorf("the parser failed: %v", problem)
	}
}

func plain(text string, err error) error {
	var e *parser.Error
	if !errors.As(err, &e) {
		return &Error{Message: err.Error(), Offset: -1}
	}
	return &Error{Message: e.Message, Offset: byteOffset(text, e.Cursorpos)}
}
