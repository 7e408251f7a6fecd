package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// Commit is txn.Session.Commit. Without an open transaction everything travels in
// one pipeline before one Sync: an implicit transaction in which each statement
// has a snapshot of its own, committed by the Sync, in one round trip.
func (s *session) Commit(ctx context.Context, p *txn.Plan) (txn.Committed, error) {
	versions, low, err := s.versions(ctx, len(p.Mutations))
	if err != nil {
		return txn.Committed{}, err
	}
	c := commit{session: s, plan: p, groups: s.d.names.groupPlan(p, versions)}
	c.queue(low)
	if err := c.send(ctx); err != nil {
		return txn.Committed{}, err
	}
	for i := range p.Mutations {
		if p.Mutations[i].Op == txn.Delete {
			versions[i] = storage.Version{}
		}
	}
	return txn.Committed{Versions: versions, Time: c.at.UTC()}, nil
}

// versions takes versions for n mutations, drawing a block if there are too few.
func (s *session) versions(ctx context.Context, n int) (versions []storage.Version, low bool, err error) {
	for {
		versions, low, ok := s.d.block.take(n)
		if ok {
			return versions, low, nil
		}
		conn, err := s.connect(ctx)
		if err != nil {
			return nil, false, err
		}
		batch := &pgx.Batch{}
		s.d.draw(batch, max(versionDraw, n))
		s.roundTrips++
		err = classify(ctx, conn.SendBatch(ctx, batch).Close(), nil, nil)
		s.free()
		if err != nil {
			return nil, false, err
		}
	}
}

// commit is one commit on its way.
type commit struct {
	session  *session
	plan     *txn.Plan
	groups   []*group
	batch    pgx.Batch
	at       time.Time
	answered int // statements whose result has been read
}

// queue queues the statements of the commit.
func (c *commit) queue(drawVersions bool) {
	s := c.session
	if !s.open {
		s.settings(&c.batch)
	}
	if texts, exclusive := s.d.locks(c.plan, c.groups); len(texts) > 0 {
		c.batch.Queue(s.d.statements.lockTry, texts, exclusive)
	}
	if len(c.groups) > 0 {
		// Only the time is read: the asserts of the select list have done their work.
		c.batch.Queue(s.d.statements.commit(c.groups), groupArgs(c.groups)...).Query(func(rows pgx.Rows) error {
			return scanAll(rows, func(rows pgx.Rows) error {
				values := make([]any, len(rows.FieldDescriptions()))
				values[0] = &c.at
				return rows.Scan(values...)
			})
		})
	}
	if len(c.plan.Topics) > 0 && s.d.config.Wakes == WakeInTransaction {
		c.batch.Queue(s.d.statements.notify, s.d.channel, c.plan.Topics)
	}
	if drawVersions {
		s.d.draw(&c.batch, versionDraw)
	}
	if s.open {
		c.batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
			if tag.String() != "COMMIT" {
				return errRolledBack
			}
			return nil
		})
	}
	for _, q := range c.batch.QueuedQueries {
		c.count(q)
	}
}

// errRolledBack is COMMIT answered with ROLLBACK: the transaction had failed.
var errRolledBack = errors.New("storage/postgres: COMMIT was answered with ROLLBACK")

// count makes a queued statement count itself when its result has been read.
func (c *commit) count(q *pgx.QueuedQuery) {
	read := q.Fn
	q.Fn = func(br pgx.BatchResults) error {
		var err error
		if read != nil {
			err = read(br)
		} else {
			_, err = br.Exec()
		}
		if err == nil {
			c.answered++
		}
		return err
	}
}

// send sends the commit and finds out what became of it.
func (c *commit) send(ctx context.Context) error {
	s := c.session
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.free()
	s.roundTrips++
	err = conn.SendBatch(ctx, &c.batch).Close()
	if err == nil {
		s.open = false
		return nil
	}
	if c.failedBeforeCommit(err) {
		return classify(ctx, err, c.groups, lockKeys(c.plan))
	}
	s.open = false
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &storage.CommitUnknownError{Label: s.label, Err: err}
}

// failedBeforeCommit reports whether an error proves that nothing was committed:
// it never left this process, or the server refused a statement before the commit.
func (c *commit) failedBeforeCommit(err error) bool {
	if notSent(err) || errors.Is(err, errRolledBack) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	before := c.batch.Len()
	if c.session.open {
		before-- // the last statement is COMMIT itself
	}
	return pg.SeverityUnlocalized == "ERROR" || c.answered < before
}
