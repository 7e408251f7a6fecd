package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/memory"
)

var began = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)

// desk is a store in memory and a command line to look at it.
type desk struct {
	*testing.T
	store  storage.Driver
	world  World
	ticks  chan time.Time // each lets a watch look again
	looked chan struct{}  // a watch waits
	out    output
}

// output is what was written, for two goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// take returns what was written since the last call.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.text.Reset()
	return o.text.String()
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, store: memory.New(memory.Config{}), ticks: make(chan time.Time), looked: make(chan struct{})}
	t.Cleanup(func() { require.NoError(t, d.store.Close()) })
	d.world = World{
		Open: func(context.Context) (storage.Operator, func() error, error) {
			return d.store, func() error { return nil }, nil
		},
		Now:   func() time.Time { return began.Add(time.Hour) },
		Local: time.UTC, Screen: func() show.Screen { return show.Screen{} },
		After: func(time.Duration) <-chan time.Time {
			d.looked <- struct{}{}
			return d.ticks
		},
	}
	return d
}

func (d *desk) run(ctx context.Context, args ...string) error {
	group := &cobra.Command{Use: "runs", SilenceErrors: true, SilenceUsage: true}
	Add(group, &d.world)
	group.SetArgs(append([]string{"-e", "prod"}, args...))
	group.SetOut(&d.out)
	group.SetErr(&d.out)
	return group.ExecuteContext(ctx)
}

// says is what a command line that succeeds writes.
func (d *desk) says(args ...string) string {
	d.Helper()
	require.NoError(d, d.run(d.Context(), args...))
	return d.out.take()
}

// add stores a run that was created so many seconds after the beginning.
func (d *desk) add(id string, second int, payload string) run.Run {
	d.Helper()
	e := run.Event{
		ID: uuid.Must(uuid.NewV7()), Environment: "prod", RunID: id, Sequence: 1, At: began.Add(time.Duration(second) * time.Second),
		Data: run.Created{Task: "mail", Queue: "default", Priority: run.PriorityDefault, Payload: json.RawMessage(payload), Source: run.Source{Type: run.SourceTrigger}},
	}
	r, err := run.Reduce(nil, 1, e)
	require.NoError(d, err)
	d.put(r, e, true)
	return r
}

// then stores what follows.
func (d *desk) then(r run.Run, second int, data run.EventData) run.Run {
	d.Helper()
	e := run.Event{
		ID: uuid.Must(uuid.NewV7()), Environment: "prod", RunID: r.ID, Sequence: r.Sequence + 1, At: began.Add(time.Duration(second) * time.Second), Data: data,
	}
	next, err := run.Reduce(&r, e.Sequence, e)
	require.NoError(d, err)
	d.put(next, e, false)
	return next
}

func (d *desk) put(r run.Run, e run.Event, create bool) {
	d.Helper()
	runRecord, err := codec.EncodeRun(r)
	require.NoError(d, err)
	eventRecord, err := codec.EncodeEvent(e)
	require.NoError(d, err)
	_, err = d.store.Transact(d.Context(), "test.put", func(ctx context.Context, tx storage.Tx) error {
		for _, key := range []storage.Key{runRecord.Key, eventRecord.Key} {
			if _, _, err := tx.Get(ctx, key); err != nil {
				return err
			}
		}
		write := tx.Replace
		if create {
			write = tx.Create
		}
		if err := write(ctx, runRecord); err != nil {
			return err
		}
		return tx.Create(ctx, eventRecord)
	})
	require.NoError(d, err)
}

func (d *desk) many(n int) {
	for i := range n {
		d.add(fmt.Sprintf("run-%03d", i), i, `{"n":12345678901234567890}`)
	}
}

type page struct {
	Items []struct{ ID string }
	Next  string
	Times map[string]string
}

