package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain, größer, 日本, e\u0301": "plain, größer, 日本, e\u0301", "\x1b[2J\x07": `\x1b[2J\x07`, "a\nb\tc\rd": `a\nb\tc\rd`, "\x7f": `\x7f`,
		"\u009b31m": `\u009b31m`, "\u202egnp.exe": `\u202egnp.exe`, "a\u2028b": `a\u2028b`, "\xff": `\xff`, "👩\u200d🚀": "👩\u200d🚀", "\u200b": `\u200b`, "\U000e0041": `\ue0041`,
	} {
		require.Equal(t, want, Clean(text))
	}
}

func TestTime(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 5, 30, 0, time.UTC)
	clock := Clock{Now: now, Local: time.FixedZone("here", 2*3600)}
	require.Equal(t, "2026-11-30 14:02:11 (3m ago)", clock.Time(now.Add(-3*time.Minute-19*time.Second)))
	require.Equal(t, "2026-11-30 14:05:30 (now)", clock.Time(now))
	require.Empty(t, clock.Time(time.Time{}))
	for d, want := range map[time.Duration]string{
		59 * time.Second: "59s ago", 23 * time.Hour: "23h ago", 50 * time.Hour: "2d ago", 800 * 24 * time.Hour: "2y ago", -90 * time.Minute: "in 1h",
	} {
		require.Equal(t, want, age(d))
	}
}

func sample() *Table {
	return &Table{Columns: []Column{
		{Title: "ID", Least: 4}, {Title: "NAME", Least: 5, Spare: 1}, {Title: "STATUS", Color: StatusColor}, {Title: "MORE", Least: 3, Spare: 2},
	}}
}

var rows = [][]string{
	{"run-1", "日本語のタスク", "failed", "x"}, {"run-22", "e\u0301te\u0301", "succeeded", "y"}, {"r", "\x1b[31mred\n", "queued", ""}, {"r", "👩\u200d🚀", "queued", "z"},
}

// Columns begin at the same place in every line, whatever is before them.
func TestAligned(t *testing.T) {
	text := sample().Text(Screen{}, true, rows)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, 5)
	at := column(t, lines[0], "STATUS")
	for i, line := range lines[1:] {
		require.Equal(t, at, column(t, line, rows[i][2]), line)
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
	require.NotContains(t, text, "\x1b")
	require.Contains(t, text, `\x1b[31mred\n`)
	require.Equal(t, "ID      NAME            STATUS     MORE\n"+
		"run-1   日本語のタスク  failed     x\n", strings.Join(lines[:2], "\n")+"\n")
}

// Rows that come later stay below the columns of those before.
func TestRowsLater(t *testing.T) {
	table := sample()
	first := table.Text(Screen{}, true, rows[:1])
	later := table.Text(Screen{}, false, [][]string{{"r", "n", "failed", ""}})
	at := column(t, first, "STATUS")
	require.Equal(t, at, strings.Index(later, "failed"))
	require.Equal(t, 1, strings.Count(later, "\n"))
}

func TestNarrow(t *testing.T) {
	for width := 15; width <= 60; width++ {
		text := sample().Text(Screen{Width: width}, true, rows)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, displaywidth.String(strings.TrimSuffix(line, "\n")), width, text)
		}
		require.Contains(t, text, "succeeded")
	}
	require.NotContains(t, sample().Text(Screen{Width: 22}, true, rows), "MORE")
	require.Contains(t, sample().Text(Screen{Width: 22}, true, rows), "NAM")
	require.Contains(t, sample().Text(Screen{Width: 38}, true, rows), "…")
	require.Contains(t, sample().Text(Screen{Width: 3}, true, rows), "succeeded", "what cannot be left out stays")
}

func TestColor(t *testing.T) {
	require.Contains(t, sample().Text(Screen{Color: true}, true, rows), "\x1b[31mfailed\x1b[0m")
	require.NotContains(t, sample().Text(Screen{Color: true}, true, nil), "\x1b")
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(sample().Text(Screen{Color: true}, true, rows))
	require.Equal(t, sample().Text(Screen{}, true, rows), plain)
}

// Numbers keep all their digits, and what a terminal might obey is an escape.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 30, 16, 2, 11, 1000, time.FixedZone("east", 7200))
	r := run.Run{ID: "a<b>\u009b\u202e\U000e0041\x1b", Payload: json.RawMessage(`{"n":12345678901234567890.1234567890,"b":1e400}`), Created: at}
	line, err := Line(RunOf(&r))
	require.NoError(t, err)
	require.Contains(t, line, `"payload":{"n":12345678901234567890.1234567890,"b":1e400}`)
	require.Contains(t, line, `"id":"a<b>\u009b\u202e\udb40\udc41\u001b"`)
	require.Contains(t, line, `"created":"2026-11-30T14:02:11.000001Z"`)
	require.Equal(t, 1, strings.Count(line, "\n"))
	var back Run
	require.NoError(t, json.Unmarshal([]byte(line), &back))
	require.Equal(t, r.ID, back.ID)
	null, err := Line(RunOf(&run.Run{Payload: json.RawMessage("null")}))
	require.NoError(t, err)
	require.Contains(t, null, `"payload":null`)
}

// Every type of event shows what it says.
func TestEveryEvent(t *testing.T) {
	failure := run.Failure{Code: "error", Message: "broken"}
	for _, data := range []run.EventData{
		run.Created{Task: "t"}, run.Started{Lease: run.Lease{Worker: "w"}}, run.Succeeded{Result: json.RawMessage("1")}, run.Failed{Failure: failure},
		run.RetryScheduled{Failure: failure}, run.Released{Reason: "r"}, run.Waiting{For: "f"}, run.LeaseExpired{Due: time.Unix(1, 0)},
		run.CancellationRequested{Reason: "r"}, run.Cancelled{Reason: "r"},
	} {
		require.NotEqual(t, EventData{}, dataOf(data), "%T", data)
	}
	require.Len(t, EventRow(run.Event{Data: run.Resumed{}}, Clock{Local: time.UTC}), len(EventTable().Columns))
}

// column is where a word begins on the screen.
func column(t *testing.T, line, word string) int {
	t.Helper()
	before, _, found := strings.Cut(line, word)
	require.True(t, found, line)
	return displaywidth.String(before)
}
