// Package rawsql holds the text of the hot-path SQL: one statement or one
// fragment of a statement per file, and nothing else.
//
// Each file begins with a comment that says what it is, its parameters, the locks
// it takes and the index it must use. The comment is not sent. Words in braces,
// such as {table}, are holes: identifiers and fragments that are the same for every
// call of one shape of statement. They are filled once, by storage/postgres, which
// also renumbers the parameters of fragments; values are always parameters.
package rawsql

import "embed"

// Files holds the SQL files.
//
//go:embed *.sql
var Files embed.FS
