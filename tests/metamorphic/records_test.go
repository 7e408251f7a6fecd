package metamorphic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// documents are opaque as runs and as events, and plain in other collections.
var documents = []string{
	`{"n": 1}`, `{"n": 2}`, `1`, `null`, `"text"`, `[{"payload": 1}]`,
	"{\"codec\": \"run\", \"v\": 9, \"value\": {\"payload\": {\"a\": [1, \"x\"]}, \"at\": \"\x01\", \"later\": \"\x02\"}}",
	`{"codec": "run", "v": 1, "value": {"payload": null}}`,
	`{"value": {"payload": 1, "payload": {"b": 2}}, "x": [1e2, 0.1000, 9007199254740993]}`,
	`{"value": [{"payload": 1}], "tombstone": true}`,
	`{"codec": "event", "v": 1, "value": {"event": {"payload": {"a": [1, "x"]}}}}`,
	"{\"value\": {\"payload\": {\"deep\": [\"\x02\"]}}}",
	`{"value": {"payload": "$1 '; -- \\ \" é"}, "": {"": ""}}`,
}

// payloadMark stands in a document until the payload is put in its place: what a
// codec refuses, a mark in a payload say, is still legal in a document.
const payloadMark = `"payload goes here"`

// moment is the time that a content calls by its number.
func (c *content) moment(n int) time.Time {
	if n == momentLater {
		return run.AtCommit.Add(delays[c.Later])
	}
	return moments[n]
}

// record is what a content writes to a key.
func (w *world) record(name string, c *content) storage.Record {
	rec := w.document(name, c)
	rec.Key = w.keys[name]
	switch c.Entry {
	case "none":
		rec.Entries = nil
	case "other", "odd":
		rec.Entries = w.entries(name, c)
	}
	if bytes.Contains(rec.Document, []byte(storage.CommitTimeLater)) || hasLaterEntry(rec) {
		rec.Later = delays[c.Later]
	}
	return rec
}

func hasLaterEntry(rec storage.Record) bool {
	for _, e := range rec.Entries {
		if strings.Contains(e.Sort, storage.CommitTimeLater) {
			return true
		}
	}
	return false
}

func (w *world) document(name string, c *content) storage.Record {
	environment, _, numbers := place(name)
	env := w.environments[environment]
	switch c.As {
	case "run":
		return fill(must(codec.EncodeRun(w.run(env, runID(numbers[0]), c))), c)
	case "tombstone":
		return must(codec.EncodeTombstone(env, runID(numbers[0])))
	case "event":
		return fill(must(codec.EncodeEvent(w.event(env, numbers[0], c))), c)
	case "owner":
		o := codec.IdempotencyOwner{Environment: env, Task: taskName, Key: fmt.Sprint("key:", numbers[0]), RunID: runID(c.Number % runCount)}
		if c.Due < momentLater {
			o.Expires = c.moment(c.Due)
		}
		return must(codec.EncodeIdempotencyOwner(o))
	case "single":
		return must(codec.EncodeSingletonOwner(codec.SingletonOwner{
			Environment: env, Task: taskName, Key: singletonKey(numbers[0] + 1), RunID: runID(c.Number % runCount),
		}))
	case "head":
		return must(codec.EncodeObservationHead(codec.ObservationHead{Environment: env, Stream: streamName(numbers[0]), Position: int64(c.Number)}))
	case "item":
		return must(codec.EncodeObservation(codec.Observation{
			Environment: env, Stream: streamName(numbers[0]), Position: int64(max(numbers[1], 1)), At: c.moment(c.At), Data: json.RawMessage(fmt.Sprint(c.Number)),
		}))
	}
	return storage.Record{Document: json.RawMessage(documents[c.Document])}
}

// fill puts the payload into a document that has room for it.
func fill(rec storage.Record, c *content) storage.Record {
	rec.Document = bytes.Replace(rec.Document, []byte(payloadMark), payloads[c.Payload], 1)
	return rec
}

