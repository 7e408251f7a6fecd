package codec

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// checkRun checks everything that makes a run canonical, except that its raw JSON
// is JSON. Both directions use it, so that what decodes can be encoded again. The
// result collects the times that are relative to the commit.
func checkRun(r *run.Run) (times commitTimes, err error) {
	if err = checkIdentity(r); err != nil {
		return times, err
	}
	if err = checkProgress(r); err != nil {
		return times, err
	}
	if err = checkTimes(r, &times); err != nil {
		return times, err
	}
	if err = checkLease(r, &times); err != nil {
		return times, err
	}
	if err = checkSource(&r.Source); err != nil {
		return times, err
	}
	if err = checkOptionals(optionalsOf(r), &times); err != nil {
		return times, err
	}
	return times, checkOutcome(r)
}

func checkIdentity(r *run.Run) error {
	if err := checkName(fieldEnvironment, r.Environment); err != nil {
		return err
	}
	if err := checkText(fieldID, r.ID); err != nil {
		return err
	}
	if err := checkName(fieldTask, r.Task); err != nil {
		return err
	}
	if err := checkName(fieldQueue, r.Queue); err != nil {
		return err
	}
	return checkPriority(r.Priority)
}

func checkPriority(p int) error {
	if p < run.PriorityFirst || p > run.PriorityLast {
		return invalid(fieldPriority, "is not between 1 and 4")
	}
	return nil
}

// checkProgress checks status, sequence and counters. What it says of the
// counters holds after every history that the reducer accepts.
func checkProgress(r *run.Run) error {
	switch {
	case !r.Status.Valid():
		return invalid(fieldStatus, "is none of the statuses")
	case r.Sequence < 1:
		return invalid(fieldSequence, "is less than 1")
	case r.MaxAttempts < 0:
		return invalid(fieldMaxAttempts, "is negative")
	case r.Attempts < 0:
		return invalid(fieldAttempts, "is negative")
	case r.Failures < 0:
		return invalid(fieldFailures, "is negative")
	case r.Retries < 0 || r.Retries > r.Failures:
		return invalid(fieldRetries, "is negative or more than the failures")
	case r.Releases < 0 || r.Releases > r.Attempts-r.Retries:
		return invalid(fieldReleases, "is negative or, with the retries, more than the attempts")
	}
	return nil
}

func checkTimes(r *run.Run, times *commitTimes) error {
	switch {
	case r.Due.IsZero() == r.Status.Runnable():
		return invalid(fieldDue, "is there although the run is not runnable, or missing although it is")
	case r.Finished.IsZero() == r.Status.Terminal():
		return invalid(fieldFinished, "is there although the run has not ended, or missing although it has")
	}
	if err := times.check(fieldCreated, r.Created); err != nil {
		return err
	}
	if err := times.check(fieldUpdated, r.Updated); err != nil {
		return err
	}
	if !r.Due.IsZero() {
		if err := times.check(fieldDue, r.Due); err != nil {
			return err
		}
	}
	if !r.Finished.IsZero() {
		return times.check(fieldFinished, r.Finished)
	}
	return nil
}

func checkLease(r *run.Run, times *commitTimes) error {
	if (r.Lease != nil) != r.Status.Leased() {
		return invalid(fieldLeaseToken, "is there although nobody holds the run, or missing although somebody does")
	}
	if r.Lease == nil {
		return nil
	}
	if r.Lease.Attempt != r.Attempts {
		return invalid(fieldLeaseAttempt, "is not the number of attempts")
	}
	return checkLeaseValues(r.Lease, times)
}

func checkLeaseValues(l *run.Lease, times *commitTimes) error {
	if l.Token == uuid.Nil {
		return invalid(fieldLeaseToken, "is missing")
	}
	if l.Attempt < 1 {
		return invalid(fieldLeaseAttempt, "is less than 1")
	}
	if err := checkText(fieldLeaseWorker, l.Worker); err != nil {
		return err
	}
	if l.QueueSlot < 0 {
		return invalid(fieldLeaseQueueSlot, "is negative")
	}
	if l.KeySlot < 0 {
		return invalid(fieldLeaseKeySlot, "is negative")
	}
	if l.Duration < time.Microsecond || l.Duration%time.Microsecond != 0 {
		return invalid(fieldLeaseDuration, "is not a positive number of whole microseconds")
	}
	return times.check(fieldLeaseExpires, l.Expires)
}

