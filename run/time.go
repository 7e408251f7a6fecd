package run

import "time"

// AtCommit stands for a time that nobody knows yet: the time, by the database's
// clock, at which the transaction that stores it commits. AtCommit.Add(d) is d
// after that, for d up to MaxAfterCommit. So a run can be created in one round
// trip and still carry true database times. Both compare with each other like
// any times; comparing them with known times means nothing. A run that was read
// back holds only known times.
var AtCommit = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)

// MaxAfterCommit is the longest delay that AtCommit can carry.
const MaxAfterCommit = 100 * 365 * 24 * time.Hour

// AfterCommit reports whether t stands for a time relative to the commit, and
// how long after it.
func AfterCommit(t time.Time) (time.Duration, bool) {
	if t.IsZero() || t.Before(AtCommit) {
		return 0, false
	}
	d := t.Sub(AtCommit)
	return d, d <= MaxAfterCommit
}

// Resolve returns t, or the time it stands for if it is relative to a commit
// that happened at the given time.
func Resolve(t, commit time.Time) time.Time {
	if d, ok := AfterCommit(t); ok {
		return commit.Add(d)
	}
	return t
}
