// Package filter makes filters of operator reads from the flags of a command line.
package filter

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
)

// TimeHelp says how a time is written.
const TimeHelp = `A time is RFC 3339 ("2026-11-30T14:02:11Z"), "now", or relative to now: "2h" and
"2h ago" lie in the past, "in 2h" in the future. Units: w, d (24 hours), h, m, s, ms.
Ranges hold their beginning (…-after), not their end (…-before). A relative time is
another filter at every call: continue with --cursor only beside exact times, which
every page with a next one names.`

// ParseTime reads a time, to the microsecond. A refusal is a *usage.Error.
func ParseTime(text string, now time.Time) (t time.Time, relative bool, err error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC().Truncate(time.Microsecond), false, nil
	}
	if text == "now" {
		return now.UTC().Truncate(time.Microsecond), true, nil
	}
	span, ahead := strings.CutPrefix(text, "in ")
	if !ahead {
		span = strings.TrimSuffix(text, " ago")
	}
	d, ok := parseSpan(span)
	if !ok {
		return time.Time{}, false, usage.Errorf("%q is no time: write RFC 3339, or such as 2h, \"3d ago\", \"in 10m\", now", text)
	}
	if !ahead {
		d = -d
	}
	return now.Add(d).UTC().Truncate(time.Microsecond), true, nil
}

// parseSpan reads a duration without a sign, which may begin with weeks and days.
func parseSpan(text string) (total time.Duration, ok bool) {
	if text == "" || text[0] == '-' || text[0] == '+' {
		return 0, false
	}
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, rest, found := strings.Cut(text, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil || time.Duration(n) > (math.MaxInt64-total)/unit.size {
			return 0, false
		}
		total, text = total+time.Duration(n)*unit.size, rest
	}
	if text == "" {
		return total, true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || text[0] == '-' || text[0] == '+' || d > math.MaxInt64-total {
		return 0, false
	}
	return total + d, true
}
