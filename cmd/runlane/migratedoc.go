package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/internal/doctor"
	"github.com/seed4391e180/runlane/migrations"
)

// The documents of the migrate commands. Programs read them: members are added, and
// neither renamed nor taken away. Lists are never null.

type migrationFile struct {
	Version    string `json:"version"`
	Name       string `json:"name"`
	Statements int    `json:"statements"`
}

func filesOf(files []migrations.File) []migrationFile {
	all := make([]migrationFile, len(files))
	for i, f := range files {
		all[i] = migrationFile(f)
	}
	return all
}

type migrationRevision struct {
	migrationFile
	AppliedAt time.Time `json:"applied_at"`
	TookMS    float64   `json:"took_ms"`
	By        string    `json:"by"`
}

// standing is the document of status.
type standing struct {
	Schema  string              `json:"schema"`
	Exists  bool                `json:"exists"`
	Applied []migrationRevision `json:"applied"`
	Pending []migrationFile     `json:"pending"`
}

func (s standing) text(w io.Writer) {
	if !s.Exists {
		fmt.Fprintf(w, "schema %q does not exist\n", s.Schema)
	}
	for _, r := range s.Applied {
		fmt.Fprintf(w, "applied  %s  %s by %s\n", r.Name, r.AppliedAt.Format(time.RFC3339), r.By)
	}
	for _, f := range s.Pending {
		fmt.Fprintf(w, "pending  %s\n", f.Name)
	}
}

// migrationPlan is the document of plan.
type migrationPlan struct {
	Schema  string          `json:"schema"`
	Pending []migrationFile `json:"pending"`
}

func (p migrationPlan) text(w io.Writer) {
	for _, f := range p.Pending {
		fmt.Fprintf(w, "pending  %s  %d statements\n", f.Name, f.Statements)
	}
	if len(p.Pending) == 0 {
		fmt.Fprintln(w, "nothing to apply")
	}
}

// applied is the document of apply.
type applied struct {
	Schema  string          `json:"schema"`
	Created bool            `json:"created"` // the schema did not exist before
	Applied []migrationFile `json:"applied"`
	Version string          `json:"version"` // of the last file that the database has
}

func (a applied) text(w io.Writer) {
	for _, f := range a.Applied {
		fmt.Fprintf(w, "applied  %s\n", f.Name)
	}
	is := "is now"
	if len(a.Applied) == 0 {
		is = "is up to date"
	}
	fmt.Fprintf(w, "schema %q %s at %s\n", a.Schema, is, a.Version)
}

// verified is the document of verify; one that failed is a failure.
type verified struct {
	Schema   string `json:"schema"`
	Verified bool   `json:"verified"`
}

func (v verified) text(w io.Writer) {
	fmt.Fprintf(w, "schema %q is what this program wants\n", v.Schema)
}

// granted is the document of grants.
type granted struct {
	Schema     string   `json:"schema"`
	Role       string   `json:"role"`
	Statements []string `json:"statements"` // without semicolons
}

func (g granted) text(w io.Writer) {
	for _, s := range g.Statements {
		fmt.Fprintln(w, s+";")
	}
}

// failure is the document of a command that failed.
type failure struct {
	Error    problem `json:"error"`
	ExitCode int     `json:"exit_code"`
}

// problem says what went wrong. Kind is a word of doctor.Kind, or usage, connection
// or interrupted.
type problem struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Schema  string `json:"schema,omitempty"`
	File    string `json:"file,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Mend    string `json:"mend,omitempty"`
}

func failureOf(ctx context.Context, err error) failure {
	f := failure{problem{Kind: doctor.Kind(err), Message: err.Error()}, exitFailure}
	var (
		refused *migrations.Error
		connect *pgconn.ConnectError
	)
	switch {
	case ctx.Err() != nil:
		f.Error = problem{Kind: "interrupted", Message: "interrupted"}
	case isUsage(err):
		f.ExitCode = exitUsage
		if f.Error.Kind == "failed" {
			f.Error.Kind = "usage"
		}
	case errors.As(err, &connect):
		f.Error.Kind = "connection"
	}
	if f.Error.Kind != "interrupted" && errors.As(err, &refused) {
		f.Error.Schema, f.Error.File, f.Error.Detail, f.Error.Mend = refused.Schema, refused.File, refused.Detail, refused.Mend
	}
	return f
}

// isUsage says whether an error is about the command line: also a name on it that no
// schema or role can have.
func isUsage(err error) bool {
	var wrong *usage.Error
	return errors.As(err, &wrong) || errors.Is(err, migrations.ErrSchemaName) || errors.Is(err, migrations.ErrRoleName)
}
