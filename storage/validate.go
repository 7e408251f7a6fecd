package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

// The checks below are what every driver asks before it does anything. They
// return *InputError.

// CheckKey checks the spelling and the size of a key.
func (l Limits) CheckKey(k Key) error {
	if k.Collection == (Collection{}) {
		return &InputError{Kind: ErrInvalidKey, Key: k, Field: "collection", Reason: "is none"}
	}
	if err := l.checkPart(k, "partition", k.Partition, ""); err != nil {
		return err
	}
	if err := l.checkPart(k, "id", k.ID, ""); err != nil {
		return err
	}
	return nil // not the result of checkPart: a nil *InputError is no nil error
}

// checkPart checks one encoded part of a key or an index entry; marks are the
// control characters that it may contain.
func (l Limits) checkPart(k Key, field, part, marks string) *InputError {
	switch {
	case part == "":
		return &InputError{Kind: ErrInvalidKey, Key: k, Field: field, Reason: "is empty"}
	case len(part) > l.MaxKeyPart:
		return &InputError{Kind: ErrTooLarge, Key: k, Field: field, Limit: l.MaxKeyPart}
	case !utf8.ValidString(part):
		return &InputError{Kind: ErrInvalidKey, Key: k, Field: field, Reason: "is not valid UTF-8"}
	}
	for i := 0; i < len(part); i++ {
		if c := part[i]; c <= ' ' && strings.IndexByte(marks, c) < 0 {
			return &InputError{Kind: ErrInvalidKey, Key: k, Field: field, Reason: "is not an encoding of package keys: it holds a space or a control character"}
		}
	}
	return nil
}

// CheckRecord checks a record that is to be written: key, document and entries.
func (l Limits) CheckRecord(r Record) error {
	if err := l.CheckKey(r.Key); err != nil {
		return err
	}
	if r.Later < 0 || r.Later > l.MaxLater {
		return &InputError{Kind: ErrInvalidDocument, Key: r.Key, Field: "later", Reason: "is not between 0 and " + l.MaxLater.String()}
	}
	if r.Later%time.Microsecond != 0 {
		return &InputError{Kind: ErrInvalidDocument, Key: r.Key, Field: "later", Reason: "is not a whole number of microseconds"}
	}
	if err := l.checkDocument(r.Key, "document", r.Document, true); err != nil {
		return err
	}
	return l.checkEntries(r)
}

// An item stands within the document of its record, which must be fit to be
// written as a whole.
const (
	positionBytes = 17 // of an encoded position, which stands behind the stream in a record's key
	envelopeDepth = 2
	envelopeBytes = 4 << 10 // two texts of 255 bytes with every character escaped, and the names
)

// CheckItems checks items that are to be appended to the stream with the given
// head. An item holds no marks; it is at most 4 KiB smaller than a document may be,
// and two levels less deep.
func (l Limits) CheckItems(head Key, items []json.RawMessage) error {
	if err := l.CheckKey(head); err != nil {
		return err
	}
	if head.Collection != ObservationHeads {
		return &InputError{Kind: ErrInvalidKey, Key: head, Field: "collection", Reason: "is not that of the heads of streams"}
	}
	if len(head.Partition)+len(head.ID) > l.MaxKeyPart || len(head.ID)+positionBytes > l.MaxKeyPart {
		return &InputError{Kind: ErrTooLarge, Key: head, Field: "environment and stream together", Limit: l.MaxKeyPart}
	}
	l.MaxDocument -= envelopeBytes
	l.MaxDepth -= envelopeDepth
	for i, item := range items {
		if err := l.checkDocument(head, fmt.Sprintf("items[%d]", i), item, false); err != nil {
			return err
		}
	}
	return nil
}

func (l Limits) checkDocument(key Key, field string, document json.RawMessage, marks bool) error {
	if !l.fits(document) {
		return &InputError{Kind: ErrTooLarge, Key: key, Field: field, Limit: l.MaxDocument}
	}
	info, err := jsonscan.Check(document, jsonscan.Limits{MaxBytes: max(l.MaxDocument, len(document)), MaxDepth: l.MaxDepth, Marks: marks})
	if err == nil && info.Growth > 0 && !l.fitsPrinted(document) {
		return &InputError{Kind: ErrTooLarge, Key: key, Field: field, Reason: "is too large with its numbers written out, as it would be read back", Limit: l.MaxDocument}
	}
	if err == nil {
		return nil
	}
	refused := &InputError{Kind: ErrInvalidDocument, Key: key, Reason: err.Error()}
	if at := (*jsonscan.Error)(nil); errors.As(err, &at) {
		refused.Field, refused.Reason = at.Path, string(at.Reason)
		if field != "document" {
			refused.Field = below(field, at.Path)
		}
		if at.Reason == jsonscan.ReasonExpansion {
			refused.Kind = ErrTooLarge // jsonb could store it, but not print it again
		}
	}
	return refused
}

