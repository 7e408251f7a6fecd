package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
)

// Lookup is txn.Session.Lookup: one statement, whatever the mix of collections. Outside
// of a transaction concurrent callers share it.
func (s *session) Lookup(ctx context.Context, keys []storage.Key) ([]storage.Record, error) {
	if s.d.reads == nil || s.open || s.joined != nil || len(keys) > memberReads {
		return s.lookup(ctx, keys)
	}
	return s.lookupTogether(ctx, keys)
}

func (s *session) lookup(ctx context.Context, keys []storage.Key) ([]storage.Record, error) {
	arms, args := lookupArms(keys)
	recs := make([]storage.Record, 0, len(keys))
	err := s.query(ctx, statement{text: s.d.statements.lookup(arms, wholeRecords), args: args, keyed: true}, scanRecords(&recs))
	return recs, err
}

// lookupArms are the arms of a point read, one for each collection and
// environment, and their parameters.
func lookupArms(keys []storage.Key) (arms []storage.Collection, args []any) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, storage.Key.Compare)
	for start := 0; start < len(keys); {
		first, end := keys[start], start
		var ids []string
		for ; end < len(keys) && keys[end].Collection == first.Collection && keys[end].Partition == first.Partition; end++ {
			ids = append(ids, keys[end].ID)
		}
		arms, args = append(arms, first.Collection), append(args, first.Partition, ids)
		start = end
	}
	return arms, args
}

// scanRecords collects the rows of a point read.
func scanRecords(recs *[]storage.Record) func(pgx.Rows) error {
	all := storage.Collections()
	return func(rows pgx.Rows) error {
		var (
			ordinal int32
			version int64
			rec     storage.Record
		)
		if err := rows.Scan(&ordinal, &rec.Key.Partition, &rec.Key.ID, &version, (*[]byte)(&rec.Document)); err != nil {
			return err
		}
		rec.Key.Collection, rec.Version = all[ordinal], storage.MakeVersion(version)
		*recs = append(*recs, rec)
		return nil
	}
}
