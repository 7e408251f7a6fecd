package storagetest

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// programsKeepPayloadsApart writes runs and their events with few different payloads,
// so that many coincide, in random order and with failures in between. Whatever a
// driver shares, each record reads as it was written last.
func programsKeepPayloadsApart(f *fixture) {
	f.programs(func(t *rapid.T) {
		p := &payloadProgram{fixture: f, environment: fmt.Sprint("payloads", environments.Add(1)), want: map[storage.Key]string{}}
		for i := range rapid.IntRange(1, 10).Draw(t, "transactions") {
			writes := rapid.SliceOfN(rapid.Custom(drawPayloadWrite), 1, 5).Draw(t, fmt.Sprint("writes ", i))
			p.transaction(t, writes, rapid.IntRange(0, 4).Draw(t, "end") == 0)
			p.compare(t)
		}
	})
}

// payloadWrite is one write of such a program.
type payloadWrite struct {
	do      string
	run     int
	event   int
	payload int // of samplePayloads
}

var samplePayloads = []json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`{"a":[1,"x"]}`), json.RawMessage(`"other"`)}

func drawPayloadWrite(t *rapid.T) payloadWrite {
	return payloadWrite{
		do: rapid.SampledFrom([]string{
			"run", "run", "run and event", "run and event", "run and event", "event", "tombstone", "opaque", "delete run", "delete event",
		}).Draw(t, "do"),
		run:     rapid.IntRange(0, 1).Draw(t, "run"),
		event:   rapid.IntRange(0, 2).Draw(t, "event"),
		payload: rapid.IntRange(0, len(samplePayloads)-1).Draw(t, "payload"),
	}
}

type payloadProgram struct {
	*fixture
	environment string
	want        map[storage.Key]string
}

func (p *payloadProgram) transaction(t *rapid.T, writes []payloadWrite, fail bool) {
	var after map[storage.Key]string
	_, err := p.try(func(c *call) {
		after = map[storage.Key]string{}
		for key, document := range p.want {
			after[key] = document
		}
		for _, w := range writes {
			for _, rec := range p.records(w) {
				if rec.Document != nil {
					c.put(rec)
					after[rec.Key] = string(rec.Document)
				} else if _, found := c.get(rec.Key); found {
					c.delete(rec.Key)
					delete(after, rec.Key)
				}
			}
		}
		if fail {
			c.stop(errStop)
		}
	})
	switch {
	case fail && err == errStop:
	case !fail && err == nil:
		p.want = after
	default:
		t.Fatalf("the transaction ended with %v", err)
	}
}

// records returns what a write puts, or, without a document, deletes.
func (p *payloadProgram) records(w payloadWrite) []storage.Record {
	r := sampleRun(fmt.Sprint("run", w.run), run.StatusQueued)
	r.Environment, r.Payload = p.environment, samplePayloads[w.payload]
	// Few event ids in the whole store: the environment tells them apart.
	e := createdEvent(r, numbered(w.event+1))
	whole, event := p.runRecord(r), p.eventRecord(e)
	switch w.do {
	case "run":
		return []storage.Record{whole}
	case "run and event":
		return []storage.Record{whole, event}
	case "event":
		return []storage.Record{event}
	case "tombstone":
		return []storage.Record{p.tombstoneIn(p.environment, r.ID)}
	case "opaque":
		document := `{"codec":"run","v":9,"value":{"payload":{"a":[1,"x"]}}}`
		return []storage.Record{{Key: whole.Key, Document: json.RawMessage(document)}}
	case "delete run":
		return []storage.Record{{Key: whole.Key}}
	case "delete event":
		return []storage.Record{{Key: event.Key}}
	}
	panic("no such write: " + w.do)
}

func (p *payloadProgram) compare(t *rapid.T) {
	var keys []storage.Key
	for key := range p.want {
		keys = append(keys, key)
	}
	_, err := p.try(func(c *call) {
		found, peeked := c.getMany(keys...), c.peek(keys...)
		for key, want := range p.want {
			for _, got := range []storage.Record{found[key], peeked[key]} {
				c.want(sameValue(want, got.Document), "%s reads as %s instead of %s", key, got.Document, want)
			}
		}
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}