// below is the path of a part of a field.
func below(field, path string) string {
	if path == "" || path[0] == '[' {
		return field + path
	}
	return field + "." + path
}

// fits reports whether a document is within the limit. What a database gives back
// may be longer than what it was given, by space and the spelling of numbers, and
// must be fit to be written again; so a longer document is measured by its value.
func (l Limits) fits(document []byte) bool {
	if len(document) <= l.MaxDocument {
		return true
	}
	return len(document) <= 4*l.MaxDocument && l.fitsPrinted(document)
}

// fitsPrinted measures a document by its value, with numbers written out.
func (l Limits) fitsPrinted(document []byte) bool {
	canonical, err := jsonscan.Canonical(document)
	return err == nil && len(canonical) <= l.MaxDocument
}

func (l Limits) checkEntries(r Record) error {
	for i, e := range r.Entries {
		field := "entry " + e.Index.String()
		if e.Index.On() != r.Key.Collection {
			return &InputError{Kind: ErrInvalidKey, Key: r.Key, Field: field, Reason: "is not an index of the collection"}
		}
		for _, other := range r.Entries[:i] {
			if other.Index == e.Index {
				return &InputError{Kind: ErrInvalidKey, Key: r.Key, Field: field, Reason: "is given twice"}
			}
		}
		if err := l.checkPart(r.Key, field+": partition", e.Partition, ""); err != nil {
			return err
		}
		if err := l.checkPart(r.Key, field+": sort", e.Sort, CommitTime+CommitTimeLater); err != nil {
			return err
		}
		if !strings.HasPrefix(e.Partition, r.Key.Partition) {
			return &InputError{Kind: ErrInvalidKey, Key: r.Key, Field: field + ": partition", Reason: "does not begin with the partition of the record's key"}
		}
		if len(e.Partition)+len(e.Sort)+len(r.Key.ID) > l.MaxKeyTotal {
			return &InputError{Kind: ErrTooLarge, Key: r.Key, Field: field + ": partition, sort and record id together", Limit: l.MaxKeyTotal}
		}
	}
	return nil
}

// CheckQuery checks a query and fills in its default limit.
func (l Limits) CheckQuery(q Query) (Query, error) {
	bad := func(field, reason string) (Query, error) {
		return q, &InputError{Kind: ErrInvalidQuery, Field: field, Reason: reason}
	}
	if q.Index == (Index{}) {
		return bad("index", "is none")
	}
	if q.Direction > Descending {
		return bad("direction", "is neither Ascending nor Descending")
	}
	if q.Lock > Exclusive {
		return bad("lock", "is neither Candidates nor Exclusive")
	}
	var err error
	if q.Limit, err = l.CheckLimit(q.Limit); err != nil {
		return q, err
	}
	parts := []struct{ field, text string }{
		{"partition", q.Partition}, {"from", q.From.sort}, {"until", q.Until.sort},
		{"resume sort", q.Resume.Sort}, {"resume id", q.Resume.ID},
	}
	for i, p := range parts {
		if p.text == "" && i > 0 {
			continue
		}
		if err := l.checkPart(Key{}, p.field, p.text, ""); err != nil {
			return bad(p.field, err.Reason)
		}
	}
	if (q.Resume.Sort == "") != (q.Resume.ID == "") {
		return bad("resume", "has only one of sort and id")
	}
	return q, nil
}

// CheckLimit checks the limit of a page and replaces 0 by the default.
func (l Limits) CheckLimit(limit int) (int, error) {
	if limit == 0 {
		return l.DefaultPage, nil
	}
	if limit < 0 || limit > l.MaxPage {
		return 0, &InputError{Kind: ErrInvalidQuery, Field: "limit", Reason: "is not between 1 and the limit, or 0 for the default", Limit: l.MaxPage}
	}
	return limit, nil
}

// CheckTopic checks the topic of a wake.
func (l Limits) CheckTopic(topic string) error {
	switch {
	case len(topic) > l.MaxTopic:
		return &InputError{Kind: ErrTooLarge, Field: "topic", Limit: l.MaxTopic}
	case topic == "":
		return &InputError{Kind: ErrInvalidKey, Field: "topic", Reason: "is empty"}
	case !utf8.ValidString(topic) || strings.IndexByte(topic, 0) >= 0:
		return &InputError{Kind: ErrInvalidKey, Field: "topic", Reason: "is not valid UTF-8 without NUL"}
	}
	return nil
}

