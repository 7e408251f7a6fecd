package migrations

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"ariga.io/atlas/sql/migrate"
)

// directory is the migration directory, read once and proved to agree with its
// atlas.sum.
type directory []migration

// migration is one file of the directory with what the ledger needs to know.
type migration struct {
	File
	description string
	hash        string // of this file and all before it, as in atlas.sum and the ledger
	text        string
	statements  []*migrate.Stmt
	index       string // the index that the file builds, outside a transaction; empty for all other files
}

// openDirectory reads files and checksums with Atlas's own code, so that hashes
// and statement counts are those that its CLI writes.
func openDirectory(fsys fs.FS, schema string) (directory, error) {
	dir := &migrate.MemDir{}
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, migrate.HashFileName) {
		text, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) && name == migrate.HashFileName {
			continue // Validate reports it
		}
		if err != nil {
			return nil, fmt.Errorf("migrations: read the directory: %w", err)
		}
		if err := dir.WriteFile(name, text); err != nil {
			return nil, err
		}
	}
	if err := migrate.Validate(dir); err != nil {
		return nil, checksumError(err, schema)
	}
	files, err := dir.Files()
	if err != nil {
		return nil, err
	}
	sums, err := dir.Checksum()
	if err != nil {
		return nil, err
	}
	d := make(directory, 0, len(files))
	for _, f := range files {
		m, err := newMigration(f, sums)
		if err != nil {
			return nil, fmt.Errorf("migrations: %s: %w", f.Name(), err)
		}
		if outsideTransaction(f) {
			if m.index = builtIndex(m.statements); m.index == "" {
				return nil, &Error{Schema: schema, File: m.Name,
					Detail: "a file marked txmode none holds one statement, CREATE INDEX CONCURRENTLY, without IF NOT EXISTS",
					Mend:   "take the mark away, or give the index a file of its own"}
			}
		}
		if n := len(d); n > 0 && m.Version <= d[n-1].Version {
			return nil, &Error{Kind: ErrReordered, Schema: schema, File: m.Name,
				Detail: "its version does not come after that of " + d[n-1].Name,
				Mend:   "give each file a version of its own, in the order of their names"}
		}
		d = append(d, m)
	}
	return d, nil
}

func newMigration(f migrate.File, sums migrate.HashFile) (migration, error) {
	hash, err := sums.SumByName(f.Name())
	if err != nil {
		return migration{}, err
	}
	text := string(f.Bytes())
	statements, err := scan(text)
	if err != nil {
		return migration{}, err
	}
	return migration{
		File:        File{Version: f.Version(), Name: path.Base(f.Name()), Statements: len(statements)},
		description: f.Desc(),
		hash:        hash,
		text:        text,
		statements:  statements,
	}, nil
}

// outsideTransaction says that the file's header has the mark "-- atlas:txmode none".
func outsideTransaction(f migrate.File) bool {
	l, ok := f.(*migrate.LocalFile)
	return ok && slices.Contains(l.Directive("txmode"), "none")
}

// IF NOT EXISTS would take an index that a failed build left behind for a good one.
var createIndex = regexp.MustCompile(`(?is)^CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:"((?:[^"]|"")+)"|([a-z_][a-z0-9_]*))\s+ON\s`)

// builtIndex names the index that the only statement of a file builds concurrently,
// or returns "".
func builtIndex(statements []*migrate.Stmt) string {
	if len(statements) != 1 {
		return ""
	}
	m := createIndex.FindStringSubmatch(statements[0].Text)
	if m == nil {
		return ""
	}
	if m[1] != "" {
		return strings.ReplaceAll(m[1], `""`, `"`)
	}
	return strings.ToLower(m[2])
}

// scan splits a file as Atlas's PostgreSQL driver does.
func scan(text string) ([]*migrate.Stmt, error) {
	return (&migrate.Scanner{ScannerOptions: migrate.ScannerOptions{
		MatchBegin:       true,
		MatchBeginAtomic: true,
		MatchDollarQuote: true,
		EscapedStringExt: true,
	}}).Scan(text)
}

// checksumError says which file does not agree with atlas.sum.
func checksumError(err error, schema string) error {
	e := &Error{Kind: ErrChanged, Schema: schema, File: migrate.HashFileName, Cause: err,
		Mend: "restore the directory as it was released"}
	var sum *migrate.ChecksumError
	switch {
	case errors.As(err, &sum):
		e.File = sum.File
		e.Detail = "the file was " + sum.Reason.String() + " and atlas.sum does not know it"
	case errors.Is(err, migrate.ErrChecksumNotFound):
		e.Detail = "the directory has no atlas.sum"
	case errors.Is(err, migrate.ErrChecksumMismatch), errors.Is(err, migrate.ErrChecksumFormat):
		e.Detail = "atlas.sum was edited"
	}
	return e
}
