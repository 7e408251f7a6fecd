package lane

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/seed4391e180/runlane/run"
)

// Spec says when a schedule fires. Make one with [Once], [Every] or [Cron].
type Spec struct {
	text string
	err  error
	next func(after time.Time) time.Time // the first fire after a time; zero: none
}

// String says when, for people.
func (s Spec) String() string { return s.text }

// Once fires one time.
func Once(at time.Time) Spec {
	s := Spec{text: "once at " + at.UTC().Format(time.RFC3339Nano)}
	if _, relative := run.AfterCommit(at); relative || at.Year() < 1970 || at.Year() > 9999 {
		s.err = errors.New("the time is not between 1970 and 9999")
	}
	at = at.UTC().Truncate(time.Microsecond)
	s.next = func(after time.Time) time.Time {
		if at.After(after) {
			return at
		}
		return time.Time{}
	}
	return s
}

// Every fires at all multiples of an interval since 1970-01-01 00:00 UTC, shifted by
// the offset: Every(time.Hour, 5*time.Minute) is five minutes past each hour. The
// interval is a second at least.
func Every(interval, offset time.Duration) Spec {
	s := Spec{text: fmt.Sprintf("every %v", interval)}
	if offset != 0 {
		s.text += fmt.Sprintf(", %v later", offset)
	}
	switch {
	case interval < time.Second || interval%time.Microsecond != 0:
		s.err = errors.New("the interval is less than a second, or not in whole microseconds")
	case offset < 0 || offset >= interval || offset%time.Microsecond != 0:
		s.err = errors.New("the offset is not between zero and the interval, or not in whole microseconds")
	}
	s.next = func(after time.Time) time.Time {
		step := interval.Microseconds()
		since := after.UnixMicro() - offset.Microseconds()
		past := since % step // of the last fire
		if past < 0 {
			past += step
		}
		return time.UnixMicro(after.UnixMicro() - past + step).UTC()
	}
	return s
}

// Cron fires as a cron expression says, by the clocks of a place: the five fields
// minute, hour, day of month, month and day of week, or one of @yearly, @monthly,
// @weekly, @daily and @hourly. If both days are restricted, either will do. A nil
// location is UTC.
//
// When clocks are set forward, fires at times that do not exist are left out. When
// they are set back, a time that comes twice fires once, at its first coming, unless
// the hour is a *: what fires every hour, or every few minutes, does so in both.
func Cron(expression string, location *time.Location) Spec {
	if location == nil {
		location = time.UTC
	}
	s := Spec{text: fmt.Sprintf("cron %q in %s", expression, location)}
	if strings.Contains(expression, "TZ=") || strings.HasPrefix(expression, "@every") {
		s.err = errors.New("a cron expression has neither a time zone nor an interval in it; see Cron and Every")
		return s
	}
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		s.err = err
		return s
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		s.err = errors.New("not a cron expression")
		return s
	}
	spec.Location = location
	s.next = func(after time.Time) time.Time { return nextLocal(spec, location, after) }
	return s
}

// star is how a field of an expression is marked that is a *.
const star = 1 << 63

// clockStep is how far a search goes over times that do not match: clocks are changed
// at quarters of an hour, and only there.
const clockStep = 15

// longestWait is longer than any expression waits that ever fires: the 29th of
// February is missing for eight years around 2100.
const longestWait = 9 * 366 * 24 * time.Hour

// nextLocal is the next fire of a cron expression. The library that parses it counts
// in whole hours when clocks are changed, so the search is ours: it walks through the
// minutes of real time and asks what the clocks show.
func nextLocal(spec *cron.SpecSchedule, location *time.Location, after time.Time) time.Time {
	at := after.Truncate(time.Minute).Add(time.Minute)
	for end := at.Add(longestWait); at.Before(end); {
		local := at.In(location)
		if !dayMatches(spec, local) || spec.Hour&(1<<local.Hour()) == 0 {
			at = at.Add(time.Duration(clockStep-local.Minute()%clockStep) * time.Minute)
			continue
		}
		if spec.Minute&(1<<local.Minute()) != 0 && (spec.Hour&star != 0 || !comesAgain(local)) {
			return at.UTC()
		}
		at = at.Add(time.Minute)
	}
	return time.Time{}
}

func dayMatches(spec *cron.SpecSchedule, day time.Time) bool {
	inMonth := spec.Dom&(1<<day.Day()) != 0
	inWeek := spec.Dow&(1<<day.Weekday()) != 0
	if spec.Dom&star == 0 && spec.Dow&star == 0 {
		return spec.Month&(1<<day.Month()) != 0 && (inMonth || inWeek)
	}
	return spec.Month&(1<<day.Month()) != 0 && inMonth && inWeek
}

// comesAgain reports whether the clocks have shown the same time before, because they
// were set back in between.
func comesAgain(at time.Time) bool {
	_, offset := at.Zone()
	// Clocks are set back by up to three hours, seldom by another than one.
	for _, before := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour} {
		first := at.Add(-before)
		if _, was := first.Zone(); time.Duration(was-offset)*time.Second == before {
			return true
		}
	}
	return false
}

// check refuses a spec that is invalid or never fires.
func (s Spec) check() error {
	switch {
	case s.next == nil && s.err == nil:
		return errors.New("the schedule has no Spec")
	case s.err != nil:
		return fmt.Errorf("%s: %w", s.text, s.err)
	case s.next(time.Unix(0, 0)).IsZero():
		return fmt.Errorf("%s: it never fires", s.text)
	}
	return nil
}

// latest is the last fire in (after, until]; zero: there is none. It looks back in
// ever longer steps, so that a schedule that was not looked at for a year costs
// little more than one that was.
func (s Spec) latest(after, until time.Time) time.Time {
	for back := time.Minute; ; back *= 2 {
		from := until.Add(-back)
		if from.Before(after) || back > 100*365*24*time.Hour {
			from = after
		}
		var last time.Time
		for at := s.next(from); !at.IsZero() && !at.After(until); at = s.next(at) {
			last = at
		}
		if !last.IsZero() || from.Equal(after) {
			return last
		}
	}
}
