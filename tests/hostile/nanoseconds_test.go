package hostile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// TestNanoseconds writes times with 999 nanoseconds, which are floored, and then uses
// the same times where times are compared: filters take them as they are, encoded
// bounds are floored like what is stored.
func TestNanoseconds(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(s *store) {
		base := time.Date(2026, 3, 1, 12, 0, 0, 999999000, time.UTC) // the last microsecond of a second
		const odd = 999 * time.Nanosecond
		var want []string
		for i := range 4 {
			at := base.Add(time.Duration(i)*time.Microsecond + odd)
			id := show("r%d", i)
			want = append(want, id)
			e := created("e", id, run.Created{RunAt: at, Payload: []byte(`1`)})
			e.At = at
			r := after(s.T, nil, e)
			s.create(encodeRun(s.T, r), encodeEvent(s.T, e))
			floor := base.Add(time.Duration(i) * time.Microsecond)
			stored := s.getRun("e", id)
			require.Equal(s, []time.Time{floor, floor, floor}, []time.Time{stored.Created, stored.Updated, stored.Due})
			event := s.listEvents(storage.EventFilter{Environment: "e", RunID: id})[0]
			require.Equal(s, floor, event.At)
			data, ok := event.Data.(run.Created)
			require.True(s, ok)
			require.Equal(s, floor, data.RunAt)
			item := s.listRuns(storage.RunFilter{Environment: "e", Tasks: []string{"task"}, Created: storage.TimeRange{From: floor, Until: floor.Add(1)}})
			require.Equal(s, []string{id}, idsOf(item), "a range of one nanosecond")
			require.Equal(s, floor, item[0].Created)
		}
		at := func(i int, d time.Duration) time.Time { return base.Add(time.Duration(i)*time.Microsecond + d) }
		for _, c := range []struct {
			from, until time.Time
			want        []string
		}{
			{at(1, 0), at(3, 0), want[1:3]},
			{at(1, odd), at(3, 0), want[2:3]}, // it begins behind what was floored
			{at(1, 1), at(3, 1), want[2:4]},
			{at(0, -1), at(0, 1), want[:1]},
			{at(0, 1), at(0, odd), nil},
			{time.Time{}, at(2, odd), want[:3]},
			{at(3, odd), time.Time{}, nil},
		} {
			r := storage.TimeRange{From: c.from, Until: c.until}
			since := r
			if since.From.IsZero() {
				since.From = base // a range that others are looked for within has a beginning
			}
			for _, f := range []storage.RunFilter{
				{Created: r}, {Updated: r, Sort: storage.SortUpdated}, {Due: r, Sort: storage.SortDue}, {Created: since, Updated: r, Due: r, Limit: 1},
			} {
				f.Environment = "e"
				require.ElementsMatch(s, c.want, idsOf(s.listRuns(f)), "%v", r)
				f.Direction = storage.Descending
				require.ElementsMatch(s, c.want, idsOf(s.listRuns(f)), "%v", r)
			}
			events := s.listEvents(storage.EventFilter{Environment: "e", Occurred: r, Sort: storage.SortOccurred, Limit: 1})
			require.Len(s, events, len(c.want), "%v", r)
		}
		partition, err := codec.DuePartition("e", "queue", run.PriorityDefault)
		require.NoError(s, err)
		for i := range want {
			sort, err := keys.EncodeTime(at(i, odd))
			require.NoError(s, err)
			q := storage.Query{Index: storage.RunsByDue, Partition: partition, Until: storage.At(sort)}
			require.Len(s, s.query(q).Records, i, "what lies before the microsecond")
			q.From, q.Until = q.Until, storage.Bound{}
			require.Len(s, s.query(q).Records, len(want)-i)
		}
	})
}

// crowd creates 50 runs within one microsecond; their ids are returned in order.
func (s *store) crowd(environment string, at time.Time) (ids []string, recs []storage.Record) {
	s.Helper()
	for i := range 50 {
		id := show("r%02d", (i*37)%50)
		e := created(environment, id, run.Created{RunAt: at.Add(time.Duration(i))})
		e.At = at.Add(time.Duration(999 - i))
		ids = append(ids, id)
		recs = append(recs, encodeRun(s.T, after(s.T, nil, e)), encodeEvent(s.T, e))
	}
	s.create(recs...)
	slices.Sort(ids)
	return ids, recs
}

