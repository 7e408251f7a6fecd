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
// has a snapshot of its own, committed by the Sync, in one round trip. A small commit
// may share it with others, see sharedCommit.
func (s *session) Commit(ctx context.Context, p *txn.Plan) (txn.Committed, error) {
	c, err := s.prepare(ctx, p)
	if err != nil {
		return txn.Committed{}, err
	}
	switch {
	case c.shareable():
		err = c.together(ctx, s.d.commits)
	case c.onlyAppends():
		err = c.together(ctx, s.d.appends)
	default:
		err = c.alone(ctx)
	}
	if err != nil {
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

// prepare makes everything about a commit that does not need its transaction.
func (s *session) prepare(ctx context.Context, p *txn.Plan) (*commit, error) {
	c := &commit{session: s, plan: p, first: make([]int64, len(p.Appends))}
	for i := range p.Appends {
		c.items += len(p.Appends[i].Items)
	}
	versions, deadline, low, err := s.versions(ctx, len(p.Mutations)+len(p.Appends)+c.items)
	if err != nil {
		return nil, err
	}
	c.deadline, c.low = deadline, low
	c.versions, versions = versions[:len(p.Mutations)], versions[len(p.Mutations):]
	c.heads, c.records = versions[:len(p.Appends)], versions[len(p.Appends):]
	c.groups = s.d.names.groupPlan(p, c.versions)
	return c, nil
}

// commit is one commit on its way.
type commit struct {
	pipeline
	session  *session
	plan     *txn.Plan
	items    int               // how many the plan appends
	versions []storage.Version // of the mutations
	heads    []storage.Version // of the heads of the plan's streams
	records  []storage.Version // of the items, stream after stream
	deadline time.Time         // of the database: what arrives later must fail
	low      bool              // versions are running low
	groups   []*group
	at       time.Time
	first    []int64 // positions of the first items
	locks    int     // advisory locks that the pipeline takes
	fate     fate    // what became of it on a trip with others
}

// pipeline is a batch of statements that knows how far the server came with it.
type pipeline struct {
	batch    pgx.Batch
	answered int // statements whose result has been read
}

// alone commits in a transaction of the commit's own, or in the one that is open.
func (c *commit) alone(ctx context.Context) error {
	c.queue()
	lost, err := c.send(ctx)
	if lost != nil {
		return lost.find(ctx, err)
	}
	return err
}

// queue queues the statements of the commit.
func (c *commit) queue() {
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
	if c.low {
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
	c.count()
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

// count makes every queued statement count itself when its result has been read.
func (p *pipeline) count() {
	for _, q := range p.batch.QueuedQueries {
		read := q.Fn
		q.Fn = func(br pgx.BatchResults) error {
			var err error
			if read != nil {
				err = read(br)
			} else {
				_, err = br.Exec()
			}
			if err == nil {
				p.answered++
			}
			return err
		}
	}
}

// send sends the commit. What dies after it was sent leaves a question, see outcome:
// then lost is set.
func (c *commit) send(ctx context.Context) (lost *outcome, err error) {
	s := c.session
	if err := s.reserve(ctx, c.locks); err != nil {
		return nil, err
	}
	defer s.free()
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	err = s.send(ctx, conn, &c.batch, s.joined != nil)
	switch {
	case err == nil:
		s.open = false
		c.at = c.at.UTC()
		s.d.coalesce(s, c.plan.Topics)
		return nil, nil
	case s.joined != nil || c.failedBeforeCommit(err, s.open):
		return nil, c.refused(ctx, err)
	}
	if len(c.versions)+len(c.records) == 0 {
		return nil, lostConnection(err) // nothing but hints, which may be sent twice
	}
	s.open = false // so that there is a connection to look with
	return &outcome{commit: c, process: conn.PgConn().PID()}, err
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
// explicit says that the last statement is COMMIT itself.
func (p *pipeline) failedBeforeCommit(err error, explicit bool) bool {
	if notSent(err) || errors.Is(err, errRolledBack) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	before := p.batch.Len()
	if explicit {
		before--
	}
	return pg.SeverityUnlocalized == "ERROR" || p.answered < before
}
