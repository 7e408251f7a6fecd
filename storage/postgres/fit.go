package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// fit refuses a session in which texts would not mean what they say, the exec mode
// being what the connection uses unless told otherwise. The server
// reports these settings to every client, so asking costs nothing. Most others do not
// matter: names are qualified, times travel as instants, and what else matters is set
// for each transaction.
func fit(conn *pgx.Conn, mode pgx.QueryExecMode) error {
	setting := conn.PgConn().ParameterStatus
	if encoding := setting("client_encoding"); encoding != "UTF8" {
		return configError("the session's client_encoding is "+encoding,
			"set client_encoding to 'UTF8' for this role and database, or add client_encoding=UTF8 to the URL")
	}
	if mode == pgx.QueryExecModeSimpleProtocol && setting("standard_conforming_strings") != "on" {
		return configError("standard_conforming_strings is off, and the simple protocol cannot do without it",
			"set standard_conforming_strings to 'on' for this role and database, or choose another of pgx's exec modes")
	}
	// These two modes ask for texts, and pgx reads times in one style.
	text := mode == pgx.QueryExecModeSimpleProtocol || mode == pgx.QueryExecModeExec
	if style := setting("DateStyle"); text && !strings.HasPrefix(style, "ISO") {
		return configError(fmt.Sprintf("the session's DateStyle is %q, which the exec mode %v cannot read", style, mode),
			"set DateStyle to 'ISO' for this role and database, or choose another of pgx's exec modes")
	}
	return nil
}
