package driver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// TestSharedReads: point reads that come while two are under way share one statement.
func TestSharedReads(t *testing.T) {
	l := newLab(t, patient)
	a, b := plain(slot("a")), plain(slot("b"))
	l.transact(creates(a, b))
	release := l.hold("LOCK TABLE runlane.runlane_record_queue_slots IN ACCESS EXCLUSIVE MODE")
	jam := []func() (storage.Commit, error){l.start(reads(a.Key)), l.start(reads(b.Key))}
	l.blocked(2)
	before := l.d.Stats().Reads
	waiting := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return l.d.Stats().Reads.Waiting == n }, 20*time.Second, time.Millisecond)
	}
	var waits []func() (storage.Commit, error)
	for range 20 {
		waits = append(waits, l.start(func(ctx context.Context, tx storage.Tx) error {
			found, err := tx.GetMany(ctx, []storage.Key{a.Key, slot("absent"), b.Key})
			if err == nil && (len(found) != 2 || string(found[a.Key].Document) != `{"n": 1}` || found[b.Key].Version.IsZero()) {
				err = fmt.Errorf("read %v", found)
			}
			return err
		}))
	}
	waiting(20)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := l.d.Transact(ctx, "leaves", reads(a.Key))
		left <- err
	}()
	waiting(21)
	cancel()
	require.Equal(t, context.Canceled, <-left)
	waiting(20)
	l.tap.take()
	release()
	for _, wait := range append(jam, waits...) {
		_, err := wait()
		require.NoError(t, err)
	}
	require.Equal(t, []string{"lookup"}, l.tap.kinds())
	now := l.d.Stats().Reads
	require.EqualValues(t, 1, now.Shared-before.Shared)
	require.EqualValues(t, 20, now.Together-before.Together)
}

// TestSharedAppends: appends to a stream that come while one is under way go together,
// and each is told its own positions. One that must fail fails alone.
func TestSharedAppends(t *testing.T) {
	l := newLab(t, patient)
	stream, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(t, err)
	other, err := codec.ObservationHeadKey("prod", "other")
	require.NoError(t, err)
	foreign, err := codec.ObservationHeadKey("prod", "foreign")
	require.NoError(t, err)
	l.transact(appends(stream, `"first"`))
	l.transact(creates(storage.Record{Key: foreign, Document: []byte(`{"of":"a newer version"}`)}))
	release := l.hold("SELECT FROM runlane.runlane_record_observation_heads WHERE record_id = $1 FOR UPDATE", stream.ID)
	jam := l.start(appends(stream, `"second"`))
	l.blocked(1)
	before := l.d.Stats().Appends
	const callers = 20
	var waits []func() (storage.Commit, error)
	for i := range callers {
		waits = append(waits, l.start(func(ctx context.Context, tx storage.Tx) error {
			if err := tx.Append(ctx, stream, fmt.Appendf(nil, `"%d a"`, i), fmt.Appendf(nil, `"%d b"`, i)); err != nil {
				return err
			}
			return tx.Append(ctx, other, fmt.Appendf(nil, `"%d"`, i))
		}))
		require.Eventually(t, func() bool { return l.d.Stats().Appends.Waiting == i+1 }, 20*time.Second, time.Millisecond)
	}
	release()
	_, err = jam()
	require.NoError(t, err)
	for i, wait := range waits {
		commit, err := wait()
		require.NoError(t, err)
		n := int64(i)
		require.Equal(t, []storage.Appended{
			{Head: stream, First: 3 + 2*n, Last: 4 + 2*n}, {Head: other, First: 1 + n, Last: 1 + n},
		}, commit.Appended)
		require.False(t, commit.Time.IsZero())
		require.Equal(t, 1, commit.Attempts)
	}
	now := l.d.Stats().Appends
	require.EqualValues(t, 1, now.Shared-before.Shared)
	require.EqualValues(t, callers, now.Together-before.Together)
	require.Equal(t, []string{"first", "second", "0 a", "0 b", "1 a", "1 b"}, column[string](l,
		`SELECT record_document #>> '{value,data}' FROM runlane.runlane_record_observation_records
		WHERE record_document #>> '{value,stream}' = 's' ORDER BY observations_by_position_sort LIMIT 6`))

	release = l.hold("SELECT FROM runlane.runlane_record_observation_heads WHERE record_id = $1 FOR UPDATE", stream.ID)
	jam = l.start(appends(stream, `1`))
	l.blocked(1)
	waits = waits[:0]
	for _, heads := range [][]storage.Key{{stream}, {stream, foreign}, {stream}} {
		waits = append(waits, l.start(func(ctx context.Context, tx storage.Tx) error {
			for _, head := range heads {
				if err := tx.Append(ctx, head, []byte(`1`)); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Eventually(t, func() bool { return l.d.Stats().Appends.Waiting == len(waits) }, 20*time.Second, time.Millisecond)
	}
	release()
	_, err = jam()
	require.NoError(t, err)
	for i, wait := range waits {
		_, err := wait()
		if i == 1 {
			require.ErrorIs(t, err, storage.ErrInvalidDocument)
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2+2*callers+3, scalar[int](l, "SELECT count(*)::int FROM runlane.runlane_record_observation_records WHERE record_document #>> '{value,stream}' = 's'"))
}