// A page names the next one, and what its relative times were, with which it is read
// an hour later.
func TestListPages(t *testing.T) {
	d := newDesk(t)
	d.many(25)
	args := []string{"--created-after", "2h"}
	var ids []string
	for hour := 1; ; hour++ {
		d.world.Now = func() time.Time { return began.Add(time.Duration(hour) * time.Hour) }
		var p page
		require.NoError(t, json.Unmarshal([]byte(d.says(append([]string{"list", "-o", "json", "--limit", "10"}, args...)...)), &p))
		for _, item := range p.Items {
			ids = append(ids, item.ID)
		}
		if p.Next == "" {
			break
		}
		if hour == 1 {
			require.Equal(t, map[string]string{"created-after": "2026-11-30T13:00:00Z"}, p.Times)
			args = []string{"--created-after", p.Times["created-after"]}
		}
		args = append(args[:2:2], "--cursor", p.Next)
	}
	require.Len(t, ids, 25)
	require.Equal(t, "run-024", ids[0])
	require.Equal(t, "run-000", ids[24])
}

func TestListAll(t *testing.T) {
	d := newDesk(t)
	d.many(25)
	for _, form := range []string{"ndjson", "json", "table"} {
		text := d.says("list", "--all", "--limit", "10", "--asc", "-o", form)
		require.Equal(t, 25, strings.Count(text, "run-"), form)
		require.Less(t, strings.Index(text, "run-009"), strings.Index(text, "run-010"))
		require.NotContains(t, text, "more:")
	}
	lines := strings.Split(strings.TrimSpace(d.says("list", "--all", "--limit", "10", "--full", "-o", "ndjson")), "\n")
	require.Len(t, lines, 25)
	for _, line := range lines {
		require.Contains(t, line, `"payload":{"n":12345678901234567890}`)
	}
}

// A stream has been written up to the page that fails; anything else writes nothing.
func TestFailureMidway(t *testing.T) {
	d := newDesk(t)
	d.many(25)
	d.world.Open = func(context.Context) (storage.Operator, func() error, error) {
		return &failing{Operator: d.store, pages: 1}, func() error { return nil }, nil
	}
	for form, runs := range map[string]int{"ndjson": 10, "json": 0, "table": 0} {
		require.ErrorIs(t, d.run(t.Context(), "list", "--all", "--limit", "10", "-o", form), storage.ErrUnavailable)
		require.Equal(t, runs, strings.Count(d.out.take(), "run-"), form)
	}
}

type failing struct {
	storage.Operator
	pages int
}

func (f *failing) ListRuns(ctx context.Context, filter storage.RunFilter) (storage.RunPage, error) {
	if f.pages--; f.pages < 0 {
		return storage.RunPage{}, storage.ErrUnavailable
	}
	return f.Operator.ListRuns(ctx, filter)
}

func TestListTable(t *testing.T) {
	d := newDesk(t)
	d.add("日本", 1, `1`)
	d.add("evil\x1b[2J\n", 2, `1`)
	d.add("third", 3, `1`)
	text := d.says("list", "--limit", "2", "--created-after", "2h")
	lines := strings.Split(text, "\n")
	require.Len(t, lines, 5)
	require.Contains(t, lines[0], "ID")
	require.Contains(t, lines[1], "2026-11-30 14:00:03 (59m ago)")
	require.Contains(t, lines[2], `evil\x1b[2J\n`)
	require.Regexp(t, `^more: --cursor \S+ --created-after 2026-11-30T13:00:00Z$`, lines[3])
	require.NotContains(t, text, "\x1b")
}

func TestGet(t *testing.T) {
	d := newDesk(t)
	r := d.add("r", 1, `{"n":1.50}`)
	token := uuid.New()
	d.then(r, 2, run.Started{Lease: run.Lease{Token: token, Worker: "w", Attempt: 1, Expires: began.Add(time.Minute), Duration: time.Minute}})
	text := d.says("get", "r")
	require.Contains(t, text, `{"n":1.50}`)
	require.Regexp(t, `lease +w, until 2026-11-30 14:01:00 \(59m ago\)`, text)
	for _, form := range []string{"json", "ndjson"} {
		var shown show.Run
		text = d.says("get", "r", "-o", form)
		require.NotContains(t, text, token.String())
		require.NoError(t, json.Unmarshal([]byte(text), &shown))
		require.Equal(t, run.StatusRunning, shown.Status)
		require.Equal(t, "w", shown.Lease.Worker)
	}
	require.ErrorIs(t, d.run(t.Context(), "get", "nobody"), ErrNotFound)
	require.Empty(t, d.out.take())
}

