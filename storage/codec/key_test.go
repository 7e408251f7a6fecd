package codec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

func TestKeysOfEveryCollection(t *testing.T) {
	covered := map[storage.Collection]bool{storage.RunEventIDOwners: true} // nothing of ours names one
	check := func(key storage.Key, err error) func(c storage.Collection, id string) {
		return func(c storage.Collection, id string) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", c, err)
			}
			if want := (storage.Key{Collection: c, Partition: "$prod!", ID: id}); key != want {
				t.Errorf("got  %v\nwant %v", key, want)
			}
			covered[c] = true
		}
	}
	check(codec.RunKey("prod", "order:123"))(storage.Runs, "$order:123!")
	check(codec.EventKey("prod", eventID))(storage.RunEvents, "%"+eventID.String())
	check(codec.WaitPresenceKey("prod", "order:123"))(storage.RunCompletionWaitPresence, "$order:123!")
	check(codec.IdempotencyKey("prod", "t", "i:1"))(storage.IdempotencyOwners, "$t!$i:1!")
	check(codec.SingletonKey("prod", "t", "s:1"))(storage.SingletonOwners, "$t!$s:1!")
	check(codec.QueueSlotKey("prod", "q", "c:1", 7))(storage.QueueSlots, "$q!$c:1!"+keys.EncodeInt(7))
	check(codec.QueueSlotKey("prod", "q", "", 0))(storage.QueueSlots, "$q!$!"+keys.EncodeInt(0))
	fire, err := keys.EncodeTime(start)
	if err != nil {
		t.Fatal(err)
	}
	check(codec.ScheduleOccurrenceKey("prod", "s:1", start.Add(999)))(storage.ScheduleOccurrences, "$s:1!"+fire)
	check(codec.ScheduleCursorKey("prod", "s:1"))(storage.ScheduleCursors, "$s:1!")
	check(codec.ObservationHeadKey("prod", "runs"))(storage.ObservationHeads, "$runs!")
	check(codec.ObservationKey("prod", "runs", 9))(storage.ObservationRecords, "$runs!"+keys.EncodeInt(9))
	for _, c := range storage.Collections() {
		if !covered[c] {
			t.Errorf("no function names a record of %s", c)
		}
	}
}

// No entry may leave its environment, so every partition begins with the one
// partition of the environment's keys.
func TestPartitionsOfEveryIndex(t *testing.T) {
	want := map[storage.Index]string{
		storage.RunEventsBySequence:           "$prod!$r:1!",
		storage.RunsByDue:                     "$prod!$q!" + keys.EncodeInt(2),
		storage.RunsByLeaseExpiry:             "$prod!",
		storage.RunsWaitingForCompletion:      "$prod!$r:1!",
		storage.RunsByRetention:               "$prod!",
		storage.IdempotencyOwnersByExpiry:     "$prod!",
		storage.QueueSlotsByExpiry:            "$prod!",
		storage.ScheduleOccurrencesByFireTime: "$prod!$s:1!",
		storage.ObservationsByPosition:        "$prod!$runs!",
	}
	for _, ix := range storage.Indexes() {
		got, err := partitionOf(ix, "prod", "r:1", "q", 2, "s:1", "runs")
		if err != nil {
			t.Fatalf("%s: %v", ix, err)
		}
		if got != want[ix] {
			t.Errorf("the partition of %s is %q, not %q", ix, got, want[ix])
		}
		if _, err := partitionOf(ix, "pr:od", "r:1", "q", 2, "s:1", "runs"); err == nil {
			t.Errorf("%s takes an environment with a colon", ix)
		} else {
			wantInputError(t, err, storage.ErrInvalidKey, "environment")
		}
	}
}

func partitionOf(ix storage.Index, env, runID, queue string, priority int, schedule, stream string) (string, error) {
	switch ix {
	case storage.RunEventsBySequence:
		return codec.EventsPartition(env, runID)
	case storage.RunsByDue:
		return codec.DuePartition(env, queue, priority)
	case storage.RunsByLeaseExpiry:
		return codec.LeaseExpiryPartition(env)
	case storage.RunsWaitingForCompletion:
		return codec.WaitingPartition(env, runID)
	case storage.RunsByRetention:
		return codec.RetentionPartition(env)
	case storage.IdempotencyOwnersByExpiry:
		return codec.IdempotencyExpiryPartition(env)
	case storage.QueueSlotsByExpiry:
		return codec.QueueSlotExpiryPartition(env)
	case storage.ScheduleOccurrencesByFireTime:
		return codec.OccurrencesPartition(env, schedule)
	default:
		return codec.ObservationsPartition(env, stream)
	}
}

