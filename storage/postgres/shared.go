package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// Bounds of the transactions that commits share. Two are under way at a time: while
// the server writes the one to disk it works on the other.
const (
	sharedTransactions = 2
	sharedCommits      = 128     // in one transaction
	sharedKeys         = 1024    // that one transaction locks
	sharedBytes        = 4 << 20 // of documents that one transaction writes
	memberKeys         = 64      // of a commit that may share
	memberBytes        = 256 << 10
)

// claims are the keys of commits: the number of those that only read a key, or -1 for
// one that writes it.
type claims map[storage.Key]int

// conflict returns the first key for which a commit with these locks cannot go
// together with all that have claims, since one would write what the other reads or
// writes. written says that it is the other that writes.
func (c claims) conflict(locks []txn.Lock) (key storage.Key, written, found bool) {
	for _, l := range locks {
		if n := c[l.Key]; n < 0 || n > 0 && !l.Shared {
			return l.Key, n < 0, true
		}
	}
	return storage.Key{}, false, false
}

func (c claims) add(locks []txn.Lock) {
	for _, l := range locks {
		if l.Shared && c[l.Key] >= 0 {
			c[l.Key]++
		} else {
			c[l.Key] = -1
		}
	}
}

func (c claims) remove(locks []txn.Lock) {
	for _, l := range locks {
		if c[l.Key]--; c[l.Key] <= 0 {
			delete(c, l.Key)
		}
	}
}

// newCommits makes the batcher of commits. The members of a transaction are validated
// against one snapshot, so two of which one reads what the other writes would both
// pass, and both commit: write skew. They never travel together, nor at the same time.
// One that depends on what is being written replays at once, as if it had met the
// lock. One that writes what is only being read waits, and nothing that came after it
// and touches the same keys goes before it.
func (d *Driver) newCommits() *batcher[*commit] {
	underWay := make(claims)
	admit := func(c *commit) bool {
		key, written, busy := underWay.conflict(c.plan.Locks)
		if busy && written {
			c.fate = fate{err: &txn.Replay{Reason: storage.ReasonLocked, Key: key}}
		}
		return !busy || !written
	}
	board := func() func(*commit, bool) boarding {
		ahead := make(claims) // of those that wait
		keys, bytes, most := 0, 0, min(sharedKeys, d.budget.size())
		return func(c *commit, room bool) boarding {
			if !admit(c) {
				return dismissed
			}
			locks, size := c.plan.Locks, c.size()
			_, _, busy := underWay.conflict(locks)
			_, _, behind := ahead.conflict(locks)
			room = room && (keys == 0 || keys+len(locks) <= most && bytes+size <= sharedBytes)
			if busy || behind || !room {
				ahead.add(locks)
				return wait
			}
			keys, bytes = keys+len(locks), bytes+size
			underWay.add(locks)
			return aboard
		}
	}
	return &batcher[*commit]{
		admit: admit, board: board, land: func(c *commit) { underWay.remove(c.plan.Locks) }, send: d.sendShared,
		most: sharedCommits, free: sharedTransactions, trips: &d.calls,
	}
}

// size is the bytes of documents that a commit writes.
func (c *commit) size() int {
	size := 0
	for i := range c.plan.Mutations {
		size += len(c.plan.Mutations[i].Record.Document)
	}
	return size
}

// shareable reports whether the commit may share a transaction: it is small, has none
// open, and takes no locks but those of its keys.
func (c *commit) shareable() bool {
	s := c.session
	if s.d.commits == nil || s.open || s.joined != nil || c.items > 0 || len(c.plan.Locks) > memberKeys || c.size() > memberBytes {
		return false
	}
	return writes(c.groups) && len(s.d.names.payloadLocks(c.plan, c.groups)) == 0
}

// fate is what became of a commit that waited for its turn.
type fate struct {
	err   error
	lost  *outcome // to be found out, after err
	trips int      // shared round trips
}

// together commits with whoever else commits now. Nobody waits for the search for a
// lost outcome but the commit itself.
func (c *commit) together(ctx context.Context, b *batcher[*commit]) error {
	s := c.session
	err := b.do(ctx, c, func() error {
		c.renew()
		c.queue()
		lost, err := c.send(ctx)
		c.fate = fate{err: err, lost: lost}
		return nil
	})
	switch {
	case errors.Is(err, errAbandoned):
		return &storage.CommitUnknownError{Label: s.label, Err: ctx.Err()}
	case err != nil:
		return err
	}
	s.roundTrips += c.fate.trips
	if c.fate.lost != nil {
		return c.fate.lost.find(ctx, c.fate.err)
	}
	return c.fate.err
}

// renew sets the deadline of a commit that has waited for its turn.
func (c *commit) renew() {
	d := c.session.d
	if now, ok := d.clock.now(); ok {
		c.deadline = now.Add(d.config.CommitTimeout)
	}
}

