package migrations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// runner is one call of the package: a connection and options with their defaults.
type runner struct {
	conn      *pgx.Conn
	mode      pgx.QueryExecMode
	schema    string
	dir       directory
	lockWait  time.Duration
	indexWait time.Duration
	progress  func(Event)
}

func newRunner(conn *pgx.Conn, o Options) (*runner, error) {
	r := &runner{conn: conn, mode: execMode(conn), schema: o.Schema, lockWait: o.LockWait, indexWait: o.IndexWait, progress: o.Progress}
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
	if r.indexWait <= 0 {
		r.indexWait = DefaultIndexWait
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

// step is how far one turn of [runner.apply] came.
type step int

const (
	finished step = iota // the database has the whole directory
	advanced             // something was committed, or the history has moved on: look again
	busy                 // somebody holds a lock: try again later
)

// apply takes turns: files of one transaction together, a file that builds an
// index alone, until nothing is pending.
//
// A turn that meets a lock ends and is tried again. It tries instead of waiting:
// a runner that waits inside a statement holds a snapshot, for which CREATE INDEX
// CONCURRENTLY of the runner it waits for would wait in turn; one that waits inside
// a transaction occupies a pooler's only server connection; and one that waits for
// a table has everybody who comes after it in the table's queue wait as well.
func (r *runner) apply(ctx context.Context) (res Result, err error) {
	res.Schema = r.schema
	deadline, waiting := time.Now().Add(r.lockWait), false
	for {
		s, err := r.turn(ctx, &res)
		switch {
		case s == busy && time.Now().Before(deadline):
			if !waiting {
				r.progress(Event{Stage: Waiting})
			}
			waiting = true
			if err := r.pause(ctx, time.Until(deadline)); err != nil {
				return res, err
			}
		case s == busy && err == nil:
			return res, r.lockedError(ctx)
		case err != nil:
			return res, err
		case s == finished:
			if n := len(r.dir); n > 0 {
				res.Version = r.dir[n-1].Version
			}
			return res, nil
		default:
			deadline, waiting = time.Now().Add(r.lockWait), false
		}
	}
}

func (r *runner) pause(ctx context.Context, left time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(left, lockPoll+rand.N(lockPoll))):
		return nil
	}
}

// turn looks without a lock for what comes next, and does it with the lock. Many
// runners that start together find one after the other that nothing is left.
func (r *runner) turn(ctx context.Context, res *Result) (step, error) {
	s, err := r.look(ctx)
	switch {
	case err != nil && r.conn.IsClosed():
		return finished, err
	case err != nil: // perhaps the holder of the lock is about to complete it: only under the lock does it count
		return r.together(ctx, res)
	case s.access.exists && len(s.pending) == 0:
		return finished, nil
	case len(s.pending) > 0 && s.pending[0].index != "":
		return r.alone(ctx, s.pending[0], res)
	}
	return r.together(ctx, res)
}

// together applies the pending files up to the first that must be alone, in one
// transaction.
func (r *runner) together(ctx context.Context, res *Result) (next step, err error) {
	tx, err := r.tryLocked(ctx)
	if err != nil {
		return finished, err
	}
	if tx == nil {
		return busy, nil
	}
	committed := false
	defer func() { // also when Progress panics: the transaction holds the locks
		if !committed {
			err = errors.Join(err, r.rollback(ctx, tx))
		}
	}()
	if err := r.limitStatements(ctx, tx); err != nil {
		return finished, err
	}
	s, err := r.prepare(ctx, tx)
	if err != nil {
		return finished, err
	}
	next = finished
	var applied []File
	for _, m := range s.pending {
		if m.index != "" {
			next = advanced
			break
		}
		if err := r.applyFile(ctx, tx, m); err != nil {
			if errors.Is(err, ErrLocked) {
				return busy, err
			}
			return finished, err
		}
		applied = append(applied, m.File)
	}
	if err := tx.Commit(ctx); err != nil {
		return finished, r.wrap(err, "", "commit", "")
	}
	committed = true
	res.did(!s.access.exists && len(s.pending) > 0, applied...)
	return next, nil
}

// did adds what was committed to the result.
func (res *Result) did(created bool, files ...File) {
	res.Created = res.Created || created
	res.Applied = append(res.Applied, files...)
	if n := len(res.Applied); n > 0 {
		res.Version = res.Applied[n-1].Version
	}
}

// findings is what a database has, proved against the directory.
type findings struct {
	access    access
	revisions []revision
	pending   directory
	started   bool     // the first pending file, which builds an index, was begun before
	invalid   []string // indexes that an interrupted build left behind
}

// prepare proves the history and makes what is needed to add to it.
func (r *runner) prepare(ctx context.Context, tx pgx.Tx) (findings, error) {
	s, err := r.inspect(ctx, tx)
	if err != nil || len(s.pending) == 0 {
		return s, err
	}
	for _, m := range s.pending {
		if m.index != "" {
			if err := r.requireDirect(ctx, tx, m); err != nil {
				return s, err
			}
			break
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
	if s.invalid, err = r.invalidIndexes(ctx, tx); err != nil {
		return s, err
	}
	s.pending, s.started, err = r.dir.pending(s.revisions, r.schema)
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
	if err := r.writeRevision(ctx, tx, m, int64(m.Statements), time.Since(start)); err != nil {
		return r.ledgerError(err, m)
	}
	r.progress(Event{Stage: Applied, File: m.File})
	return nil
}

// look inspects without a lock, in one snapshot, so that a migration that commits
// meanwhile is seen whole or not at all.
func (r *runner) look(ctx context.Context) (findings, error) {
	tx, err := r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return findings{}, r.wrap(err, "", "begin", "")
	}
	s, err := r.inspect(ctx, tx)
	return s, errors.Join(err, r.rollback(ctx, tx))
}

func (r *runner) status(ctx context.Context) (State, error) {
	s, err := r.look(ctx)
	if err != nil {
		return State{}, err
	}
	status := State{Schema: r.schema, Exists: s.access.exists, Started: s.started, Invalid: s.invalid}
	for _, rev := range s.revisions[:len(r.dir)-len(s.pending)] {
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
