package migrations

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// runner is one call of the package: a connection and options with their defaults.
type runner struct {
	conn     *pgx.Conn
	mode     pgx.QueryExecMode
	schema   string
	dir      directory
	lockWait time.Duration
	progress func(Event)
}

func newRunner(conn *pgx.Conn, o Options) (*runner, error) {
	r := &runner{conn: conn, mode: execMode(conn), schema: o.Schema, lockWait: o.LockWait, progress: o.Progress}
	if r.schema == "" {
		r.schema = DefaultSchema
	}
	if err := checkSchemaName(r.schema); err != nil {
		return nil, err
	}
	if o.Dir == nil {
		o.Dir = Files
	}
	var err error
	if r.dir, err = openDirectory(o.Dir, r.schema); err != nil {
		return nil, err
	}
	switch {
	case r.lockWait == 0:
		r.lockWait = DefaultLockWait
	case r.lockWait < 0:
		r.lockWait = 0
	}
	if r.progress == nil {
		r.progress = func(Event) {}
	}
	if status := conn.PgConn().TxStatus(); status != 'I' {
		return nil, fmt.Errorf("migrations: the connection is in a transaction (status %q); migrations need their own", status)
	}
	return r, nil
}

// execMode is the mode of the runner's own queries, whatever the connection's is:
// it prepares nothing, so it works through any pooler and leaves no statements in
// the session. Simple protocol is kept, since somebody needs it.
func execMode(conn *pgx.Conn) pgx.QueryExecMode {
	if mode := conn.Config().DefaultQueryExecMode; mode == pgx.QueryExecModeSimpleProtocol {
		return mode
	}
	return pgx.QueryExecModeExec
}

func (r *runner) apply(ctx context.Context) (res Result, err error) {
	res.Schema = r.schema
	if n := len(r.dir); n > 0 {
		res.Version = r.dir[n-1].Version
	}
	tx, err := r.beginLocked(ctx)
	if err != nil {
		return Result{}, err
	}
	if tx == nil {
		return res, nil
	}
	committed := false
	defer func() { // also when Progress panics: the transaction holds the locks
		if !committed {
			res, err = Result{}, errors.Join(err, r.rollback(ctx, tx))
		}
	}()
	if err := r.limitStatements(ctx, tx); err != nil {
		return res, err
	}
	s, err := r.prepare(ctx, tx)
	if err != nil {
		return res, err
	}
	res.Created = !s.access.exists
	for _, m := range s.pending {
		if err := r.applyFile(ctx, tx, m); err != nil {
			return res, err
		}
		res.Applied = append(res.Applied, m.File)
	}
	if err := tx.Commit(ctx); err != nil {
		return res, r.wrap(err, "", "commit", "")
	}
	committed = true
	return res, nil
}

// limitStatements lets a statement run as long as it must, whatever the role's
// default, but not wait for a table for longer than LockWait: whoever comes after
// it in the queue of the table waits as well.
func (r *runner) limitStatements(ctx context.Context, tx pgx.Tx) error {
	wait := max(r.lockWait.Milliseconds(), 1)
	_, err := tx.Exec(ctx, `SELECT pg_catalog.set_config('statement_timeout', '0', true), pg_catalog.set_config('lock_timeout', $1::text, true)`,
		r.mode, strconv.FormatInt(wait, 10))
	if err != nil {
		return r.wrap(err, "", "set the timeouts", "")
	}
	return nil
}

// findings is what a database has, proved against the directory.
type findings struct {
	access    access
	revisions []revision
	pending   directory
}

// prepare proves the history and makes what is needed to add to it.
func (r *runner) prepare(ctx context.Context, tx pgx.Tx) (findings, error) {
	s, err := r.inspect(ctx, tx)
	if err != nil || len(s.pending) == 0 {
		return s, err
	}
	for _, m := range s.pending {
		if m.noTx {
			return s, &Error{Schema: r.schema, File: m.Name, Detail: "the file must run outside a transaction",
				Mend: "apply it with `atlas migrate apply`"}
		}
	}
	if !s.access.exists {
		if err := r.createSchema(ctx, tx); err != nil {
			return s, err
		}
		if err := r.useSchema(ctx, tx); err != nil {
			return s, err
		}
	} else if err := r.mayCreate(s.access); err != nil {
		return s, err
	}
	if _, err := tx.Exec(ctx, createLedger); err != nil {
		return s, r.wrap(err, ledgerTable, "create the ledger", "migrate as the owner of the schema")
	}
	return s, nil
}