// CheckRunFilter checks a filter of runs and returns its limit, or the default.
func (l Limits) CheckRunFilter(f RunFilter) (limit int, err error) {
	if limit, err = l.checkRunFilter(f); err == nil {
		_, err = PlanRuns(f)
	}
	return limit, err
}

func (l Limits) checkRunFilter(f RunFilter) (limit int, err error) {
	for _, s := range f.Statuses {
		if !s.Valid() {
			return 0, badFilter("statuses", "holds an unknown status")
		}
	}
	for _, t := range f.SourceTypes {
		if !t.Valid() {
			return 0, badFilter("source types", "holds an unknown source type")
		}
	}
	if f.Sort > SortDue {
		return 0, badFilter("sort", "is none of the sorts of runs")
	}
	lists := []struct {
		field string
		n     int
	}{{"statuses", len(f.Statuses)}, {"source types", len(f.SourceTypes)}, {"tasks", len(f.Tasks)}, {"queues", len(f.Queues)}}
	for _, list := range lists {
		if list.n > l.MaxFilterChoices {
			return 0, &InputError{Kind: ErrInvalidQuery, Field: list.field, Reason: "has too many values", Limit: l.MaxFilterChoices}
		}
	}
	texts := []filterText{
		{"source run", f.SourceRun}, {"schedule", f.Schedule}, {"idempotency key", f.IdempotencyKey}, {"singleton key", f.SingletonKey}, {"concurrency key", f.ConcurrencyKey},
	}
	for _, task := range f.Tasks {
		texts = append(texts, filterText{"tasks", task})
	}
	for _, queue := range f.Queues {
		texts = append(texts, filterText{"queues", queue})
	}
	ranges := []TimeRange{f.Created, f.Updated, f.Due, f.LeaseExpiry}
	return l.checkFilter(f.Environment, texts, ranges, f.Direction, f.Limit)
}

// CheckCount checks a count of runs and returns its limit, or the default.
func (l Limits) CheckCount(f RunFilter, limit int) (int, error) {
	f.Sort, f.Direction, f.Limit = SortCreated, Ascending, 0
	if _, err := l.checkRunFilter(f); err != nil {
		return 0, err
	}
	if _, err := PlanCounts(f); err != nil {
		return 0, err
	}
	if limit == 0 {
		return l.DefaultCount, nil
	}
	if limit < 0 || limit > l.MaxCount {
		return 0, &InputError{Kind: ErrInvalidQuery, Field: "count", Reason: "is not between 1 and the limit, or 0 for the default", Limit: l.MaxCount}
	}
	return limit, nil
}

// CheckEventFilter checks a filter of events and returns its limit, or the default.
func (l Limits) CheckEventFilter(f EventFilter) (limit int, err error) {
	for _, t := range f.Types {
		if !t.Valid() {
			return 0, badFilter("types", "holds an unknown event type")
		}
	}
	if f.Sort > SortOccurred {
		return 0, badFilter("sort", "is none of the sorts of events")
	}
	limit, err = l.checkFilter(f.Environment, []filterText{{"run id", f.RunID}}, []TimeRange{f.Occurred}, f.Direction, f.Limit)
	if err == nil {
		_, err = PlanEvents(f)
	}
	return limit, err
}

// filterText is a text that a field of a run must be equal to; "" excludes nothing.
type filterText struct{ field, text string }

// maxFilterText is the length of the longest name or key that a run can have.
const maxFilterText = 255

func (l Limits) checkFilter(environment string, texts []filterText, ranges []TimeRange, d Direction, limit int) (int, error) {
	if environment == "" || strings.IndexByte(environment, ':') >= 0 {
		return 0, badFilter("environment", `is empty or contains ":"`)
	}
	for _, f := range append(texts, filterText{"environment", environment}) {
		if len(f.text) > maxFilterText {
			return 0, &InputError{Kind: ErrInvalidQuery, Field: f.field, Reason: "is longer than a run can have it", Limit: maxFilterText}
		}
		if !utf8.ValidString(f.text) || strings.IndexByte(f.text, 0) >= 0 {
			return 0, badFilter(f.field, "is not valid UTF-8 without NUL")
		}
	}
	for _, r := range ranges {
		for _, t := range []time.Time{r.From, r.Until} {
			if year := t.UTC().Year(); !t.IsZero() && (year < 1 || year > 9999) {
				return 0, badFilter("time range", "has a year outside 1 to 9999, in UTC")
			}
		}
	}
	if d > Descending {
		return 0, badFilter("direction", "is neither Ascending nor Descending")
	}
	return l.CheckLimit(limit)
}

func badFilter(field, reason string) error {
	return &InputError{Kind: ErrInvalidQuery, Field: field, Reason: reason}
}
