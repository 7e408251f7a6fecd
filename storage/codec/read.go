package codec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/run"
)

// reader is one object of a document, taken apart. Its methods give the value of a
// member, or the zero value if the object does not have it; a member that is no
// such value makes the object bad, once and for all.
type reader struct {
	raw   [fieldCount][]byte
	have  fieldSet
	later time.Duration // the record's
	brief bool          // only columns are wanted; the document has been checked by jsonscan
	bad   bool
}

// open takes an object apart. It refuses what is no object, members that are not
// in allowed, and members that occur twice.
func (r *reader) open(object []byte, allowed fieldSet) bool {
	ok := jsonscan.Object(object, func(m jsonscan.Member) bool {
		f := fieldNamed(m.Key)
		if !allowed.has(f) || r.have.has(f) {
			r.bad = true
			return false
		}
		r.have |= 1 << f
		r.raw[f] = m.Value
		return true
	})
	return ok && !r.bad
}

// readEnvelope opens an envelope of this version and returns its value.
func readEnvelope(doc []byte, codec string) (value []byte, tombstone, ok bool) {
	var have fieldSet
	legal, end := true, 0
	whole := jsonscan.Object(doc, func(m jsonscan.Member) bool {
		f := fieldNamed(m.Key)
		switch f {
		case fieldCodec:
			name, _, isText := content(m.Value)
			legal = isText && string(name) == codec
		case fieldV:
			n, isInt := parseInt(m.Value)
			legal = isInt && n == 1
		case fieldTombstone:
			tombstone = true
			legal = string(m.Value) == "true"
		case fieldValue:
			value = m.Value
		default:
			legal = false
		}
		legal = legal && !have.has(f)
		have |= 1 << f
		end = m.End
		return legal
	})
	const all = 1<<fieldCodec | 1<<fieldV | 1<<fieldValue
	if !whole || !legal || have&all != all || !isOneBrace(doc[end:]) {
		return nil, false, false
	}
	return value, tombstone, true
}

// isOneBrace tells whether a document ends as it should behind its last member.
func isOneBrace(rest []byte) bool { return string(bytes.Trim(rest, jsonSpace)) == "}" }

const jsonSpace = " \t\r\n"

// content returns the characters of a JSON string. If it is spelt without escapes
// they are those between the quotes, unchecked, and plain is true: only then can
// they be a mark.
func content(raw []byte) (chars []byte, plain, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, false, false
	}
	chars = raw[1 : len(raw)-1]
	if bytes.IndexByte(chars, '\\') < 0 {
		return chars, true, true
	}
	s, err := jsonscan.UnquoteString(raw)
	return []byte(s), false, err == nil
}

// parseInt reads a whole number that fits 64 bits, however it is spelt: jsonb
// turns 1e2 into 100, and both must mean the same to us.
func parseInt(raw []byte) (int64, bool) {
	if n, ok := parseDigits(raw); ok {
		return n, true
	}
	if jsonscan.KindOf(raw) != jsonscan.KindNumber {
		return 0, false
	}
	printed, err := jsonscan.Canonical(raw)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(printed), 10, 64)
	return n, err == nil
}

