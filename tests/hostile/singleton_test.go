package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// TestHolderOfHostileSingleton: who is refused because another active run holds its
// singleton key is told which, also if the names are spelt like what separates them.
func TestHolderOfHostileSingleton(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{
		{"a, b", "c"}, {"a", "b, c"}, {"a", "b"}, {"a, b, c", "d"}, {"a, b", "c, d"}, {"a", "b, c, d"},
		{"t", ") already exists."}, {"t", "k) already exists."}, {"t", "=("}, {"=(", "k"}, {")", "("},
	}
	for i := 0; i < len(texts); i += 5 {
		pairs = append(pairs, [2]string{nameOf(texts[i]), texts[i]})
	}
	onBoth(t, func(s *store) {
		record := func(id string, pair [2]string) storage.Record {
			return encodeRun(s.T, after(s.T, nil, created("e\"$1 ,", id, run.Created{Task: pair[0], SingletonKey: pair[1]})))
		}
		var holders []storage.Record
		for i, pair := range pairs {
			holders = append(holders, record(show("r%d", i), pair))
		}
		s.create(holders...)
		before := s.rows()
		for i, pair := range pairs {
			_, err := s.transact(creates(record("new", pair)))
			var refused *storage.DuplicateActiveError
			require.ErrorAs(s, err, &refused, "%q", pair)
			require.Equal(s, [4]string{"e\"$1 ,", pair[0], pair[1], show("r%d", i)},
				[4]string{refused.Environment, refused.Task, refused.SingletonKey, refused.RunID})
		}
		require.Equal(s, before, s.rows())
	})
}