func TestKeysAreRefusedWithTheFieldNamed(t *testing.T) {
	long := strings.Repeat("ü", 128)
	wide := strings.Repeat(" ", 255) // each space is three bytes when encoded
	key := func(_ storage.Key, err error) error { return err }
	part := func(_ string, err error) error { return err }
	tests := []struct {
		field string
		err   error
		kind  error
	}{
		{"environment", key(codec.RunKey("", "r")), storage.ErrInvalidKey},
		{"environment", key(codec.EventKey("a:b", eventID)), storage.ErrInvalidKey},
		{"environment", part(codec.Partition(long)), storage.ErrTooLarge},
		{"run_id", key(codec.RunKey("e", long)), storage.ErrTooLarge},
		{"run_id", key(codec.RunKey("e", "a\x00")), storage.ErrInvalidKey},
		{"event_id", key(codec.EventKey("e", uuid.Nil)), storage.ErrInvalidKey},
		{"source_run_id", key(codec.WaitPresenceKey("e", "")), storage.ErrInvalidKey},
		{"task", key(codec.IdempotencyKey("e", "a:b", "k")), storage.ErrInvalidKey},
		{"idempotency_key", key(codec.IdempotencyKey("e", "t", "\xff")), storage.ErrInvalidKey},
		{"key", key(codec.IdempotencyKey("e", wide, wide)), storage.ErrTooLarge},
		{"task", key(codec.SingletonKey("e", "", "k")), storage.ErrInvalidKey},
		{"singleton_key", key(codec.SingletonKey("e", "t", "")), storage.ErrInvalidKey},
		{"queue", key(codec.QueueSlotKey("e", "a:b", "", 1)), storage.ErrInvalidKey},
		{"concurrency_key", key(codec.QueueSlotKey("e", "q", "\x00", 1)), storage.ErrInvalidKey},
		{"schedule_id", key(codec.ScheduleOccurrenceKey("e", "", start)), storage.ErrInvalidKey},
		{"fire_time", key(codec.ScheduleOccurrenceKey("e", "s", time.Time{})), storage.ErrInvalidKey},
		{"fire_time", key(codec.ScheduleOccurrenceKey("e", "s", run.AtCommit)), storage.ErrInvalidKey},
		{"schedule_id", key(codec.ScheduleCursorKey("e", long)), storage.ErrTooLarge},
		{"stream", key(codec.ObservationHeadKey("e", "")), storage.ErrInvalidKey},
		{"stream", key(codec.ObservationKey("e", "", 1)), storage.ErrInvalidKey},
		{"queue", part(codec.DuePartition("e", "a:b", 1)), storage.ErrInvalidKey},
		{"partition", part(codec.DuePartition(wide, wide, 1)), storage.ErrTooLarge},
		{"run_id", part(codec.EventsPartition("e", "")), storage.ErrInvalidKey},
		{"source_run_id", part(codec.WaitingPartition("e", "")), storage.ErrInvalidKey},
		{"schedule_id", part(codec.OccurrencesPartition("e", "")), storage.ErrInvalidKey},
		{"stream", part(codec.ObservationsPartition("e", "")), storage.ErrInvalidKey},
	}
	for _, tt := range tests {
		wantInputError(t, tt.err, tt.kind, tt.field)
	}
	if _, err := codec.RunKey(wide, wide); err != nil {
		t.Errorf("255 bytes that are long when encoded are refused alone: %v", err)
	}
}

// A run whose names fit one by one, but not the index that its status calls for,
// is refused by its encoder and not by the database.
func TestEncodersRefuseWhatFitsNoIndex(t *testing.T) {
	wide := strings.Repeat("!", 255)
	r := smallRun()
	r.Environment, r.Queue = wide, wide
	_, err := codec.EncodeRun(r)
	wantInputError(t, err, storage.ErrTooLarge, "partition")
	r = sampleRun(run.StatusWaiting)
	r.Environment, r.WaitingFor = wide, wide
	_, err = codec.EncodeRun(r)
	wantInputError(t, err, storage.ErrTooLarge, "partition")
	e := sampleEvents()["resumed"]
	e.Environment, e.RunID = wide, wide
	_, err = codec.EncodeEvent(e)
	wantInputError(t, err, storage.ErrTooLarge, "partition")
}

// The largest record of each kind keeps within what one index entry holds.
func TestTheLargestEntriesFit(t *testing.T) {
	wide, half := strings.Repeat("!", 255), strings.Repeat("!", 84)
	r := sampleRun(run.StatusWaiting)
	r.Environment, r.ID, r.WaitingFor = wide, wide, half
	e := sampleEvents()["resumed"]
	e.Environment, e.RunID = wide, half
	o := codec.IdempotencyOwner{Environment: wide, Task: wide, Key: half, RunID: wide, Expires: start}
	for _, rec := range []storage.Record{mustRun(t, r), mustEvent(t, e), mustIdempotencyOwner(t, o)} {
		if err := storage.DefaultLimits().CheckRecord(rec); err != nil {
			t.Error(err)
		}
	}
}