// parseDigits reads the usual spelling: up to 18 digits, the first not zero.
func parseDigits(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > 18 || raw[0] == '0' {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func (r *reader) text(f field) string {
	if !r.have.has(f) {
		return ""
	}
	s, err := jsonscan.UnquoteString(r.raw[f])
	if err != nil {
		r.bad = true
	}
	return s
}

// word is text for a value of a closed set, which it returns without allocating.
func word[T ~string](r *reader, f field, all []T) T {
	if !r.have.has(f) {
		return ""
	}
	chars, _, _ := content(r.raw[f])
	for _, w := range all {
		if string(w) == string(chars) {
			return w
		}
	}
	r.bad = true
	return ""
}

func (r *reader) int64(f field) int64 {
	if !r.have.has(f) {
		return 0
	}
	n, ok := parseInt(r.raw[f])
	if !ok {
		r.bad = true
	}
	return n
}

func (r *reader) int(f field) int {
	n := r.int64(f)
	if int64(int(n)) != n {
		r.bad = true
	}
	return int(n)
}

func (r *reader) bool(f field) bool {
	if !r.have.has(f) {
		return false
	}
	switch string(r.raw[f]) {
	case "true":
		return true
	case "false":
		return false
	}
	r.bad = true
	return false
}

func (r *reader) time(f field) time.Time {
	if !r.have.has(f) {
		return time.Time{}
	}
	chars, plain, ok := content(r.raw[f])
	// A control character spelt with an escape is data, not a mark.
	if !ok || !plain && len(chars) == 1 {
		r.bad = true
		return time.Time{}
	}
	t, ok := parseTime(chars, r.later)
	if !ok {
		r.bad = true
	}
	return t
}

func (r *reader) uuid(f field) uuid.UUID {
	if !r.have.has(f) {
		return uuid.Nil
	}
	chars, _, _ := content(r.raw[f])
	id, ok := parseUUID(chars)
	if !ok {
		r.bad = true
	}
	return id
}

// json returns raw JSON, which shares the document's bytes, at a depth of so many
// levels in the document.
func (r *reader) json(f field, levels int) json.RawMessage {
	if !r.have.has(f) {
		return nil
	}
	raw := r.raw[f]
	if r.brief {
		// Of a document that jsonscan accepted with its marks, only a mark would
		// make a part unacceptable.
		r.bad = r.bad || bytes.IndexByte(raw, jsonscan.MarkCommitTime[1]) >= 0 || bytes.IndexByte(raw, jsonscan.MarkCommitTimeLater[1]) >= 0
	} else if checkJSON(f, raw, levels) != nil {
		r.bad = true
	}
	return raw[:len(raw):len(raw)]
}

// texts returns an object of texts; nil if only columns are wanted, which none of
// them is.
func (r *reader) texts(f field) map[string]string {
	if !r.have.has(f) {
		return nil
	}
	if r.brief {
		r.skimTexts(r.raw[f])
		return nil
	}
	var texts map[string]string
	whole := jsonscan.Object(r.raw[f], func(m jsonscan.Member) bool {
		v, err := jsonscan.UnquoteString(m.Value)
		if _, twice := texts[string(m.Key)]; err != nil || twice {
			r.bad = true
			return false
		}
		if texts == nil {
			texts = make(map[string]string)
		}
		texts[string(m.Key)] = v
		return true
	})
	r.bad = r.bad || !whole
	return texts
}

// skimTexts finds out what texts would, without making the map. Most objects of
// texts have one member, which no other can repeat.
func (r *reader) skimTexts(object []byte) {
	var first []byte
	var others map[string]struct{}
	whole := jsonscan.Object(object, func(m jsonscan.Member) bool {
		_, twice := others[string(m.Key)]
		if !skimText(m.Value) || twice || first != nil && string(first) == string(m.Key) {
			r.bad = true
			return false
		}
		if first == nil {
			first = m.Key
			return true
		}
		if others == nil {
			others = make(map[string]struct{})
		}
		others[string(m.Key)] = struct{}{}
		return true
	})
	r.bad = r.bad || !whole
}

// skimText tells whether a value that jsonscan accepted is a text; a mark is none.
func skimText(raw []byte) bool {
	chars, plain, ok := content(raw)
	return ok && (!plain || len(chars) != 1 || chars[0] >= ' ')
}

// prose is text for what may be long and is no column.
func (r *reader) prose(f field) string {
	if r.brief && r.have.has(f) {
		r.bad = r.bad || !skimText(r.raw[f])
		return ""
	}
	return r.text(f)
}

func (r *reader) source() run.Source {
	return run.Source{
		Type:     word(r, fieldSourceType, sourceTypes),
		RunID:    r.text(fieldSourceRun),
		Schedule: r.text(fieldSchedule),
	}
}

func (r *reader) lease() run.Lease {
	return run.Lease{
		Token:    r.uuid(fieldLeaseToken),
		Worker:   r.text(fieldLeaseWorker),
		Attempt:  r.int(fieldLeaseAttempt),
		Expires:  r.time(fieldLeaseExpires),
		Duration: time.Duration(r.int64(fieldLeaseDuration)),

		QueueSlot: r.int(fieldLeaseQueueSlot),
		KeySlot:   r.int(fieldLeaseKeySlot),
	}
}

func (r *reader) failure() run.Failure {
	return run.Failure{
		Code:      r.text(fieldFailureCode),
		Message:   r.prose(fieldFailureMessage),
		Retryable: r.bool(fieldFailureRetryable),
		Detail:    r.prose(fieldFailureDetail),
	}
}

// The closed sets, made once.
var (
	statuses    = run.Statuses()
	eventTypes  = run.EventTypes()
	sourceTypes = []run.SourceType{run.SourceTrigger, run.SourceSchedule, run.SourceRerun, run.SourceManualRetry}
)
