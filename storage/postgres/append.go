package postgres

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed4391e180/runlane/storage"
)

// queueAppend queues the ordered append: the locks of the heads, waited for, and
// in a statement of its own, which sees what the wait was for, everything else.
// Heads that the plan has locked already are locked once more, which costs nothing.
func (c *commit) queueAppend() {
	s, p := c.session, c.plan
	var (
		texts, partitions, ids, environments, streams []string
		counts, numbers, places                       []int64
		data                                          []string
	)
	for i := range p.Appends {
		a := &p.Appends[i]
		texts = append(texts, s.d.names.keyLock(a.Head))
		partitions, ids = append(partitions, a.Head.Partition), append(ids, a.Head.ID)
		environments, streams = append(environments, a.Environment), append(streams, a.Stream)
		counts = append(counts, int64(len(a.Items)))
		for place, item := range a.Items {
			numbers, places = append(numbers, int64(i+1)), append(places, int64(place+1))
			data = append(data, string(item))
		}
	}
	c.locks += len(texts) + len(data)
	c.batch.Queue(s.d.statements.lockWait, texts, slices.Repeat([]bool{true}, len(texts)))
	before, behind := s.d.names.recordLock(storage.ObservationRecords)
	args := []any{partitions, ids, environments, streams, integers(c.heads), counts, numbers, places, integers(c.records), data, before, behind, c.deadlineText()}
	row := 0
	c.batch.Queue(s.d.statements.append, args...).Query(func(rows pgx.Rows) error {
		return scanAll(rows, func(rows pgx.Rows) error {
			dest := []any{nil, &c.first[row]}
			if c.at.IsZero() { // nothing but items was written
				dest[0] = &c.at
			}
			row++
			return scanLeading(rows, dest...)
		})
	})
}

func integers(versions []storage.Version) []int64 {
	all := make([]int64, len(versions))
	for i, v := range versions {
		all[i] = v.Int64()
	}
	return all
}

// badHead recognises the refusal of a head that this version does not know.
func (c *commit) badHead(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != stateSerialization {
		return nil
	}
	text, ok := strings.CutPrefix(pg.Detail, "head ")
	if !ok {
		return nil
	}
	refused := &storage.InputError{Kind: storage.ErrInvalidDocument, Field: "head", Reason: "is not one that this version knows"}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(c.plan.Appends) {
		refused.Key = c.plan.Appends[n-1].Head
	}
	return refused
}
