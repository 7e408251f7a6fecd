package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// carried is what travels with the runs that a context triggers. Tracing keeps no run
// from being stored: what cannot be is made storable, or left out.
func (l *Lane) carried(ctx context.Context) map[string]string {
	if l.carry == nil {
		return nil
	}
	said := l.carry(ctx)
	if len(said) == 0 {
		return nil
	}
	clean := make(map[string]string, len(said))
	for k, v := range said {
		clean[codec.CleanText(k)] = codec.CleanText(v)
	}
	if _, err := marshal(clean, MaxMetadata); err != nil {
		l.log.Warn("what Config.Carry says is left out", "error", err)
		return nil
	}
	return clean
}

// Oldest is the run of a queue that has been due for longest and that no worker has
// taken.
type Oldest struct {
	RunID   string
	Due     time.Time     // by the database's clock
	Waiting time.Duration // since then, by the same clock
}

// OldestPending returns the run of a queue that has been due for longest; the zero
// Oldest if none is due. It reads one index entry for each priority. Where the oldest
// was written by another version, the priority is left out. It is what to watch, and to be
// alarmed by: work that nobody does.
func (l *Lane) OldestPending(ctx context.Context, queue string) (Oldest, error) {
	oldest, _, err := storage.Transact(ctx, l.store, "queue.oldest", func(ctx context.Context, tx storage.Tx) (Oldest, error) {
		var oldest Oldest
		for priority := run.PriorityFirst; priority <= run.PriorityLast; priority++ {
			partition, err := codec.DuePartition(l.env, queue, priority)
			if err != nil {
				return Oldest{}, err
			}
			page, err := tx.Query(ctx, storage.Query{Index: storage.RunsByDue, Partition: partition, Until: storage.ServerNow(), Limit: 1})
			if err != nil {
				return Oldest{}, err
			}
			for _, rec := range page.Records {
				r, kind := codec.DecodeRun(rec)
				if kind == codec.Canonical && (oldest.Due.IsZero() || r.Due.Before(oldest.Due)) {
					oldest = Oldest{RunID: r.ID, Due: r.Due, Waiting: page.Time.Sub(r.Due)}
				}
			}
		}
		return oldest, nil
	})
	if err != nil {
		return Oldest{}, fmt.Errorf("lane: oldest pending run of %q: %w", queue, err)
	}
	return oldest, nil
}
