package hostile_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests name zones that a machine may not know

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/keys"
)

// moments are times at which clocks on walls do strange things: in each zone the
// last microsecond before a change and the first after it, in the hour that comes
// twice both times that it comes, and the end of a day.
var moments = []struct {
	zone string
	at   []time.Time
}{
	{"Asia/Kolkata", []time.Time{utc(2026, 2, 28, 18, 29, 59, 999999), utc(2026, 2, 28, 18, 30, 0, 0)}},
	{"Asia/Kathmandu", []time.Time{utc(1985, 12, 31, 18, 29, 59, 999999), utc(1985, 12, 31, 18, 30, 0, 0)}}, // from +5:30 to +5:45
	{"America/New_York", []time.Time{
		utc(2026, 3, 8, 6, 59, 59, 999999), utc(2026, 3, 8, 7, 0, 0, 0), // 02:00 does not exist
		utc(2026, 11, 1, 5, 30, 0, 1), utc(2026, 11, 1, 6, 30, 0, 1), // 01:30 comes twice
	}},
	{"Australia/Lord_Howe", []time.Time{ // by half an hour
		utc(2026, 10, 3, 15, 29, 59, 999999), utc(2026, 10, 3, 15, 30, 0, 0),
		utc(2026, 4, 4, 14, 45, 0, 1), utc(2026, 4, 4, 15, 15, 0, 1), // 01:45 comes twice
	}},
	{"Africa/Monrovia", []time.Time{utc(1972, 1, 7, 0, 44, 29, 999999), utc(1972, 1, 7, 0, 44, 30, 0)}}, // from -0:44:30 to UTC
	{"Pacific/Apia", []time.Time{utc(2011, 12, 30, 9, 59, 59, 999999), utc(2011, 12, 30, 10, 0, 0, 0)}}, // a day does not exist
}

func utc(year int, month time.Month, day, hour, minute, second, micros int) time.Time {
	return time.Date(year, month, day, hour, minute, second, 1000*micros, time.UTC)
}

// inZone runs a test for sessions that live in a zone: in a mode in which times travel
// in binary, and in those in which they travel as the session spells them.
func inZone(t *testing.T, zone string, test func(t *testing.T, change func(*pgxpool.Config))) {
	t.Helper()
	for _, m := range modes {
		if m.mode == pgx.QueryExecModeCacheDescribe || m.mode == pgx.QueryExecModeDescribeExec {
			continue // as QueryExecModeCacheStatement
		}
		t.Run(zone+" "+m.name, func(t *testing.T) {
			test(t, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["TimeZone"] = zone
				c.ConnConfig.DefaultQueryExecMode = m.mode
			})
		})
	}
}

// TestSessionTimeZones commits at such moments, in sessions that live in the zone:
// documents, columns, filters, cursors and sort values mean the same moment.
func TestSessionTimeZones(t *testing.T) {
	t.Parallel()
	k := newSkewed(t)
	n := 0
	for _, z := range moments {
		location, err := time.LoadLocation(z.zone)
		require.NoError(t, err)
		inZone(t, z.zone, func(t *testing.T, change func(*pgxpool.Config)) {
			for _, at := range z.at {
				n++
				k.freeze(t, at)
				k.open(t, change).meansTheMoment(show("e%d", n), at, location)
			}
		})
	}
}

