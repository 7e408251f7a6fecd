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
	c := commit{session: s, plan: p, first: make([]int64, len(p.Appends))}
	for i := range p.Appends {
		c.items += len(p.Appends[i].Items)
	}
	versions, deadline, low, err := s.versions(ctx, len(p.Mutations)+len(p.Appends)+c.items)
	if err != nil {
		return txn.Committed{}, err
	}
	c.deadline = deadline
	c.versions, versions = versions[:len(p.Mutations)], versions[len(p.Mutations):]
	c.heads, c.records = versions[:len(p.Appends)], versions[len(p.Appends):]
	c.groups = s.d.names.groupPlan(p, c.versions)
	c.queue(low)
	if err := c.send(ctx); err != nil {
		return txn.Committed{}, err
	}
	for i := range p.Mutations {
		if p.Mutations[i].Op == txn.Delete {
			c.versions[i] = storage.Version{}
		}
	}
	if len(p.Mutations)+c.items == 0 {
		c.at = time.Time{} // there was only something to check, or to hint at
	}
	return txn.Committed{Versions: c.versions, First: c.first, Time: c.at}, nil
}

// commit is one commit on its way.
type commit struct {
	session  *session
	plan     *txn.Plan
	items    int               // how many the plan appends
	versions []storage.Version // of the mutations
	heads    []storage.Version // of the heads of the plan's streams
	records  []storage.Version // of the items, stream after stream
	deadline time.Time         // of the database: what arrives later must fail
	groups   []*group
	batch    pgx.Batch
	at       time.Time
	first    []int64 // positions of the first items
	answered int     // statements whose result has been read
	locks    int     // advisory locks that the batch takes
}

// queue queues the statements of the commit.
func (c *commit) queue(drawVersions bool) {
	s := c.session
	switch {
	case s.open:
	case s.joined != nil:
		s.begin(&c.batch)
	default:
		s.settings(&c.batch)
	}
	if texts, exclusive := s.d.locks(c.plan, c.groups); len(texts) > 0 {
		c.locks = len(texts)
		c.batch.Queue(s.d.statements.lockTry, texts, exclusive)
	}
	if len(c.groups) > 0 {
		// Only the time is read: the asserts of the select list have done their work.
		c.batch.Queue(s.d.statements.commit(c.groups), commitArgs(c.groups, c.deadlineText())...).Query(func(rows pgx.Rows) error {
			return scanAll(rows, func(rows pgx.Rows) error { return scanLeading(rows, &c.at) })
		})
	}
	if len(c.plan.Topics) > 0 && (s.d.config.Wakes == WakeInTransaction || s.joined != nil && s.d.config.Wakes != WakeOff) {
		c.batch.Queue(s.d.statements.notify, s.d.channel, c.plan.Topics)
	}
	if drawVersions {
		s.d.draw(&c.batch, versionDraw)
	}
	if c.items > 0 {
		c.queueAppend()
	}
	switch {
	case s.joined != nil:
		s.joined.release(&c.batch)
	case s.open:
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

// scanLeading reads the first columns of a row.
func scanLeading(rows pgx.Rows, dest ...any) error {
	values := make([]any, len(rows.FieldDescriptions()))
	copy(values, dest)
	return rows.Scan(values...)
}

// deadlineText is the deadline as a parameter. What commits in a joined transaction
// has none: it is not ours to commit.
func (c *commit) deadlineText() string {
	if c.session.joined != nil {
		return "infinity"
	}
	return c.deadline.UTC().Format(storage.TimeFormat)
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
	if err := s.reserve(ctx, c.locks); err != nil {
		return err
	}
	defer s.free()
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	err = s.send(ctx, conn, &c.batch, s.joined != nil)
	switch {
	case err == nil:
		s.open = false
		c.at = c.at.UTC()
		s.d.coalesce(s, c.plan.Topics)
		return nil
	case s.joined != nil || c.failedBeforeCommit(err):
		return c.refused(ctx, err)
	}
	if len(c.versions)+len(c.records) == 0 {
		return lostConnection(err) // nothing but hints, which may be sent twice
	}
	lost := outcome{commit: c, process: conn.PgConn().PID()}
	s.open = false
	s.free() // so that there is a connection to look with
	return lost.find(ctx, err)
}

// refused says in the words of the contract why nothing was committed.
func (c *commit) refused(ctx context.Context, err error) error {
	if bad := c.badHead(err); bad != nil {
		return bad
	}
	err = classify(ctx, err, c.groups, lockKeys(c.plan))
	if stale := (*txn.Replay)(nil); errors.As(err, &stale) {
		switch stale.Reason {
		case storage.ReasonDeadline:
			c.session.d.clock.forget()
		case storage.ReasonWakes:
			c.session.d.config.Logger.WarnContext(ctx, "the notification queue is full; hints are not sent", "error", err)
		}
	}
	return err
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
