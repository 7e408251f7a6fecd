package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
)

// Lookup is txn.Session.Lookup: one statement, whatever the mix of collections.
func (s *session) Lookup(ctx context.Context, keys []storage.Key) ([]storage.Record, error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, storage.Key.Compare)
	var (
		arms []storage.Collection
		args []any
	)
	for start := 0; start < len(keys); {
		first, end := keys[start], start
		var ids []string
		for ; end < len(keys) && keys[end].Collection == first.Collection && keys[end].Partition == first.Partition; end++ {
			ids = append(ids, keys[end].ID)
		}
		arms, args = append(arms, first.Collection), append(args, first.Partition, ids)
		start = end
	}
	recs := make([]storage.Record, 0, len(keys))
	all := storage.Collections()
	err := s.query(ctx, func(rows pgx.Rows) error {
		var (
			ordinal int32
			version int64
			rec     storage.Record
		)
		if err := rows.Scan(&ordinal, &rec.Key.Partition, &rec.Key.ID, &version, (*[]byte)(&rec.Document)); err != nil {
			return err
		}
		rec.Key.Collection, rec.Version = all[ordinal], storage.MakeVersion(version)
		recs = append(recs, rec)
		return nil
	}, s.d.statements.lookup(arms), args...)
	return recs, err
}
