package postgres

import (
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// timeBound spells one end of a range of times; an open end is infinite.
func timeBound(t time.Time, lower bool) string {
	switch {
	case !t.IsZero():
		return wholeMicroseconds(t).Format(storage.TimeFormat)
	case lower:
		return "-infinity"
	}
	return "infinity"
}

// wholeMicroseconds rounds the end of a half-open range up to what the database
// stores, which excludes and includes the same times.
func wholeMicroseconds(t time.Time) time.Time {
	t = t.UTC()
	if down := t.Truncate(time.Microsecond); !down.Equal(t) {
		return down.Add(time.Microsecond)
	}
	return t
}

// endsWithin reports whether a page of a range can end at a time, so that the range does
// not begin behind it. Others are of cursors that nobody was given.
func endsWithin(r storage.TimeRange, d storage.Direction, at time.Time) bool {
	if d == storage.Descending {
		return r.Until.IsZero() || at.Before(wholeMicroseconds(r.Until))
	}
	return r.From.IsZero() || !at.Before(wholeMicroseconds(r.From))
}
