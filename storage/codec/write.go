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

// document is JSON text in the making. Each method appends one member; members
// with a zero value are left out where the name of the method says so. A member
// begins with a comma unless it is the first of its object.
type document []byte

func (d *document) raw(text string) { *d = append(*d, text...) }

func (d *document) name(f field) {
	if last := (*d)[len(*d)-1]; last != '{' {
		*d = append(*d, ',')
	}
	*d = append(*d, '"')
	*d = append(*d, fieldNames[f]...)
	*d = append(*d, '"', ':')
}

func (d *document) text(f field, s string) {
	d.name(f)
	*d = jsonscan.AppendString(*d, s)
}

func (d *document) textIfAny(f field, s string) {
	if s != "" {
		d.text(f, s)
	}
}

func (d *document) uuid(f field, id uuid.UUID) {
	d.name(f)
	*d = append(appendUUID(append(*d, '"'), id), '"')
}

func (d *document) int(f field, n int64) {
	d.name(f)
	*d = strconv.AppendInt(*d, n, 10)
}

func (d *document) intIfAny(f field, n int64) {
	if n != 0 {
		d.int(f, n)
	}
}

func (d *document) bool(f field, b bool) {
	d.name(f)
	*d = strconv.AppendBool(*d, b)
}

func (d *document) time(f field, t time.Time) {
	d.name(f)
	*d = appendTime(*d, t)
}

func (d *document) timeIfAny(f field, t time.Time) {
	if !t.IsZero() {
		d.time(f, t)
	}
}

// jsonIfAny leaves out the space around raw JSON, so that it decodes to what was
// written.
func (d *document) jsonIfAny(f field, text json.RawMessage) {
	if text != nil {
		d.name(f)
		*d = append(*d, bytes.Trim(text, jsonSpace)...)
	}
}

func (d *document) mapIfAny(f field, m map[string]string) {
	if len(m) == 0 {
		return
	}
	d.name(f)
	*d = append(*d, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			*d = append(*d, ',')
		}
		*d = append(jsonscan.AppendString(*d, k), ':')
		*d = jsonscan.AppendString(*d, m[k])
	}
	*d = append(*d, '}')
}

func (d *document) lease(l *run.Lease) {
	d.uuid(fieldLeaseToken, l.Token)
	d.text(fieldLeaseWorker, l.Worker)
	d.int(fieldLeaseAttempt, int64(l.Attempt))
	d.time(fieldLeaseExpires, l.Expires)
	d.int(fieldLeaseDuration, int64(l.Duration))
	d.intIfAny(fieldLeaseQueueSlot, int64(l.QueueSlot))
	d.intIfAny(fieldLeaseKeySlot, int64(l.KeySlot))
}

func (d *document) source(s *run.Source) {
	d.text(fieldSourceType, string(s.Type))
	d.textIfAny(fieldSourceRun, s.RunID)
	d.textIfAny(fieldSchedule, s.Schedule)
}

func (d *document) failure(f *run.Failure) {
	d.text(fieldFailureCode, f.Code)
	d.text(fieldFailureMessage, f.Message)
	d.bool(fieldFailureRetryable, f.Retryable)
	d.textIfAny(fieldFailureDetail, f.Detail)
}
