package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// outcome finds out what became of a commit whose connection died after it was
// sent. What makes that possible: the commit fails if it arrives after its
// deadline, it happened as a whole or not at all, and its record versions were
// drawn for it alone. So the driver waits until the commit can no longer begin,
// then for the locks that it would still hold, and then reads its keys.
type outcome struct {
	commit  *commit
	process uint32 // of the lost connection
}

// verdict is what the records say about a commit.
type verdict uint8

const (
	undecided    verdict = iota
	committed            // something stands there that only this commit wrote
	notCommitted         // something stands there, or is absent, as it was before
)

const (
	lookFirst = 10 * time.Millisecond
	lookCap   = 250 * time.Millisecond
	// stepBack is how far the database's clock may have been set back between the
	// commit and the search.
	stepBack = time.Minute
	itemPage = 500
)

var errMayStillCommit = errors.New("storage/postgres: the commit may still be under way")

// find answers like a commit: nil if it took effect, a replay if it did not.
func (o *outcome) find(ctx context.Context, cause error) error {
	d, label := o.commit.session.d, o.commit.session.label
	if ctx.Err() != nil {
		return &storage.CommitUnknownError{Label: label, Err: ctx.Err()}
	}
	search, cancel := context.WithTimeout(ctx, d.config.OutcomeTimeout)
	defer cancel()
	for pause := lookFirst; ; pause = min(2*pause, lookCap) {
		found, err := o.look(search)
		switch {
		case found == committed:
			return nil
		case found == notCommitted:
			return lostConnection(cause)
		case err == nil:
			return &storage.CommitUnknownError{Label: label, Err: cause}
		}
		if d.engine.Sleep(search, pause) != nil {
			if ctx.Err() != nil {
				cause = ctx.Err()
			}
			// What the search failed on stands there in words only: nobody must take this
			// for something that can be tried again.
			return &storage.CommitUnknownError{Label: label, Err: fmt.Errorf("%w; the search for it: %s", cause, err.Error())}
		}
	}
}

// look looks once. An error means that it is too early to tell, or that there is
// no connection to tell by; undecided without an error is final.
func (o *outcome) look(ctx context.Context) (verdict, error) {
	s := o.commit.session
	conn, err := s.d.acquire(ctx)
	if err != nil {
		return undecided, err
	}
	defer conn.Release()
	found, err := o.read(ctx, conn.Conn(), false)
	if found == committed || err != nil {
		return found, err
	}
	var (
		ended bool
		told  *bool
		sent  = o.commit.deadline.Add(-s.d.config.CommitTimeout).UTC().Format(storage.TimeFormat)
	)
	s.roundTrips++
	rows, err := s.d.ask(conn.Conn()).Query(ctx, s.d.statements.commitEnded, o.commit.deadlineText(), int64(o.process), int64(conn.Conn().PgConn().PID()), sent)
	if err == nil {
		err = scanAll(rows, func(rows pgx.Rows) error { return rows.Scan(&ended, &told) })
	}
	if err == nil && !ended {
		err = errMayStillCommit
	}
	if err != nil {
		return undecided, err
	}
	return o.read(ctx, conn.Conn(), true)
}