func TestCount(t *testing.T) {
	d := newDesk(t)
	d.many(5)
	require.Regexp(t, `queued +5\n`, d.says("count"))
	require.Equal(t, "STATUS  RUNS\nqueued  at least 3\n", d.says("count", "--status", "queued", "--cap", "3"))
	require.Equal(t, `{"status":"queued","runs":3,"at_least":true}`+"\n", d.says("count", "--status", "queued", "--cap", "3", "-o", "ndjson"))
}

func TestEvents(t *testing.T) {
	d := newDesk(t)
	d.many(3)
	r := d.add("r", 10, `{"n":0.10}`)
	d.then(r, 11, run.Cancelled{Reason: "no\x07"})
	text := d.says("events", "r")
	require.Regexp(t, `(?s)^AT .*r +1 +run.created .*r +2 +run.cancelled +no\\x07\n$`, text)
	require.Contains(t, d.says("events", "r", "-o", "ndjson"), `"payload":{"n":0.10}`)
	require.Equal(t, 5, strings.Count(d.says("events", "-o", "ndjson", "--limit", "2", "--all"), "\n"))
	require.Equal(t, 4, strings.Count(d.says("events", "-o", "ndjson", "--type", "run.created"), "\n"))
	require.Equal(t, "[]", strings.Join(strings.Fields(d.says("events", "nobody", "-o", "json")), "")[9:11])
}

func TestRefused(t *testing.T) {
	d := newDesk(t)
	d.many(3)
	for says, args := range map[string][]string{
		"unsupported filter: tasks: has no index": {"list", "--task", "mail"},
		"invalid cursor":                             {"list", "--cursor", "x"},
		"--output: \"xml\" is none of table":         {"list", "-o", "xml"},
		"--environment is needed":                    {"list", "-e", ""},
		"invalid query: environment":                 {"list", "-e", "a:b"},
		"--cap is 0":                                 {"count", "--cap", "0"},
		"--interval is for --watch":                  {"list", "--interval", "1s"},
		"--interval is 1ms, less than 100ms":         {"list", "--watch", "--interval", "1ms"},
		"--all and --watch exclude each other":       {"list", "--watch", "--all"},
		"--direction and --watch exclude each other": {"events", "--watch", "--direction", "desc"},
		"the run id is empty":                        {"events", ""},
		"sequence, which needs a run id":             {"events", "--sort", "sequence"},
	} {
		err := d.run(t.Context(), args...)
		require.ErrorAs(t, err, new(*usage.Error), says)
		require.ErrorContains(t, err, says)
		require.Empty(t, d.out.take())
	}
}

func TestCompletion(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		cmd, flag string
		has       []string
	}{
		{"list", "--status", []string{"queued", "cancellation_requested"}}, {"list", "--sort", []string{"created", "due"}}, {"list", "--output", []string{"ndjson"}},
		{"count", "--source-type", []string{"manual_retry"}}, {"events", "--type", []string{"run.lease_expired"}}, {"events", "--sort", []string{"sequence"}},
		{"list", "--direction", []string{"desc"}},
	} {
		text := d.says(cobra.ShellCompNoDescRequestCmd, c.cmd, c.flag, "")
		for _, word := range c.has {
			require.Contains(t, strings.Split(text, "\n"), word, c)
		}
	}
}

func token(i int) uuid.UUID { return uuid.UUID{0: 1, 14: byte(i >> 8), 15: byte(i)} }