// meansTheMoment commits a run at a moment and finds it there.
func (s *store) meansTheMoment(environment string, at time.Time, location *time.Location) {
	s.Helper()
	const later = time.Hour // beyond the next change of the clocks, or back before it
	e := created(environment, "r", run.Created{RunAt: run.AtCommit.Add(later), Payload: []byte(`1`)})
	runRec, eventRec := encodeRun(s.T, after(s.T, nil, e)), encodeEvent(s.T, e)
	require.Equal(s, at, s.create(runRec, eventRec).Time)
	due := at.Add(later)

	r := s.getRun(environment, "r")
	require.Equal(s, []time.Time{at, at, due}, []time.Time{r.Created, r.Updated, r.Due})
	require.Equal(s, at, s.listEvents(storage.EventFilter{Environment: environment, RunID: "r"})[0].At)
	require.Contains(s, string(s.read(runRec.Key).Document), at.Format(storage.TimeFormat))
	var columns bool
	require.NoError(s, s.sq.QueryRow(s.Context(), `
		SELECT r.created_at = $1 AND r.updated_at = $1 AND r.due_at = $2 AND e.occurred_at = $1
		FROM runlane.runlane_runs r JOIN runlane.runlane_record_run_events e USING (environment_key)
		WHERE environment_key = $3`, at, due, runRec.Key.Partition).Scan(&columns))
	require.True(s, columns)

	local, localDue := at.In(location), due.In(location) // as a caller may have them
	for f, want := range map[*storage.RunFilter]int{
		{Created: storage.TimeRange{From: local, Until: local.Add(1)}}:                          1,
		{Created: storage.TimeRange{Until: local}}:                                              0,
		{Created: storage.TimeRange{From: local.Add(time.Microsecond)}}:                         0,
		{Due: storage.TimeRange{From: localDue, Until: localDue.Add(1)}, Sort: storage.SortDue}: 1,
		{Due: storage.TimeRange{From: local, Until: localDue}, Sort: storage.SortDue}:           0,
		{Updated: storage.TimeRange{From: local}, Sort: storage.SortUpdated}:                    1,
		{Updated: storage.TimeRange{From: local.Add(-time.Hour), Until: local}, Sort: 1}:        0,
	} {
		f.Environment = environment
		items := s.listRuns(*f)
		require.Len(s, items, want, "%+v", *f)
		if want == 1 {
			require.Equal(s, []time.Time{at, at, due}, []time.Time{items[0].Created, items[0].Updated, items[0].Due})
		}
	}
	events := s.listEvents(storage.EventFilter{Environment: environment, Sort: storage.SortOccurred, Occurred: storage.TimeRange{From: local, Until: local.Add(1)}})
	require.Len(s, events, 1)
	partition, err := codec.DuePartition(environment, "queue", run.PriorityDefault)
	require.NoError(s, err)
	sort, err := keys.EncodeTime(due)
	require.NoError(s, err)
	page := s.query(storage.Query{Index: storage.RunsByDue, Partition: partition, From: storage.At(sort), Limit: 1})
	require.Equal(s, at, page.Time)
	require.Equal(s, storage.Resume{Sort: sort, ID: runRec.Key.ID}, page.Resume)
	require.Empty(s, s.query(storage.Query{Index: storage.RunsByDue, Partition: partition, Until: storage.ServerNow()}).Records)

	// The cursor behind it continues behind it.
	s.create(encodeRun(s.T, after(s.T, nil, created(environment, "s", run.Created{RunAt: run.AtCommit.Add(later)}))))
	for _, sort := range []storage.RunSort{storage.SortCreated, storage.SortUpdated, storage.SortDue} {
		require.Equal(s, []string{"r", "s"}, idsOf(s.listRuns(storage.RunFilter{Environment: environment, Sort: sort, Limit: 1})))
	}
}

// TestFarYears: the last second of 9999 is a time like any other, in every session.
// What lies outside of 1970 to 9999 is no time of a run, and a filter may ask from the
// year 1 to 9999, whatever zone its times are in.
func TestFarYears(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	first := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	check := func(s *store, environment string) {
		for id, due := range map[string]time.Time{"last": last, "first": first} {
			e := created(environment, id, run.Created{RunAt: due})
			s.create(encodeRun(s.T, after(s.T, nil, e)), encodeEvent(s.T, e))
			require.Equal(s, due.Truncate(time.Microsecond), s.getRun(environment, id).Due)
		}
		all := s.listRuns(storage.RunFilter{Environment: environment, Sort: storage.SortDue, Limit: 1})
		require.Equal(s, []string{"first", "last"}, idsOf(all))
		require.Equal(s, []time.Time{first, last.Truncate(time.Microsecond)}, []time.Time{all[0].Due, all[1].Due})
		require.Equal(s, []string{"last"}, idsOf(s.listRuns(storage.RunFilter{Environment: environment, Sort: storage.SortDue, Due: storage.TimeRange{From: last.Truncate(time.Microsecond)}})))
		require.Empty(s, s.listRuns(storage.RunFilter{Environment: environment, Sort: storage.SortDue, Due: storage.TimeRange{From: last}}))
		require.Len(s, s.listRuns(storage.RunFilter{Environment: environment, Sort: storage.SortDue, Due: storage.TimeRange{Until: last}}), 2)
		partition, err := codec.DuePartition(environment, "queue", run.PriorityDefault)
		require.NoError(s, err)
		require.Len(s, s.query(storage.Query{Index: storage.RunsByDue, Partition: partition, Until: storage.ServerNow()}).Records, 1)
	}
	onBoth(t, func(s *store) { check(s, "e") })
	db := pgtest.New(t)
	for _, zone := range []string{"Pacific/Kiritimati", "Asia/Kolkata", "Africa/Monrovia", "America/New_York"} {
		inZone(t, zone, func(t *testing.T, change func(*pgxpool.Config)) {
			check(&store{T: t, Driver: openOn(t, db, change)}, t.Name())
		})
	}
}