// read reads the keys of the commit; locked waits first for whoever holds them.
// That can be the commit itself: it took them before its deadline and has not
// ended.
func (o *outcome) read(ctx context.Context, conn *pgx.Conn, locked bool) (verdict, error) {
	c, s := o.commit, o.commit.session
	batch := &pgx.Batch{}
	var written []storage.Key
	for i := range c.plan.Mutations {
		written = append(written, c.plan.Mutations[i].Key)
	}
	if locked {
		var texts []string
		for _, k := range written {
			texts = append(texts, s.d.names.keyLock(k))
		}
		for i := range c.plan.Appends {
			texts = append(texts, s.d.names.keyLock(c.plan.Appends[i].Head))
		}
		s.settings(batch)
		batch.Queue(s.d.statements.lockWait, texts, make([]bool, len(texts))) // shared: only to see them free
	}
	var recs []storage.Record
	if len(written) > 0 {
		arms, args := lookupArms(written)
		batch.Queue(s.d.statements.lookup(arms, versionsOnly), args...).Query(func(rows pgx.Rows) error {
			return scanAll(rows, scanRecords(&recs))
		})
	}
	s.roundTrips++
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return undecided, err
	}
	found := o.judge(recs)
	if len(c.plan.Appends) == 0 {
		return found, nil
	}
	appended, err := o.findItems(ctx, conn)
	switch {
	case err != nil:
		return undecided, err
	case appended:
		return committed, nil
	case found == undecided:
		return notCommitted, nil // items stay where they were appended
	}
	return found, nil
}

// judge compares the plan's mutations with what stands there now. One version of
// the commit's own proves that it took effect; one fence that it would have
// replaced, or the absence of what it would have created, that it did not. Others
// may have written since: what is neither says nothing.
func (o *outcome) judge(recs []storage.Record) verdict {
	now := make(map[storage.Key]storage.Version, len(recs))
	for _, r := range recs {
		now[r.Key] = r.Version
	}
	found := undecided
	for i := range o.commit.plan.Mutations {
		m := &o.commit.plan.Mutations[i]
		version, present := now[m.Key]
		switch {
		case m.Op != txn.Delete && version == o.commit.versions[i]:
			return committed
		case m.Op == txn.Insert && !present && !comesAndGoes(m.Key.Collection), m.Op != txn.Insert && version == m.Before.Version:
			found = notCommitted
		}
	}
	return found
}

// comesAndGoes reports whether records of a collection are deleted as a matter of
// course, soon after they were created: that such a record is absent does not say that
// it never was there. All others outlive the search for the outcome of their creation.
func comesAndGoes(c storage.Collection) bool {
	return c == storage.QueueSlots || c == storage.SingletonOwners || c == storage.IdempotencyOwners
}

// findItems looks for the appended items from the end of each stream, back to
// before the commit was sent, and keeps their positions.
func (o *outcome) findItems(ctx context.Context, conn *pgx.Conn) (found bool, err error) {
	c := o.commit
	oldest := c.deadline.Add(-c.session.d.config.CommitTimeout - stepBack)
	record := 0
	for i := range c.plan.Appends {
		a := &c.plan.Appends[i]
		own := c.records[record].Int64() // the first item's
		record += len(a.Items)
		for before, done := highest, false; !done; {
			var page []item
			if page, err = o.itemPage(ctx, conn, a.Head.Partition+a.Head.ID, before); err != nil {
				return false, err
			}
			done = len(page) < itemPage
			for _, it := range page {
				before = it.sort
				if it.version == own {
					if c.first[i], err = keys.DecodeInt(it.sort); err != nil {
						return false, err
					}
					found, done = true, true
				}
				done = done || it.at.Before(oldest)
			}
		}
	}
	return found, nil
}

// item is what the search sees of a record of a stream.
type item struct {
	version int64
	sort    string
	at      time.Time // far in the future if the record does not say
}

func (o *outcome) itemPage(ctx context.Context, conn *pgx.Conn, stream, before string) (page []item, err error) {
	s := o.commit.session
	s.roundTrips++
	rows, err := s.d.ask(conn).Query(ctx, s.d.statements.appended, stream, before, itemPage)
	if err != nil {
		return nil, err
	}
	err = scanAll(rows, func(rows pgx.Rows) error {
		var (
			it item
			at *string
		)
		if err := rows.Scan(&it.version, &it.sort, &at); err != nil {
			return err
		}
		it.at = time.Unix(math.MaxInt32, 0)
		if at != nil {
			if t, err := time.Parse(storage.TimeFormat, *at); err == nil {
				it.at = t
			}
		}
		page = append(page, it)
		return nil
	})
	return page, err
}
