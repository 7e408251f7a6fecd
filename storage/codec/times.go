package codec

import (
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// The years that a document can hold are 1970 to 9999.
const (
	firstYear  = 1970
	lastSecond = 253402300799 // of 9999, since the start of 1970
)

// known tells whether t is a time that a document can hold as a value.
func known(t time.Time) bool {
	s := t.Unix()
	return 0 <= s && s <= lastSecond
}

// commitTimes collects the times of one record that are relative to its commit.
// A record has one Later, so all that lie after the commit lie equally far after it.
type commitTimes struct{ later time.Duration }

// check checks a time that must be there.
func (c *commitTimes) check(f field, t time.Time) error {
	after, relative := afterCommit(t)
	switch {
	case relative && after != 0:
		if c.later != 0 && c.later != after {
			return invalid(f, "is a second distance from the commit; a record has one")
		}
		c.later = after
	case !relative && !known(t):
		return invalid(f, "is missing or outside the years 1970 to 9999")
	}
	return nil
}

// afterCommit is run.AfterCommit in microseconds: like every time that is
// stored, the distance is floored.
func afterCommit(t time.Time) (time.Duration, bool) {
	d, ok := run.AfterCommit(t)
	return d.Truncate(time.Microsecond), ok
}

// appendTime appends a checked time as a JSON string.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	if after, ok := afterCommit(t); ok {
		dst = append(dst, mark(after)...)
	} else {
		dst = appendKnown(dst, t.UTC())
	}
	return append(dst, '"')
}

func mark(after time.Duration) string {
	if after == 0 {
		return storage.CommitTime
	}
	return storage.CommitTimeLater
}

// appendKnown writes storage.TimeFormat by hand: formatting by layout costs more
// than the rest of a run's document together.
func appendKnown(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = appendDigits(dst, year, 4)
	dst = appendDigits(append(dst, '-'), int(month), 2)
	dst = appendDigits(append(dst, '-'), day, 2)
	dst = appendDigits(append(dst, 'T'), hour, 2)
	dst = appendDigits(append(dst, ':'), minute, 2)
	dst = appendDigits(append(dst, ':'), second, 2)
	dst = appendDigits(append(dst, '.'), t.Nanosecond()/1000, 6)
	return append(dst, 'Z')
}

func appendDigits(dst []byte, n, width int) []byte {
	var digits [6]byte
	for i := width - 1; i >= 0; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	return append(dst, digits[:width]...)
}

// parseTime reads the content of a JSON string as a time: exactly what
// appendTime writes, where later is the Later of the record.
func parseTime(s []byte, later time.Duration) (time.Time, bool) {
	if len(s) == 1 {
		switch string(s) {
		case storage.CommitTime:
			return run.AtCommit, true
		case storage.CommitTimeLater:
			later = later.Truncate(time.Microsecond)
			return run.AtCommit.Add(later), 0 <= later && later <= run.MaxAfterCommit
		}
		return time.Time{}, false
	}
	if len(s) != len(storage.TimeFormat) {
		return time.Time{}, false
	}
	if s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != '.' || s[26] != 'Z' {
		return time.Time{}, false
	}
	century, year, month, day := twoDigits(s, 0), twoDigits(s, 2), twoDigits(s, 5), twoDigits(s, 8)
	hour, minute, second := twoDigits(s, 11), twoDigits(s, 14), twoDigits(s, 17)
	us := [3]int{twoDigits(s, 20), twoDigits(s, 22), twoDigits(s, 24)}
	if century|year|month|day|hour|minute|second|us[0]|us[1]|us[2] < 0 {
		return time.Time{}, false
	}
	year += 100 * century
	if year < firstYear || month < 1 || month > 12 || day < 1 || day > daysIn(month, year) || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	ns := ((us[0]*100+us[1])*100 + us[2]) * 1000
	return time.Date(year, time.Month(month), day, hour, minute, second, ns, time.UTC), true
}

// twoDigits reads two digits, or is negative.
func twoDigits(s []byte, i int) int {
	tens, ones := s[i]-'0', s[i+1]-'0'
	if tens > 9 || ones > 9 {
		return -1
	}
	return int(tens)*10 + int(ones)
}

func daysIn(month, year int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// sortTime is the sort value of a checked time.
func sortTime(t time.Time) (string, error) {
	if after, ok := afterCommit(t); ok {
		if after == 0 {
			return keys.New().CommitTime().Text()
		}
		return keys.New().CommitTimeLater().Text()
	}
	return keys.EncodeTime(t)
}