// TestYearsOutside: nothing writes such a time by way of the codec, and a document
// that holds one is opaque, on every driver alike.
func TestYearsOutside(t *testing.T) {
	t.Parallel()
	far := []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-4713, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(300, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, at := range far {
		e := created("e", "r", run.Created{RunAt: at})
		_, err := codec.EncodeEvent(e)
		requireRefused(t, err, storage.ErrInvalidDocument, "run_at", "%v", at)
		_, err = codec.EncodeRun(after(t, nil, e))
		requireRefused(t, err, storage.ErrInvalidDocument, "due_at", "%v", at)
	}
	onBoth(t, func(s *store) {
		_, good, _ := newRun(s.T, "e", "r", nil)
		spelt := []string{
			"infinity", "-infinity", "now", "epoch", "today", "10000-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z",
			"2026-02-29T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z", "2026-01-01T00:00:60.000000Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000+01",
			"2026-01-01 00:00:00.000000Z", "0044-03-15T00:00:00.000000Z BC", "allballs", "",
		}
		for i, text := range spelt {
			doc := []byte(`{"codec":"run","v":1,"value":{"environment":"e","id":"r","task":"t","queue":"q","priority":1,"status":"queued","sequence":1,"due_at":"` +
				text + `","created_at":"2026-01-01T00:00:00.000000Z","updated_at":"2026-01-01T00:00:00.000000Z","source_type":"trigger","payload":1}}`)
			rec := storage.Record{Key: good.Key, Document: doc}
			if i == 0 {
				s.create(rec)
			} else {
				s.replace(rec)
			}
			require.JSONEq(s, string(doc), string(s.read(rec.Key).Document))
			_, found, err := s.GetRun(s.Context(), "e", "r")
			require.NoError(s, err)
			require.False(s, found, "%q", text)
			require.Empty(s, s.listRuns(storage.RunFilter{Environment: "e"}))
		}
		s.replace(good)
		require.Len(s, s.listRuns(storage.RunFilter{Environment: "e"}), 1)
	})
}

// TestRangesOfFarYears: both ends of what a filter may ask, in zones on both sides of
// Greenwich. Every driver gives the same answer: a page, or a refusal that names the
// range.
func TestRangesOfFarYears(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{}
	onBoth(t, func(s *store) {
		_, runRec, eventRec := newRun(s.T, "e", "r", nil)
		s.create(runRec, eventRec)
		for _, zone := range []string{"UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati"} {
			location, err := time.LoadLocation(zone)
			require.NoError(s, err)
			for _, at := range []time.Time{
				time.Date(-1, 1, 1, 0, 0, 0, 0, location), time.Date(0, 12, 31, 23, 59, 59, 999999999, location),
				time.Date(1, 1, 1, 0, 0, 0, 1, location), time.Date(1, 1, 1, 12, 0, 0, 0, location), time.Date(1, 1, 2, 0, 0, 0, 0, location),
				time.Date(9999, 12, 31, 0, 0, 0, 0, location), time.Date(9999, 12, 31, 23, 59, 59, 999999999, location),
				time.Date(10000, 1, 1, 0, 0, 0, 0, location), time.Date(10000, 1, 1, 12, 0, 0, 0, location), time.Date(300000, 1, 1, 0, 0, 0, 0, location),
			} {
				for _, r := range []storage.TimeRange{{From: at}, {Until: at}} {
					runs, err := s.ListRuns(s.Context(), storage.RunFilter{Environment: "e", Created: r})
					events, eerr := s.ListEvents(s.Context(), storage.EventFilter{Environment: "e", RunID: "r", Occurred: r})
					for kind, answer := range map[string]error{"runs": err, "events": eerr} {
						if answer != nil {
							s.refused(answer, storage.ErrInvalidQuery, "range", "%s, %v", kind, r)
						}
					}
					what := show("%s %v %v", zone, at, r.From.IsZero())
					answers[what] = append(answers[what], show("%d %v %d %v", len(runs.Runs), err, len(events.Events), eerr))
				}
			}
		}
	})
	for what, of := range answers {
		require.Len(t, of, 2)
		require.Equal(t, of[0], of[1], what)
	}
}
