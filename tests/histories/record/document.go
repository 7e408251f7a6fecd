package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/tests/histories/history"
)

// form is what the recorder knows of any document. Plain ones have the value, which
// no other write of the history has, and the time that the commit fills in. Those of
// runs have them within "value", canonical ones in their metadata, and a payload
// besides, which drivers keep apart. They name the payload that belongs to them.
type form struct {
	Value    string            `json:"w"`
	At       string            `json:"at"`
	Payload  string            `json:"p"`
	Created  string            `json:"created_at"`
	Metadata map[string]string `json:"metadata"`
	Held     *payload          `json:"payload"`
	Inner    *form             `json:"value"`
	Event    *form             `json:"event"`
}

// payload is large enough that a database would keep it apart by itself.
type payload struct {
	Name string `json:"p"`
	Pad  string `json:"pad"`
}

var pad = strings.Repeat("payload ", 64)

func payloadText(name string) string { return fmt.Sprintf(`{"p":%q,"pad":%q}`, name, pad) }

// plain makes the document of a write. That of a run is one that no codec knows.
func plain(key storage.Key, value, payload string) json.RawMessage {
	w := `{"w":` + strconv.Quote(value) + `,"at":"` + storage.CommitTime + `"`
	if key.Collection != storage.Runs {
		return json.RawMessage(w + "}")
	}
	return json.RawMessage(`{"value":` + w + fmt.Sprintf(`,"p":%q,"payload":%s}}`, payload, payloadText(payload)))
}

// read turns a record into what the history says of it.
func read(rec storage.Record) history.Read {
	r := history.Read{Key: Name(rec.Key), Version: rec.Version.Int64()}
	switch rec.Key.Collection {
	case storage.ObservationHeads:
		head, kind := codec.DecodeObservationHead(rec)
		if kind != codec.Canonical {
			r.Torn = "the head is no head: " + string(rec.Document)
		}
		r.Value = strconv.FormatInt(head.Position, 10)
		return r
	case storage.ObservationRecords:
		o, kind := codec.DecodeObservation(rec)
		if kind != codec.Canonical {
			r.Torn = "the observation is none: " + string(rec.Document)
			return r
		}
		f, torn := parse(o.Data)
		r.Value, r.At, r.Torn = f.Value, history.Clock(o.At.UnixMicro()), torn
		return r
	}
	f, torn := parse(rec.Document)
	r.Value, r.Torn = f.Value, torn
	if at, err := time.Parse(storage.TimeFormat, f.At); err == nil {
		r.At = history.Clock(at.UnixMicro())
	} else if torn == "" && f.At != storage.CommitTime {
		r.Torn = "the time is " + strconv.Quote(f.At)
	}
	return r
}

// parse reads a document. torn says in what its parts disagree.
func parse(text []byte) (f form, torn string) {
	// What a transaction reads of its own staged writes still has the mark, which
	// encoding/json does not accept in its raw form.
	clean := strings.ReplaceAll(string(text), storage.CommitTime, `\u0001`)
	if err := json.Unmarshal([]byte(clean), &f); err != nil {
		return form{}, fmt.Sprintf("%v in %s", err, text)
	}
	for f.Inner != nil || f.Event != nil {
		if f.Inner == nil {
			f.Inner = f.Event
		}
		f = *f.Inner
	}
	if f.Metadata != nil {
		f.Value, f.Payload = f.Metadata["w"], f.Metadata["p"]
	}
	if f.Created != "" {
		f.At = f.Created
	}
	switch {
	case f.Payload == "" && f.Held == nil:
	case f.Held == nil || f.Held.Name != f.Payload || f.Held.Pad != pad:
		return f, fmt.Sprintf("the document has payload %q and holds %v", f.Payload, f.Held)
	}
	return f, ""
}

// payloadOf is the name of the payload that a document holds; "" if it has none.
func payloadOf(rec storage.Record) string {
	f, _ := parse(rec.Document)
	return f.Payload
}

// Name is the name of a key in a history: its collection and the elements of its id.
func Name(key storage.Key) string {
	name := key.Collection.String()
	elements, err := keys.Decode(key.ID)
	if err != nil {
		return name + "/" + key.ID
	}
	for _, e := range elements {
		switch e.Kind {
		case keys.KindInt:
			name += "/" + strconv.FormatInt(e.Int, 10)
		case keys.KindUUID:
			name += "/" + e.UUID.String()
		default:
			name += "/" + e.Str
		}
	}
	return name
}