// room is what a codec is given for a payload.
func (c *content) room() json.RawMessage {
	if payloads[c.Payload] == nil {
		return nil
	}
	return json.RawMessage(payloadMark)
}

// run is a legal run.
func (w *world) run(env, id string, c *content) run.Run {
	r := run.Run{
		Environment: env, ID: id, Task: taskName, Queue: queueName(c.Queue), Priority: 1 + c.Priority, Status: run.Status(c.Status),
		Sequence: int64(1 + c.Number), Created: c.moment(c.At), Updated: c.moment(c.At), Payload: c.room(), Source: source(c.Source),
	}
	if c.Singleton {
		r.SingletonKey = singletonOf(id)
	}
	switch {
	case r.Status.Runnable():
		r.Due = c.moment(c.Due)
	case r.Status.Leased():
		r.Attempts = 1
		r.Lease = &run.Lease{Token: token(1), Worker: "worker", Attempt: 1, Expires: c.moment(c.Due), Duration: time.Minute}
	case r.Status.Terminal():
		r.Finished = c.moment(c.At)
	default:
		r.Attempts, r.WaitingFor = 1, "other"
		if id != runID(0) {
			r.WaitingFor = runID(0)
		}
	}
	switch r.Status {
	case run.StatusRetrying, run.StatusFailed:
		r.Attempts, r.Failures, r.Failure = 1, 1, &run.Failure{Code: "error", Message: "no \"such\" é"}
		if r.Status == run.StatusRetrying {
			r.Retries = 1
		}
	case run.StatusReleased:
		r.Attempts, r.Releases = 1, 1
	case run.StatusSucceeded:
		r.Result = json.RawMessage(`{"done": true}`)
	}
	return r
}

// singletonOf is the singleton key of a run, if it has one: one of two. That a run
// changes its key, and hands the old one to another run of the same commit, is refused
// by stores that check the rule of one active run row by row.
func singletonOf(id string) string { return singletonKey(1 + int(id[len(id)-1])%2) }

func source(n int) run.Source {
	switch n {
	case 1:
		return run.Source{Type: run.SourceRerun, RunID: runID(0)}
	case 2:
		return run.Source{Type: run.SourceSchedule, Schedule: scheduleName}
	}
	return run.Source{Type: run.SourceTrigger}
}

// event is a legal event of the run that the content names.
func (w *world) event(env string, number int, c *content) run.Event {
	_, _, of := place(c.Run)
	e := run.Event{ID: eventID(number), Environment: env, RunID: runID(of[0]), Sequence: int64(1 + c.Number), At: c.moment(c.At)}
	e.Data = run.CancellationRequested{Reason: "because"}
	if c.Type == string(run.TypeCreated) {
		created := run.Created{Task: taskName, Queue: queueName(c.Queue), Priority: 1 + c.Priority, Payload: c.room(), Source: source(c.Source)}
		if c.Singleton {
			created.SingletonKey = singletonOf(e.RunID)
		}
		e.Data = created
	}
	return e
}

// entries places a record in the indexes of its collection where no codec would:
// "odd" uses sort values that are neither times nor integers.
func (w *world) entries(name string, c *content) []storage.Entry {
	environment, _, _ := place(name)
	var all []storage.Entry
	for i, index := range storage.IndexesOn(w.keys[name].Collection) {
		parts := w.partitions(environment, index)
		e := storage.Entry{Index: index, Partition: parts[(c.Number+i)%len(parts)], Sort: keys.EncodeInt(int64(c.Number))}
		switch {
		case c.Entry == "odd":
			e.Sort = must(keys.String(fmt.Sprint("odd ", c.Number)))
		case byTime(index) && c.Due == momentLater:
			e.Sort = storage.CommitTimeLater
		case byTime(index) && moments[c.Due].Equal(run.AtCommit):
			e.Sort = storage.CommitTime
		case byTime(index):
			e.Sort = must(keys.EncodeTime(moments[c.Due]))
		}
		all = append(all, e)
	}
	return all
}
