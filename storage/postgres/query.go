package postgres

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// highest sorts behind every encoded value: it is the last character of Unicode.
const highest = "\U0010FFFF"

// Select is txn.Session.Select.
func (s *session) Select(ctx context.Context, q storage.Query) (storage.Page, error) {
	args, err := s.d.names.queryArgs(q)
	if err != nil {
		return storage.Page{}, err
	}
	if q.Lock == storage.Exclusive {
		if err := s.reserve(ctx, q.Limit); err != nil {
			return storage.Page{}, err
		}
	}
	p := page{query: q}
	err = s.query(ctx, statement{text: s.d.statements.query(q), args: args, hold: q.Lock == storage.Exclusive}, p.scan)
	return p.page, err
}

// page collects a page row by row.
type page struct {
	query storage.Query
	page  storage.Page
	rows  int
}

// scan reads one row. The first row has the clock even if the page is empty.
func (p *page) scan(rows pgx.Rows) error {
	var (
		at                  time.Time
		partition, id, sort *string
		version             *int64
		document            []byte
		mine                *bool
	)
	dest := []any{&at, &partition, &id, &version, &document, &sort}
	if p.query.Lock == storage.Exclusive {
		dest = append(dest, &mine)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	p.page.Time = at.UTC()
	if id == nil {
		return nil
	}
	p.rows++
	if p.rows == p.query.Limit {
		// A full page may have more behind it. Everything that was scanned counts,
		// also what is left out because it is busy.
		p.page.Resume = storage.Resume{Sort: *sort, ID: *id}
	}
	if mine != nil && !*mine {
		return nil
	}
	p.page.Records = append(p.page.Records, storage.Record{
		Key:      storage.Key{Collection: p.query.Index.On(), Partition: *partition, ID: *id},
		Version:  storage.MakeVersion(*version),
		Document: document,
	})
	return nil
}

// queryArgs are the parameters of a page, see query.sql and its kin.
func (n *names) queryArgs(q storage.Query) ([]any, error) {
	environment, err := keys.First(q.Partition)
	if err != nil {
		return nil, &storage.InputError{Kind: storage.ErrInvalidQuery, Field: "partition", Reason: err.Error()}
	}
	resume := q.Resume
	if resume.IsZero() && q.Direction == storage.Descending {
		resume = storage.Resume{Sort: highest, ID: highest}
	}
	args := []any{q.Partition, environment, bound(q.From, ""), bound(q.Until, highest), resume.Sort, resume.ID, q.Limit}
	if q.Index == storage.RunEventsBySequence {
		args = append(args, nativeArgs(q, strings.TrimPrefix(q.Partition, environment))...)
	}
	if q.Lock == storage.Exclusive {
		before, behind := n.recordLock(q.Index.On())
		args = append(args, before, behind)
		if q.Index == storage.RunEventsBySequence {
			args = append(args, payloadNamespace)
		}
	}
	return args, nil
}

// bound is the sort value of a bound; nil stands for the server's clock.
func bound(b storage.Bound, open string) *string {
	sort := b.Sort()
	switch {
	case b.IsServerNow():
		return nil
	case b.IsZero():
		sort = open
	}
	return &sort
}

// nativeArgs are the bounds of a run's history as sequences: encoded run id, first,
// beyond the last, and where to resume.
func nativeArgs(q storage.Query, runID string) []any {
	from, until := int64(math.MinInt64), int64(math.MaxInt64)
	if sort := q.From.Sort(); sort != "" {
		from, _ = sequenceAt(sort)
	}
	if q.From.IsServerNow() {
		from = math.MaxInt64 // an encoded time sorts behind every sequence
	}
	if sort := q.Until.Sort(); sort != "" {
		until, _ = sequenceAt(sort)
	}
	resume, resumeID := int64(math.MinInt64), ""
	if q.Direction == storage.Descending {
		resume, resumeID = math.MaxInt64, highest
	}
	if !q.Resume.IsZero() {
		var exact bool
		resume, exact = sequenceAt(q.Resume.Sort)
		resumeID = q.Resume.ID
		if !exact {
			resumeID = "" // between two sequences: behind none of the records of this one
		}
	}
	return []any{runID, from, until, resume, resumeID}
}

// sequenceAt is the lowest sequence whose encoding does not stand before sort, and
// whether it is sort itself. Sort values of opaque records need not be sequences.
func sequenceAt(sort string) (sequence int64, exact bool) {
	if n, err := keys.DecodeInt(sort); err == nil {
		return n, true
	}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	for low < high { // binary search over the encodings, which order like the integers
		middle := low + int64(uint64(high-low)/2)
		if keys.EncodeInt(middle) < sort {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, false
}
