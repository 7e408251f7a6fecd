package metamorphic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// names gives what differs from store to store the same name on all of them.
type names struct {
	world    *world
	versions map[storage.Version]int
	times    []namedTime // ascending
}

type namedTime struct {
	at   time.Time
	name string
}

func newNames(w *world) *names { return &names{world: w, versions: map[storage.Version]int{}} }

// version numbers versions in the order in which a history shows them.
func (n *names) version(v storage.Version) string {
	if v.IsZero() {
		return "v-"
	}
	if n.versions[v] == 0 {
		n.versions[v] = len(n.versions) + 1
	}
	return fmt.Sprint("v", n.versions[v])
}

// learn names a time that the store has told. Time never goes back, so a name that
// comes too late is part of the history.
func (n *names) learn(at time.Time, name string) string {
	if at.IsZero() {
		return "no time"
	}
	for _, t := range n.times {
		if t.at.Equal(at) {
			return t.name
		}
		if t.at.After(at) {
			name += ", before " + t.name
			break
		}
	}
	n.times = append(n.times, namedTime{at, name})
	slices.SortStableFunc(n.times, func(a, b namedTime) int { return a.at.Compare(b.at) })
	return name
}

// time is the name of a time that a record holds. The time of appended items may be
// that of the commit or a little later, so there the difference is not shown.
func (n *names) time(at time.Time, item bool) string {
	if at.Before(moments[1].AddDate(1, 0, 0)) || at.After(moments[2].AddDate(-1, 0, 0)) {
		return at.Format(storage.TimeFormat)
	}
	if name, ok := n.exact(at); ok && !item {
		return name
	}
	for _, d := range delays {
		if name, ok := n.exact(at.Add(-d)); ok {
			return name + " + " + d.String()
		}
	}
	last := "the beginning"
	for _, t := range n.times {
		if !t.at.After(at) {
			last = t.name
		}
	}
	return "soon after " + last
}

func (n *names) exact(at time.Time) (string, bool) {
	i := slices.IndexFunc(n.times, func(t namedTime) bool { return t.at.Equal(at) })
	if i < 0 {
		return "", false
	}
	return n.times[i].name, true
}

var timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`)

// shownBytes is how much of a long text a history shows beside its hash.
const shownBytes = 300

// document is the value of a document, whatever its spelling. Marks of a record that
// is staged and not yet committed are words.
func (n *names) document(doc []byte, item bool) string {
	doc = bytes.ReplaceAll(doc, []byte(storage.CommitTime), []byte("(commit time)"))
	doc = bytes.ReplaceAll(doc, []byte(storage.CommitTimeLater), []byte("(later)"))
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Sprintf("no JSON (%v): %q", err, doc)
	}
	var b strings.Builder
	spell(&b, v)
	return n.cut(n.plain(b.String(), item))
}

// plain replaces the names of environments and the times within a text.
func (n *names) plain(text string, item bool) string {
	for name, env := range n.world.environments {
		text = strings.ReplaceAll(text, env, name)
	}
	return timeText.ReplaceAllStringFunc(text, func(t string) string {
		at, err := time.Parse(storage.TimeFormat, t)
		if err != nil {
			return t
		}
		return n.time(at, item)
	})
}

// cut shortens a long text to its beginning, its length and a hash of the whole.
func (n *names) cut(text string) string {
	if len(text) <= 4*shownBytes {
		return text
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%.*s… (%d bytes, hash %x)", shownBytes, text, len(text), h.Sum64())
}

// spell writes a JSON value in its one spelling here: members in order, numbers as
// fractions.
func spell(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case string:
		b.WriteString(strconv.Quote(v))
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			b.WriteString(r.RatString())
		} else {
			b.WriteString(v.String())
		}
	case []any:
		b.WriteByte('[')
		for i := range v {
			b.WriteString(comma(i))
			spell(b, v[i])
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(comma(i) + strconv.Quote(name) + ":")
			spell(b, v[name])
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, v)
	}
}

// record is a record as a reader gets it.
func (n *names) record(rec storage.Record) string {
	text := n.version(rec.Version) + " " + n.document(rec.Document, rec.Key.Collection == storage.ObservationRecords)
	if len(rec.Entries) > 0 || rec.Later != 0 {
		text += " with what only writers give"
	}
	return text
}

// show spells one part of a line of a history.
func (n *names) show(part any) string {
	switch v := part.(type) {
	case string:
		return v
	case storage.Key:
		return n.world.show(v)
	case storage.Record:
		return n.record(v)
	case storage.Version:
		return n.version(v)
	case []storage.Record:
		var b strings.Builder
		for _, rec := range v {
			b.WriteString("\n      " + n.world.show(rec.Key) + " " + n.record(rec))
		}
		return fmt.Sprint(len(v), " records", b.String())
	case found:
		if !v.ok {
			return "absent"
		}
		return n.record(v.rec)
	case error:
		return wordFor(v)
	}
	return fmt.Sprint(part)
}

// found is the answer to a point read.
type found struct {
	rec storage.Record
	ok  bool
}

// line is a line of a history that is not spelt yet: versions are numbered only once
// it is certain that the attempt counts.
type line []any

func (n *names) line(l line) string {
	words := make([]string, len(l))
	for i, part := range l {
		words[i] = n.show(part)
	}
	return strings.Join(words, " ")
}

// refusals are the errors that leave a transaction as it was.
var refusals = []error{
	storage.ErrRecordExists, storage.ErrRecordNotRead, storage.ErrReadOnlyKey, storage.ErrSealed, storage.ErrInvalidKey, storage.ErrInvalidDocument,
	storage.ErrInvalidQuery, storage.ErrAppendJoined, storage.ErrTooLarge, storage.ErrTooMany,
}

// others are the other errors that have a name in the contract.
var others = []error{
	storage.ErrConflict, storage.ErrUnavailable, storage.ErrCommitUnknown, storage.ErrDuplicateActive, storage.ErrInvalidCursor,
	storage.ErrUnsupportedFilter, storage.ErrConfiguration, storage.ErrNestedTransaction, storage.ErrClosed,
}

func isRefusal(err error) bool {
	return slices.ContainsFunc(refusals, func(kind error) bool { return errors.Is(err, kind) })
}

// wordFor names an error by its kind: that is all that callers may depend on.
func wordFor(err error) string {
	for _, kind := range slices.Concat(refusals, others) {
		if errors.Is(err, kind) {
			return strings.TrimPrefix(kind.Error(), "storage: ")
		}
	}
	return "unexpected: " + err.Error()
}
