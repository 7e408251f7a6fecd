package codec

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// The functions below name records. The partition of every key is the encoding
// of the environment alone; the id is the encoding of the rest.
//
// Names (environment, task, queue) are valid UTF-8 without NUL and ":", other
// texts may contain ":"; both have 1 to 255 bytes. Everything else is a
// [*storage.InputError] that names the field: ErrTooLarge for what is too long,
// by itself or encoded together with its neighbours, otherwise ErrInvalidKey.

// RunKey names a run.
func RunKey(env, id string) (storage.Key, error) {
	return makeKey(storage.Runs, env, tuple().text("run_id", id))
}

// EventKey names an event.
func EventKey(env string, id uuid.UUID) (storage.Key, error) {
	t := tuple()
	if id == uuid.Nil {
		t.refuse("event_id", keys.ReasonEmpty)
	}
	t.Tuple = t.UUID(id)
	return makeKey(storage.RunEvents, env, t)
}

// WaitPresenceKey names the record that says whether any run ever waited for
// sourceRun.
func WaitPresenceKey(env, sourceRun string) (storage.Key, error) {
	return makeKey(storage.RunCompletionWaitPresence, env, tuple().text("source_run_id", sourceRun))
}

// IdempotencyKey names the owner of an idempotency key of a task.
func IdempotencyKey(env, task, key string) (storage.Key, error) {
	return makeKey(storage.IdempotencyOwners, env, tuple().name("task", task).text("idempotency_key", key))
}

// SingletonKey names the owner of a singleton key of a task.
func SingletonKey(env, task, key string) (storage.Key, error) {
	return makeKey(storage.SingletonOwners, env, tuple().name("task", task).text("singleton_key", key))
}

// QueueSlotKey names one capacity slot of a queue. An empty concurrencyKey is the
// queue as a whole.
func QueueSlotKey(env, queue, concurrencyKey string, slot int) (storage.Key, error) {
	t := tuple().name("queue", queue)
	if concurrencyKey == "" {
		t.Tuple = t.String("")
	} else {
		t = t.text("concurrency_key", concurrencyKey)
	}
	return makeKey(storage.QueueSlots, env, t.int(int64(slot)))
}

// ScheduleOccurrenceKey names the fire of a schedule at a time (floored to
// microseconds): the same fire has the same name, whoever materializes it.
func ScheduleOccurrenceKey(env, schedule string, fire time.Time) (storage.Key, error) {
	return makeKey(storage.ScheduleOccurrences, env, tuple().text("schedule_id", schedule).time("fire_time", fire))
}

// ScheduleCursorKey names the record with the latest fire time considered of a
// schedule.
func ScheduleCursorKey(env, schedule string) (storage.Key, error) {
	return makeKey(storage.ScheduleCursors, env, tuple().text("schedule_id", schedule))
}

// ObservationHeadKey names the head of an ordered stream.
func ObservationHeadKey(env, stream string) (storage.Key, error) {
	return makeKey(storage.ObservationHeads, env, tuple().text("stream", stream))
}

// ObservationKey names one observation of an ordered stream.
func ObservationKey(env, stream string, position int64) (storage.Key, error) {
	return makeKey(storage.ObservationRecords, env, tuple().text("stream", stream).int(position))
}

// Partition is the partition of every key of an environment.
func Partition(env string) (string, error) {
	return tuple().name("environment", env).encoded("environment")
}

func makeKey(c storage.Collection, env string, id checkedTuple) (storage.Key, error) {
	partition, err := Partition(env)
	if err != nil {
		return storage.Key{}, err
	}
	text, err := id.encoded("key")
	if err != nil {
		return storage.Key{}, err
	}
	return storage.Key{Collection: c, Partition: partition, ID: text}, nil
}

// checkedTuple is a keys.Tuple whose elements are checked; the first refusal sticks.
type checkedTuple struct {
	keys.Tuple
	err error
}

func tuple() checkedTuple { return checkedTuple{} }

func (t checkedTuple) name(field, s string) checkedTuple {
	t.keep(inputError(field, keys.CheckName(field, s)))
	t.Tuple = t.String(s)
	return t
}

func (t checkedTuple) text(field, s string) checkedTuple {
	t.keep(inputError(field, keys.CheckText(field, s)))
	t.Tuple = t.String(s)
	return t
}

func (t checkedTuple) int(n int64) checkedTuple {
	t.Tuple = t.Int(n)
	return t
}

// time adds a known time; those that documents can hold are legal.
func (t checkedTuple) time(field string, at time.Time) checkedTuple {
	if !known(at) {
		t.refuse(field, keys.ReasonTimeRange)
	}
	t.Tuple = t.Time(at)
	return t
}

func (t *checkedTuple) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *checkedTuple) refuse(field string, reason keys.Reason) {
	t.keep(&storage.InputError{Kind: storage.ErrInvalidKey, Field: field, Reason: string(reason)})
}

// encoded returns the text. Each part is bounded here. The bound on partition,
// sort value and id together then holds by itself: of the three only two can be
// long, as every sort value of ours is one time or one integer.
func (t checkedTuple) encoded(field string) (string, error) {
	if t.err != nil {
		return "", t.err
	}
	text, err := t.Text()
	if err != nil {
		return "", inputError(field, err)
	}
	if len(text) > keys.MaxPart {
		return "", &storage.InputError{Kind: storage.ErrTooLarge, Field: field, Reason: "is too long when encoded", Limit: keys.MaxPart}
	}
	return text, nil
}

// inputError says in the words of the contract what package keys refused.
func inputError(field string, err error) error {
	if err == nil {
		return nil
	}
	refused := &storage.InputError{Kind: storage.ErrInvalidKey, Field: field, Reason: err.Error()}
	if e := (*keys.Error)(nil); errors.As(err, &e) {
		refused.Reason = string(e.Reason)
		if e.Reason == keys.ReasonTooLong {
			refused.Kind, refused.Limit = storage.ErrTooLarge, keys.MaxText
		}
	}
	return refused
}

// isRunKey tells whether a key is RunKey(env, id) without allocating.
func isRunKey(k storage.Key, env, id string) bool {
	return k.Collection == storage.Runs && isText(k.Partition, env) && isText(k.ID, id)
}

// isEventKey tells whether a key is EventKey(env, id) without allocating.
func isEventKey(k storage.Key, env string, id uuid.UUID) bool {
	var room [37]byte
	text, err := keys.Append(room[:0], keys.Element{Kind: keys.KindUUID, UUID: id})
	return k.Collection == storage.RunEvents && isText(k.Partition, env) && err == nil && string(text) == k.ID
}

// isText tells whether an encoded text is the tuple of the one string s.
func isText(encoded, s string) bool {
	var room [128]byte
	text, err := keys.Append(room[:0], keys.Element{Kind: keys.KindString, Str: s})
	return err == nil && string(text) == encoded
}
