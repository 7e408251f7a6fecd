package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/migrations"
)

// DefaultSchema is the schema into which databases are migrated.
const DefaultSchema = migrations.DefaultSchema

// migrate brings the database at url to the newest version of the schema.
func migrate(ctx context.Context, url, schema string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	_, err = migrations.Apply(ctx, conn, migrations.Options{Schema: schema})
	return err
}

// migrationsHash changes with the content of the migrations.
func migrationsHash() (string, error) {
	names, err := fs.Glob(migrations.Files, "*") // sorted, as the package promises
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		text, err := migrations.Files.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