// inspect reads what the schema has and changes nothing but the transaction's
// search path.
func (r *runner) inspect(ctx context.Context, tx pgx.Tx) (s findings, err error) {
	if s.access, err = r.findSchema(ctx, tx); err != nil {
		return s, err
	}
	s.pending = r.dir
	if !s.access.exists {
		return s, nil
	}
	if err := r.mayUse(s.access); err != nil {
		return s, err
	}
	if err := r.useSchema(ctx, tx); err != nil {
		return s, err
	}
	c, err := r.contents(ctx, tx)
	if err != nil {
		return s, err
	}
	if c.ledger {
		if s.revisions, err = r.readRevisions(ctx, tx); err != nil {
			return s, r.wrap(err, ledgerTable, "read the ledger", "GRANT SELECT ON "+quote(r.schema)+"."+ledgerTable+" TO …")
		}
	}
	known := false
	for _, rev := range s.revisions {
		known = known || r.dir.index(rev.version) >= 0
	}
	if err := r.checkOurs(c, s.revisions, known); err != nil {
		return s, err
	}
	s.pending, err = r.dir.pending(s.revisions, r.schema)
	return s, err
}

// applyFile runs the statements of a file one by one, as the CLI does, and
// records it.
func (r *runner) applyFile(ctx context.Context, tx pgx.Tx, m migration) error {
	start := time.Now()
	for i, stmt := range m.statements {
		r.progress(Event{Stage: Applying, File: m.File, Statement: i + 1})
		where := fmt.Sprintf("statement %d, line %d", i+1, 1+strings.Count(m.text[:stmt.Pos], "\n"))
		if _, err := tx.Exec(ctx, stmt.Text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return r.wrap(err, m.Name, where, "migrate as the owner of the schema")
		}
		if status := r.conn.PgConn().TxStatus(); status != 'T' {
			return &Error{Schema: r.schema, File: m.Name, Detail: where + " ended the transaction of the migration",
				Mend: "leave BEGIN, COMMIT and ROLLBACK out of migration files"}
		}
	}
	if err := r.writeRevision(ctx, tx, m, time.Now(), time.Since(start)); err != nil {
		return r.wrap(err, m.Name, "write the ledger", "GRANT INSERT ON "+quote(r.schema)+"."+ledgerTable+" TO …")
	}
	r.progress(Event{Stage: Applied, File: m.File})
	return nil
}

// settled says that the database has the whole directory. It is asked without the
// lock, in one snapshot, and only a yes counts: a history that looks wrong may be
// one that the holder of the lock is about to complete. The error is that of a
// connection that is lost.
func (r *runner) settled(ctx context.Context) (bool, error) {
	s, err := r.status(ctx)
	if r.conn.IsClosed() {
		return false, err
	}
	return err == nil && s.Exists && len(s.Pending) == 0, nil
}

func (r *runner) status(ctx context.Context) (State, error) {
	// One snapshot, so that a migration that commits meanwhile is seen whole or not at all.
	tx, err := r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return State{}, r.wrap(err, "", "begin", "")
	}
	s, err := r.inspect(ctx, tx)
	if err = errors.Join(err, r.rollback(ctx, tx)); err != nil {
		return State{}, err
	}
	status := State{Schema: r.schema, Exists: s.access.exists}
	for _, rev := range s.revisions {
		status.Applied = append(status.Applied, Revision{
			File:      r.dir[r.dir.index(rev.version)].File,
			AppliedAt: rev.at,
			Took:      time.Duration(rev.took),
			By:        rev.operator,
		})
	}
	for _, m := range s.pending {
		status.Pending = append(status.Pending, m.File)
	}
	return status, nil
}