func checkSource(s *run.Source) error {
	if !s.Type.Valid() {
		return invalid(fieldSourceType, "is none of the sources")
	}
	child := s.Type == run.SourceRerun || s.Type == run.SourceManualRetry
	if (s.RunID != "") != child {
		return invalid(fieldSourceRun, "is there for another source than a rerun or a retry, or missing for one")
	}
	if (s.Schedule != "") != (s.Type == run.SourceSchedule) {
		return invalid(fieldSchedule, "is there for another source than a schedule, or missing for one")
	}
	if err := checkOptional(fieldSourceRun, s.RunID); err != nil {
		return err
	}
	return checkOptional(fieldSchedule, s.Schedule)
}

// optionals is what a run and its Created event have in common.
type optionals struct {
	idempotencyKey, singletonKey, concurrencyKey string
	idempotencyTTL, timeout                      time.Duration
	latestStart                                  time.Time
	trace, metadata                              map[string]string
}

func optionalsOf(r *run.Run) optionals {
	return optionals{r.IdempotencyKey, r.SingletonKey, r.ConcurrencyKey, r.IdempotencyTTL, r.Timeout, r.LatestStart, r.Trace, r.Metadata}
}

func checkOptionals(o optionals, times *commitTimes) error {
	if err := checkOptional(fieldIdempotencyKey, o.idempotencyKey); err != nil {
		return err
	}
	if o.idempotencyTTL < 0 {
		return invalid(fieldIdempotencyTTL, "is negative")
	}
	if err := checkOptional(fieldSingletonKey, o.singletonKey); err != nil {
		return err
	}
	if err := checkOptional(fieldConcurrencyKey, o.concurrencyKey); err != nil {
		return err
	}
	if o.timeout < 0 {
		return invalid(fieldTimeout, "is negative")
	}
	if !o.latestStart.IsZero() {
		if err := times.check(fieldLatestStart, o.latestStart); err != nil {
			return err
		}
	}
	if err := checkMap(fieldTrace, o.trace); err != nil {
		return err
	}
	return checkMap(fieldMetadata, o.metadata)
}

func checkMap(f field, m map[string]string) error {
	for k, v := range m {
		if err := checkFree(f, k); err != nil {
			return err
		}
		if err := checkFree(f, v); err != nil {
			var refused *storage.InputError
			if errors.As(err, &refused) {
				refused.Field += "[" + strconv.Quote(k) + "]"
			}
			return err
		}
	}
	return nil
}

func checkOutcome(r *run.Run) error {
	switch {
	case (r.WaitingFor != "") != (r.Status == run.StatusWaiting):
		return invalid(fieldWaitingFor, "is there although the run does not wait, or missing although it does")
	case r.WaitingFor == r.ID:
		return invalid(fieldWaitingFor, "is the run itself")
	case r.Result != nil && r.Status != run.StatusSucceeded:
		return invalid(fieldResult, "is there although the run has not succeeded")
	case (r.Failure != nil) != (r.Status == run.StatusFailed || r.Status == run.StatusRetrying):
		return invalid(fieldFailureCode, "is there although the run has not failed, or missing although it has")
	}
	if err := checkOptional(fieldWaitingFor, r.WaitingFor); err != nil || r.Failure == nil {
		return err
	}
	return checkFailure(r.Failure)
}

func checkFailure(f *run.Failure) error {
	if err := checkFree(fieldFailureCode, f.Code); err != nil {
		return err
	}
	if err := checkFree(fieldFailureMessage, f.Message); err != nil {
		return err
	}
	return checkFree(fieldFailureDetail, f.Detail)
}

// sortedKeys returns the keys of m in order, so that equal maps have equal documents.
func sortedKeys(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