// sharedCommit is one transaction that several commits share. It tries the locks of
// all; the next statement validates each, applies those that got all their locks and
// depend on nothing that has changed, and leaves out the others, which replay alone.
type sharedCommit struct {
	pipeline
	session *session
	commits []*commit
	groups  []*group
	at      time.Time
	busy    []int64 // places of locks that somebody else holds, from 1
	refused string  // commits that were left out, and the codes of why
}

// sendShared sends commits as one transaction. An error means that nothing was
// committed, and that its cause may lie with one of them.
func (d *Driver) sendShared(ctx context.Context, commits []*commit) error {
	t := &sharedCommit{session: &session{d: d, label: "shared"}, commits: commits}
	locks := t.queue()
	s := t.session
	defer s.free()
	err := s.reserve(ctx, locks)
	var conn *pgx.Conn
	if err == nil {
		conn, err = s.connect(ctx)
	}
	if err != nil {
		t.each(func(c *commit) { c.fate.err = err })
		return nil
	}
	err = s.send(ctx, conn, &t.batch, false)
	switch {
	case err == nil:
		t.tell()
		return nil
	case t.failedBeforeCommit(err, false):
		return err
	}
	process := conn.PgConn().PID()
	t.each(func(c *commit) { c.fate.err, c.fate.lost = err, &outcome{commit: c, process: process} })
	return nil
}

func (t *sharedCommit) each(do func(*commit)) {
	for _, c := range t.commits {
		do(c)
	}
}

// queue queues the statements and returns how many locks they take.
func (t *sharedCommit) queue() (locks int) {
	s, d := t.session, t.session.d
	var (
		texts, topics      []string
		exclusive          []bool
		members, topicsOf  []int32
		groups             = make([][]*group, len(t.commits))
		deadline, drawMore = t.commits[0].deadline, false
	)
	for i, c := range t.commits {
		c.fate = fate{trips: 1}
		c.renew()
		if c.deadline.Before(deadline) {
			deadline = c.deadline
		}
		member := int32(i) //nolint:gosec // few commits share a transaction
		for _, l := range c.plan.Locks {
			texts, exclusive, members = append(texts, d.names.keyLock(l.Key)), append(exclusive, !l.Shared), append(members, member)
		}
		for _, topic := range c.plan.Topics {
			topics, topicsOf = append(topics, topic), append(topicsOf, member)
		}
		groups[i], drawMore = c.groups, drawMore || c.low
	}
	t.each(func(c *commit) { c.deadline = deadline })
	t.groups = merged(groups)
	s.settings(&t.batch)
	t.batch.Queue(d.statements.sharedLockTry, texts, exclusive, members).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.busy, nil)
	})
	t.batch.Queue(d.statements.sharedCommit(t.groups), sharedArgs(t.groups, t.commits[0].deadlineText())...).Query(func(rows pgx.Rows) error {
		return scanAll(rows, func(rows pgx.Rows) error { return scanLeading(rows, &t.at, &t.refused) })
	})
	if len(topics) > 0 && d.config.Wakes == WakeInTransaction {
		t.batch.Queue(d.statements.sharedNotify, d.channel, topics, topicsOf)
	}
	if drawMore {
		d.draw(&t.batch, versionDraw)
	}
	t.count()
	return len(texts)
}

// tell says to each commit what became of it.
func (t *sharedCommit) tell() {
	t.each(func(c *commit) { c.at = t.at.UTC() })
	for _, refusal := range strings.Split(t.refused, ",") {
		member, code, ok := strings.Cut(refusal, " ")
		if i, err := strconv.Atoi(member); ok && err == nil && t.commits[i].fate.err == nil {
			t.commits[i].fate.err = t.stale(t.commits[i], code)
		}
	}
	place := 1
	for _, c := range t.commits {
		for _, l := range c.plan.Locks {
			if len(t.busy) > 0 && t.busy[0] == int64(place) {
				c.fate.err = &txn.Replay{Reason: storage.ReasonLocked, Key: l.Key}
				t.busy = t.busy[1:]
			}
			place++
		}
		if c.fate.err == nil {
			t.session.d.coalesce(c.session, c.plan.Topics)
		}
	}
}

// stale says why a commit was left out.
func (t *sharedCommit) stale(c *commit, code string) error {
	stale := &txn.Replay{Reason: storage.ReasonLocked}
	g := groupAt(t.groups, code)
	if g == nil {
		return stale
	}
	stale.Reason = storage.ReasonChanged
	if g.kind == insertGroup {
		stale.Reason = storage.ReasonExists
	}
	for _, own := range c.groups {
		if own.kind == g.kind && own.collection == g.collection && len(own.keys) == 1 {
			stale.Key = own.keys[0]
		}
	}
	return stale
}
