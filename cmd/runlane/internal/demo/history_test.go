package demo

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
)

// story writes down events, by the second in which they happen.
type story struct {
	h         *history
	sequences map[string]int64
	leases    map[string]uuid.UUID
}

func newStory(runs int, killed int) *story {
	return &story{newHistory(runs, second(killed)), map[string]int64{}, map[string]uuid.UUID{}}
}

func second(n int) time.Time { return time.Unix(int64(n), 0).UTC() }

func (s *story) tell(at int, runID string, data run.EventData) {
	s.sequences[runID]++
	s.h.add(run.Event{ID: uuid.New(), RunID: runID, Sequence: s.sequences[runID], At: second(at), Data: data})
}

func (s *story) starts(at int, runID, worker string) {
	s.leases[runID] = uuid.New()
	s.tell(at, runID, run.Started{Lease: run.Lease{Token: s.leases[runID], Worker: worker}})
}

func (s *story) expires(at int, runID string) {
	s.tell(at, runID, run.LeaseExpired{Token: s.leases[runID]})
}
func (s *story) ends(at int, runID string) { s.tell(at, runID, run.Succeeded{Token: s.leases[runID]}) }

func TestHistoryCountsTheWait(t *testing.T) {
	s := newStory(3, 12)
	for _, id := range []string{"x", "y", "z"} {
		s.tell(1, id, run.Created{})
	}
	s.starts(2, "x", victimName)
	s.starts(2, "y", victimName)
	s.starts(3, "z", survivorName)
	s.ends(10, "z") // from here everybody waits, but the victim still lives
	s.expires(20, "x")
	s.starts(21, "x", survivorName)
	s.ends(22, "x") // and from here again
	s.expires(25, "y")
	s.starts(26, "y", survivorName)
	s.ends(27, "y")
	s.h.flush()
	h := s.h
	require.Equal(t, (20-12+25-22)*time.Second, h.wait)
	require.Equal(t, map[string]int{victimName: 2}, h.expired)
	require.Equal(t, map[string]int{victimName: 2, survivorName: 3}, h.started)
	require.Len(t, h.claims, 4)
	require.Len(t, h.finishes, 3)
	require.Equal(t, second(27), h.last)
	require.Zero(t, h.endedTwice+h.gaps+h.open+h.lost)
	require.Equal(t, 13, h.events)
}

// As long as runs are to be triggered, nobody waits for leases.
func TestHistoryOfUntriggeredRunsIsNoWait(t *testing.T) {
	s := newStory(2, 2)
	s.tell(1, "x", run.Created{})
	s.starts(1, "x", victimName)
	s.tell(5, "y", run.Created{})
	s.starts(5, "y", victimName)
	s.expires(7, "x")
	s.h.flush()
	require.Equal(t, 2*time.Second, s.h.wait)
}

func TestHistoryFindsSecondEndsAndGaps(t *testing.T) {
	s := newStory(2, 0)
	s.tell(1, "x", run.Created{})
	s.starts(2, "x", survivorName)
	s.ends(3, "x")
	s.ends(4, "x")
	s.ends(5, "x")
	s.tell(6, "y", run.Created{})
	s.sequences["y"]++ // an event is lost
	s.ends(7, "y")
	s.h.flush()
	require.Equal(t, 1, s.h.endedTwice)
	require.Equal(t, 1, s.h.gaps)
}

// Events of one time come in the order of their random ids.
func TestHistorySortsWhatHappenedAtOnce(t *testing.T) {
	h := newHistory(1, second(0))
	token := uuid.New()
	events := []run.Event{
		{RunID: "x", Sequence: 1, At: second(1), Data: run.Created{}},
		{RunID: "x", Sequence: 2, At: second(1), Data: run.Started{Lease: run.Lease{Token: token, Worker: victimName}}},
		{RunID: "x", Sequence: 3, At: second(1), Data: run.Succeeded{Token: token}},
	}
	for _, i := range []int{2, 0, 1} {
		h.add(events[i])
	}
	h.flush()
	require.Zero(t, h.gaps+h.open+h.lost)
}
