package filter

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var now = time.Date(2026, 11, 30, 14, 0, 0, 123_456_789, time.UTC)

func TestParseTime(t *testing.T) {
	micro := now.Truncate(time.Microsecond)
	for text, want := range map[string]time.Time{
		"now": micro, "2h": micro.Add(-2 * time.Hour), "2h ago": micro.Add(-2 * time.Hour), "in 90m": micro.Add(90 * time.Minute),
		"1w2d3h ago": micro.Add(-(9*24 + 3) * time.Hour), "3d": micro.Add(-72 * time.Hour), "250ms": micro.Add(-250 * time.Millisecond),
		"1m": micro.Add(-time.Minute),
	} {
		got, relative, err := ParseTime(text, now)
		require.NoError(t, err, text)
		require.True(t, relative, text)
		require.Equal(t, want, got, text)
	}
	got, relative, err := ParseTime("2026-11-30T14:02:11.1234567+02:00", now)
	require.NoError(t, err)
	require.False(t, relative)
	require.Equal(t, time.Date(2026, 11, 30, 12, 2, 11, 123_456_000, time.UTC), got)
	for _, text := range []string{
		"", "yesterday", "-2h", "+2h", "2", "2h later", "in", "in -2h", "1.5d", "d", "99999999999w", "300w400000000h", "2026-11-30", "1d-2h", "in 2h ago",
	} {
		_, _, err := ParseTime(text, now)
		require.ErrorAs(t, err, new(*usage.Error), text)
	}
}

// parse is a command line read by flags that bind binds.
func parse(t *testing.T, bind func(*cobra.Command), args ...string) *cobra.Command {
	t.Helper()
	cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
	bind(cmd)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return cmd
}

func runsOf(t *testing.T, args ...string) (storage.RunFilter, *Runs, error) {
	var r Runs
	cmd := parse(t, func(cmd *cobra.Command) { r.Bind(cmd, true) }, args...)
	f, err := r.Filter(cmd, "prod", now)
	return f, &r, err
}

func eventsOf(t *testing.T, runID string, args ...string) (storage.EventFilter, error) {
	var e Events
	cmd := parse(t, e.Bind, args...)
	return e.Filter(cmd, "prod", runID, now)
}

var (
	from  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	until = from.Add(time.Hour)
	both  = storage.TimeRange{From: from, Until: until}
)

func within(name string) []string {
	return []string{"--" + name + "-after", from.Format(time.RFC3339), "--" + name + "-before", until.Format(time.RFC3339)}
}

// Every field of a filter has a flag: none is empty when all are given.
func TestEveryField(t *testing.T) {
	args := []string{
		"--status", "failed,queued", "--status", "running", "--task", "a,b", "--task", "c", "--queue", "q", "--source-type", "rerun,schedule",
		"--source-run", "r", "--schedule", "s", "--idempotency-key", "i", "--singleton-key", "k", "--concurrency-key", "c",
		"--sort", "due", "--direction", "desc", "--limit", "7", "--cursor", "x", "--full",
	}
	for _, name := range []string{"created", "updated", "due", "lease-expires"} {
		args = append(args, within(name)...)
	}
	f, _, err := runsOf(t, args...)
	require.NoError(t, err)
	require.Equal(t, storage.RunFilter{
		Environment: "prod", Statuses: []run.Status{run.StatusFailed, run.StatusQueued, run.StatusRunning}, Tasks: []string{"a,b", "c"}, Queues: []string{"q"},
		SourceTypes: []run.SourceType{run.SourceRerun, run.SourceSchedule}, SourceRun: "r", Schedule: "s", IdempotencyKey: "i", SingletonKey: "k", ConcurrencyKey: "c",
		Created: both, Updated: both, Due: both, LeaseExpiry: both, Sort: storage.SortDue, Direction: storage.Descending, Full: true, Limit: 7, Cursor: "x",
	}, f)
	requireFull(t, f)

	e, err := eventsOf(t, "r", append(within("occurred"), "--type", "run.failed,run.created", "--sort", "occurred", "--direction", "desc", "--limit", "8", "--cursor", "x")...)
	require.NoError(t, err)
	require.Equal(t, storage.EventFilter{
		Environment: "prod", RunID: "r", Types: []run.EventType{run.TypeFailed, run.TypeCreated}, Occurred: both,
		Sort: storage.SortOccurred, Direction: storage.Descending, Limit: 8, Cursor: "x",
	}, e)
	requireFull(t, e)
}

func requireFull(t *testing.T, filter any) {
	t.Helper()
	v := reflect.ValueOf(filter)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
}

func TestDefaults(t *testing.T) {
	f, _, err := runsOf(t)
	require.NoError(t, err)
	require.Equal(t, storage.RunFilter{Environment: "prod", Direction: storage.Descending, Limit: 50}, f)
	f, _, err = runsOf(t, "--asc", "--all")
	require.NoError(t, err)
	require.Equal(t, storage.RunFilter{Environment: "prod", Direction: storage.Ascending, Limit: 500}, f)
	e, err := eventsOf(t, "r")
	require.NoError(t, err)
	require.Equal(t, storage.EventFilter{Environment: "prod", RunID: "r", Sort: storage.SortSequence, Direction: storage.Ascending, Limit: 50}, e)
	e, err = eventsOf(t, "")
	require.NoError(t, err)
	require.Equal(t, storage.EventFilter{Environment: "prod", Sort: storage.SortOccurred, Direction: storage.Descending, Limit: 50}, e)
}

// What a relative time came to is said, so that the next page can be asked for.
func TestExact(t *testing.T) {
	f, r, err := runsOf(t, "--created-after", "2h", "--created-before", "2026-12-01T00:00:00Z")
	require.NoError(t, err)
	require.Equal(t, map[string]time.Time{"created-after": f.Created.From}, r.Exact)
}

func TestRefusals(t *testing.T) {
	for says, args := range map[string][]string{
		`--status: "odd" is none of queued, scheduled`: {"--status", "odd"},
		`--status is empty`:                            {"--status", ""},
		`--source-type: "me" is none of`:               {"--source-type", "me"},
		`--schedule is empty`:                          {"--schedule", ""},
		`--cursor is empty`:                            {"--cursor", ""},
		`--sort: "id" is none of created`:              {"--sort", "id"},
		`--direction: "up" is none of asc`:             {"--direction", "up"},
		`--limit is 0`:                                 {"--limit", "0"},
		`--limit is 501`:                               {"--limit", "501"},
		`--due-before: "soon" is no time`:              {"--due-before", "soon"},
		`--due-after: "" is no time`:                   {"--due-after", ""},
		`--created-after is not before`:                {"--created-after", "1h", "--created-before", "1h"},
		`there is nothing before the year 1`:           {"--created-after", "0001-01-01T00:00:00Z"},
	} {
		_, _, err := runsOf(t, args...)
		require.ErrorAs(t, err, new(*usage.Error), says)
		require.ErrorContains(t, err, says)
	}
	_, err := eventsOf(t, "", "--type", "run.odd")
	require.ErrorContains(t, err, `--type: "run.odd" is none of run.created`)
	_, err = eventsOf(t, "", "--sort", "created")
	require.ErrorContains(t, err, `--sort: "created" is none of sequence, occurred`)
}
