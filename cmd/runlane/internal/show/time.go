package show

import (
	"fmt"
	"time"
)

// Clock says what time it is, and where.
type Clock struct {
	Now   time.Time
	Local *time.Location
}

// Time is a time for people, with how long ago it was; "" of the zero time.
func (c Clock) Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(c.Local).Format("2006-01-02 15:04:05") + " (" + age(c.Now.Sub(t)) + ")"
}

func age(d time.Duration) string {
	switch {
	case d <= -time.Second:
		return "in " + brief(-d)
	case d < time.Second:
		return "now"
	}
	return brief(d) + " ago"
}

// brief is a duration in its largest unit, rounded down.
func brief(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 365*day:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dy", d/(365*day))
}

// exact is a time for programs; nil of the zero time.
func exact(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &text
}