// TestPagesWithinOneMicrosecond pages by 7 through 50 records of one time, both ways,
// and deletes the record that the cursor points at between pages.
func TestPagesWithinOneMicrosecond(t *testing.T) {
	t.Parallel()
	at := time.Date(2021, 3, 1, 12, 0, 0, 5000, time.UTC)
	onBoth(t, func(s *store) {
		n := 0
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			for _, sort := range []storage.RunSort{storage.SortCreated, storage.SortUpdated, storage.SortDue} {
				n++
				environment := show("runs%d", n)
				ids, _ := s.crowd(environment, at)
				f := storage.RunFilter{Environment: environment, Sort: sort, Direction: direction, Limit: 7}
				s.pagesTo(ids, direction, func() ([]string, bool) {
					page, err := s.ListRuns(s.Context(), f)
					require.NoError(s, err)
					f.Cursor = page.Next
					got := idsOf(page.Runs)
					s.forget(environment, got[len(got)-1])
					return got, f.Cursor == ""
				})
			}
			n++
			s.eventPages(show("events%d", n), at, direction)
			for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
				n++
				s.queryPages(show("query%d", n), at, direction, lock)
			}
		}
	})
}

// pagesTo requires that pages, one after the other, are all of ids.
func (s *store) pagesTo(ids []string, direction storage.Direction, next func() (page []string, last bool)) {
	s.Helper()
	want := slices.Clone(ids)
	if direction == storage.Descending {
		slices.Reverse(want)
	}
	var got []string
	for last := false; !last; {
		var page []string
		page, last = next()
		require.True(s, len(page) == 7 || last, "a page of %d", len(page))
		got = append(got, page...)
	}
	require.Equal(s, want, got)
}

// forget deletes a run.
func (s *store) forget(environment, id string) {
	s.Helper()
	key, err := codec.RunKey(environment, id)
	require.NoError(s, err)
	s.remove(key)
}

// eventPages pages through events by the time of their occurrence.
func (s *store) eventPages(environment string, at time.Time, direction storage.Direction) {
	s.Helper()
	_, recs := s.crowd(environment, at)
	var ids []string
	for i := 1; i < len(recs); i += 2 {
		ids = append(ids, decodeEvent(s.T, recs[i]).ID.String())
	}
	slices.Sort(ids)
	f := storage.EventFilter{Environment: environment, Sort: storage.SortOccurred, Direction: direction, Limit: 7}
	s.pagesTo(ids, direction, func() (got []string, last bool) {
		page, err := s.ListEvents(s.Context(), f)
		require.NoError(s, err)
		f.Cursor = page.Next
		for _, e := range page.Events {
			got = append(got, e.ID.String())
		}
		key, err := codec.EventKey(environment, uuid.MustParse(got[len(got)-1]))
		require.NoError(s, err)
		s.remove(key)
		return got, f.Cursor == ""
	})
}

// queryPages pages through the candidates of a named index.
func (s *store) queryPages(environment string, at time.Time, direction storage.Direction, lock storage.Lock) {
	s.Helper()
	ids, _ := s.crowd(environment, at)
	partition, err := codec.DuePartition(environment, "queue", run.PriorityDefault)
	require.NoError(s, err)
	q := storage.Query{Index: storage.RunsByDue, Partition: partition, Direction: direction, Lock: lock, Limit: 7, Until: storage.ServerNow()}
	s.pagesTo(ids, direction, func() (got []string, last bool) {
		page := s.query(q)
		q.Resume = page.Resume
		for _, rec := range page.Records {
			got = append(got, decodeRun(s.T, rec).ID)
		}
		if len(got) > 0 {
			s.forget(environment, got[len(got)-1])
		}
		return got, q.Resume.IsZero()
	})
}
