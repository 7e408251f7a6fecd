package codec

import (
	"time"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage/keys"
)

// The functions below name the partitions of the named indexes. They refuse what
// the functions for keys refuse.

// EventsPartition is the partition of RunEventsBySequence with the history of a run.
func EventsPartition(env, runID string) (string, error) {
	return tuple().name("environment", env).text("run_id", runID).encoded("partition")
}

// DuePartition is the partition of RunsByDue with the runnable runs of a queue
// and a priority.
func DuePartition(env, queue string, priority int) (string, error) {
	return tuple().name("environment", env).name("queue", queue).int(int64(priority)).encoded("partition")
}

// LeaseExpiryPartition is the partition of RunsByLeaseExpiry.
func LeaseExpiryPartition(env string) (string, error) { return Partition(env) }

// WaitingPartition is the partition of RunsWaitingForCompletion with the runs
// that wait for sourceRun.
func WaitingPartition(env, sourceRun string) (string, error) {
	return tuple().name("environment", env).text("source_run_id", sourceRun).encoded("partition")
}

// RetentionPartition is the partition of RunsByRetention.
func RetentionPartition(env string) (string, error) { return Partition(env) }

// IdempotencyExpiryPartition is the partition of IdempotencyOwnersByExpiry.
func IdempotencyExpiryPartition(env string) (string, error) { return Partition(env) }

// QueueSlotExpiryPartition is the partition of QueueSlotsByExpiry.
func QueueSlotExpiryPartition(env string) (string, error) { return Partition(env) }

// OccurrencesPartition is the partition of ScheduleOccurrencesByFireTime with the
// fires of a schedule.
func OccurrencesPartition(env, schedule string) (string, error) {
	return tuple().name("environment", env).text("schedule_id", schedule).encoded("partition")
}

// ObservationsPartition is the partition of ObservationsByPosition with a stream.
func ObservationsPartition(env, stream string) (string, error) {
	return tuple().name("environment", env).text("stream", stream).encoded("partition")
}

// SequenceSort is the sort value of an event in RunEventsBySequence.
func SequenceSort(sequence int64) string { return keys.EncodeInt(sequence) }

// leaseSort places an expiry in RunsByLeaseExpiry, rounded up to a multiple of the
// lease's duration. Heartbeats come several times in a lease, so most of them leave
// the index entry as it is; an expired lease is found up to one duration late, and
// never early. An expiry that is relative to the commit stays as exact as it is:
// nobody can round what nobody knows.
func leaseSort(l *run.Lease) (string, error) {
	if _, relative := afterCommit(l.Expires); relative {
		return sortTime(l.Expires)
	}
	us, quantum := l.Expires.UnixMicro(), l.Duration.Microseconds()
	if rest := us % quantum; rest != 0 {
		us += quantum - rest
	}
	return keys.EncodeTime(time.UnixMicro(us))
}
