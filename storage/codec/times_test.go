package codec_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// relativeRun is a run that is created blindly: all its times come from the commit.
func relativeRun() run.Run {
	r := smallRun()
	r.Status = run.StatusScheduled
	r.Created, r.Updated, r.Due = run.AtCommit, run.AtCommit, run.AtCommit.Add(90*time.Minute)
	return r
}

func TestRelativeTimesBecomeMarks(t *testing.T) {
	rec := mustRun(t, relativeRun())
	if rec.Later != 90*time.Minute {
		t.Errorf("Later is %v", rec.Later)
	}
	if got, want := rec.Entries[0].Sort, storage.CommitTimeLater; got != want {
		t.Errorf("the entry is sorted by %q, not %q", got, want)
	}
	if err := storage.DefaultLimits().CheckRecord(rec); err != nil {
		t.Error(err)
	}
	got, kind := codec.DecodeRun(rec)
	if kind != codec.Canonical || !reflect.DeepEqual(got, relativeRun()) {
		t.Errorf("%s %+v", kind, got)
	}
}

func TestTimesThatDocumentsCannotHold(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	tests := []struct {
		name string
		due  time.Time
		ok   bool
	}{
		{"the first", time.Unix(0, 0), true},
		{"one before the first", time.Unix(0, -1), false},
		{"the last", last, true},
		{"one after the last", last.Add(1), false},
		{"the commit", run.AtCommit, true},
		{"as late after it as can be", run.AtCommit.Add(run.MaxAfterCommit), true},
		{"later than that", run.AtCommit.Add(run.MaxAfterCommit + 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := smallRun()
			r.Due = tt.due
			rec, err := codec.EncodeRun(r)
			if !tt.ok {
				wantInputError(t, err, storage.ErrInvalidDocument, "due_at")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, kind := codec.DecodeRun(rec); kind != codec.Canonical {
				t.Errorf("%s is %s", rec.Document, kind)
			}
		})
	}
}

func TestARecordHasOneDistanceFromTheCommit(t *testing.T) {
	r := relativeRun()
	r.Updated = run.AtCommit.Add(time.Second)
	_, err := codec.EncodeRun(r)
	wantInputError(t, err, storage.ErrInvalidDocument, "due_at")
	r.Updated = r.Due
	if _, err := codec.EncodeRun(r); err != nil {
		t.Errorf("the same distance twice is refused: %v", err)
	}
}

// Nothing of a time is rounded up, in the document, in the sort value or in Later,
// so that all three agree with what the database makes of it.
func TestTimesAreFlooredToMicroseconds(t *testing.T) {
	r := smallRun()
	r.Due = start.Add(999 * time.Nanosecond).In(time.FixedZone("half past", 5*3600+1800))
	rec := mustRun(t, r)
	got, _ := codec.DecodeRun(rec)
	if !got.Due.Equal(start) || got.Due.Location() != time.UTC {
		t.Errorf("due at %v", got.Due)
	}
	if want, _ := keys.EncodeTime(start); rec.Entries[0].Sort != want {
		t.Errorf("sorted by %s, not %s", rec.Entries[0].Sort, want)
	}
	r.Due = run.AtCommit.Add(time.Second + 999*time.Nanosecond)
	if rec = mustRun(t, r); rec.Later != time.Second {
		t.Errorf("Later is %v", rec.Later)
	}
	r.Due = run.AtCommit.Add(999 * time.Nanosecond)
	if rec = mustRun(t, r); rec.Later != 0 || rec.Entries[0].Sort != storage.CommitTime {
		t.Errorf("Later is %v, sorted by %q", rec.Later, rec.Entries[0].Sort)
	}
}

func TestMarksNeedALegalLater(t *testing.T) {
	rec := mustRun(t, relativeRun())
	for later, want := range map[time.Duration]codec.Kind{
		0: codec.Canonical, run.MaxAfterCommit: codec.Canonical,
		-time.Microsecond: codec.Opaque, run.MaxAfterCommit + time.Microsecond: codec.Opaque,
	} {
		rec.Later = later
		if _, kind := codec.DecodeRun(rec); kind != want {
			t.Errorf("with Later %v the document is %s, not %s", later, kind, want)
		}
	}
	rec.Later = time.Second + 999*time.Nanosecond
	if r, _ := codec.DecodeRun(rec); !r.Due.Equal(run.AtCommit.Add(time.Second)) {
		t.Errorf("with Later %v the run is due at %v", rec.Later, r.Due)
	}
	owner := mustIdempotencyOwner(t, sampleIdempotencyOwners()["idempotency_owner_later"])
	owner.Later = -time.Microsecond // which leads to the zero time
	if o, kind := codec.DecodeIdempotencyOwner(owner); kind != codec.Opaque {
		t.Errorf("with Later %v the document is %s: %+v", owner.Later, kind, o)
	}
}

func TestTextsThatAreNoTimes(t *testing.T) {
	rec := mustRun(t, smallRun())
	for text, want := range map[string]codec.Kind{
		"2030-05-06T07:08:09.123456Z":       codec.Canonical,
		"2028-02-29T23:59:59.999999Z":       codec.Canonical,
		"2000-02-29T00:00:00.000000Z":       codec.Canonical,
		"9999-12-31T23:59:59.999999Z":       codec.Canonical,
		"1970-01-01T00:00:00.000000Z":       codec.Canonical,
		"2030-05-06T07:08:09.12345\\u0036Z": codec.Canonical,
		"0001-01-01T00:00:00.000001Z":       codec.Opaque, // what stands for the commit in Go
		"0001-01-01T00:00:01.000001Z":       codec.Opaque,
		"1969-12-31T23:59:59.999999Z":       codec.Opaque,
		"2030-02-29T00:00:00.000000Z":       codec.Opaque,
		"2100-02-29T00:00:00.000000Z":       codec.Opaque,
		"2030-04-31T00:00:00.000000Z":       codec.Opaque,
		"2030-00-01T00:00:00.000000Z":       codec.Opaque,
		"2030-13-01T00:00:00.000000Z":       codec.Opaque,
		"2030-01-00T00:00:00.000000Z":       codec.Opaque,
		"2030-01-32T00:00:00.000000Z":       codec.Opaque,
		"2030-05-06T24:00:00.000000Z":       codec.Opaque,
		"2030-05-06T07:60:00.000000Z":       codec.Opaque,
		"2030-05-06T07:08:60.000000Z":       codec.Opaque,
		"2030-05-06 07:08:09.123456Z":       codec.Opaque,
		"2030-05-06T07:08:09.123456z":       codec.Opaque,
		"2030-05-06T07:08:09,123456Z":       codec.Opaque,
		"2030-05-06T07:08:09.12345xZ":       codec.Opaque,
		"2030-05-06T07:08:09.123Z":          codec.Opaque,
		"2030-05-06T07:08:09.1234567Z":      codec.Opaque,
		"2030-05-06T07:08:09+00:00":         codec.Opaque,
		"infinity":                          codec.Opaque,
		"":                                  codec.Opaque,
		"\x01":                              codec.Canonical,
		"\x02":                              codec.Canonical,
		"\x03":                              codec.Opaque,
		"\\u0001":                           codec.Opaque,
		"\\u0002":                           codec.Opaque,
	} {
		doc := rec
		doc.Document = replaceOnce(t, rec.Document, `"due_at":"2030-05-06T07:08:09.123456Z"`, `"due_at":"`+text+`"`)
		if _, kind := codec.DecodeRun(doc); kind != want {
			t.Errorf("a document with the time %q is %s", text, kind)
		}
	}
}

func TestLeaseExpiriesAreRoundedUpToTheLeaseDuration(t *testing.T) {
	whole := time.Date(2030, 5, 6, 7, 8, 10, 0, time.UTC)
	for expires, want := range map[time.Time]time.Time{
		whole:                        whole,
		whole.Add(999):               whole,
		whole.Add(time.Microsecond):  whole.Add(10 * time.Second),
		whole.Add(9 * time.Second):   whole.Add(10 * time.Second),
		whole.Add(10 * time.Second):  whole.Add(10 * time.Second),
		whole.Add(-time.Microsecond): whole,
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC): time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		r := sampleRun(run.StatusRunning)
		r.Lease.Expires, r.Lease.Duration = expires, 10*time.Second
		rec := mustRun(t, r)
		if sort, _ := keys.EncodeTime(want); rec.Entries[0].Sort != sort {
			got, _ := keys.DecodeTime(rec.Entries[0].Sort)
			t.Errorf("an expiry at %v is found at %v, not %v", expires, got, want)
		}
	}
	r := sampleRun(run.StatusRunning)
	r.Lease.Expires = run.AtCommit.Add(time.Minute)
	if rec := mustRun(t, r); rec.Entries[0].Sort != storage.CommitTimeLater || rec.Later != time.Minute {
		t.Errorf("an expiry after the commit is found at %q + %v", rec.Entries[0].Sort, rec.Later)
	}
}
