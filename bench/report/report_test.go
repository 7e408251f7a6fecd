package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/bench/measure"
	"github.com/seed4391e180/runlane/bench/report"
)

func TestAims(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		aim   report.Aim
		ratio float64
		met   *bool
		text  string
	}{
		{report.AtLeast(5), 5, &yes, "≥ 5"},
		{report.AtLeast(5), 4.999, &no, "≥ 5"},
		{report.AtMost(1.3), 1.3, &yes, "≤ 1.3"},
		{report.AtMost(1.3), 1.301, &no, "≤ 1.3"},
		{report.AtMost(0.2), 0.1, &yes, "≤ 0.2"},
		{report.Aim{}, 1, nil, ""},
	} {
		require.Equal(t, test.met, test.aim.Met(test.ratio), "%v of %v", test.ratio, test.aim)
		require.Equal(t, test.text, test.aim.String())
	}
}

// sample are rows of every kind.
func sample() []*report.Row {
	return []*report.Row{
		{
			Name: "Trigger <64>", Peer: "River, pool 4 | 16", Unit: report.PerSecond, Ours: 13_000, Them: 2000, Aim: report.AtLeast(5),
			Spent: report.Spent{Unit: "run", Ours: &measure.PerUnit{Commits: 0.001, RoundTrips: 1, Rows: 2, Entries: 9, WALBytes: 1234.5}},
			Notes: []string{"tried all"},
		},
		{Name: "page", Peer: "SQL by hand", Unit: report.Micros, Ours: 300, Them: 200, Aim: report.AtMost(1.3)},
		{Name: "wakes off", Peer: "on", Unit: report.PerSecond, Ours: 3, Them: 2},
		{Name: "wakes early", Peer: "late", Unit: report.Micros, Ours: -3, Them: 2},
	}
}

func TestTable(t *testing.T) {
	text := report.Table(report.Header{Form: "short", Server: "15.1", Machine: "2 processors", Peers: "River 1", Took: "1m"}, sample())
	for _, want := range []string{
		"# Benchmarks, short form\n",
		"| Trigger <64> | River, pool 4 \\| 16 | 13,000 runs/s | 2,000 runs/s | 6.5 | ≥ 5 | yes |\n",
		"| page | SQL by hand | 300 µs | 200 µs | 1.5 | ≤ 1.3 | **no** |\n",
		"| wakes off | on | 3 runs/s | 2 runs/s | 1.5 |  |  |\n",
		"| Trigger <64>, River, pool 4 \\| 16 | run | 0.0010 / – | 1.00 / – | 2.00 / – | 9.00 / – | 1234 / – |\n",
		"- Trigger <64>, River, pool 4 | 16: tried all\n",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, " / – |\n"), "only what was counted has a line of costs")
}

func TestChart(t *testing.T) {
	chart := report.Chart(sample())
	texts, bars := 0, map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(chart)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "the chart is well-formed")
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range element.Attr {
			if a.Name.Local == "fill" && element.Name.Local == "rect" {
				bars[a.Value]++
			}
			require.NotContains(t, a.Value, "NaN")
			require.NotContains(t, a.Value, "Inf")
		}
		if element.Name.Local == "text" {
			texts++
		}
	}
	require.Equal(t, map[string]int{"#ffffff": 1, "#2e7d4f": 1, "#c0392b": 1, "#7a869a": 2}, bars, "one bar a row, in the colour of its verdict")
	require.Contains(t, chart, "Trigger &lt;64&gt; · River, pool 4 | 16")
	require.Contains(t, chart, ">6.5×<", "a rate is better when it is higher")
	require.Contains(t, chart, ">0.67×<", "a time is better when it is lower: 200 by 300")
}

func TestWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "results")
	require.NoError(t, report.Write(folder, report.Header{Form: "full"}, sample()))
	text, err := os.ReadFile(filepath.Join(folder, "latest.json"))
	require.NoError(t, err)
	var list []map[string]any
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list, 4)
	require.Equal(t, "Trigger <64>", list[0]["name"])
	require.Equal(t, "River, pool 4 | 16", list[0]["peer"])
	require.Equal(t, 6.5, list[0]["ratio"])
	require.Equal(t, "≥ 5", list[0]["aim"])
	require.Equal(t, true, list[0]["met"])
	require.Equal(t, 9.0, list[0]["ours_each"].(map[string]any)["index_entries"])
	require.NotContains(t, list[0], "theirs_each")
	require.Equal(t, false, list[1]["met"])
	require.Contains(t, list[2], "met")
	require.Nil(t, list[2]["met"], "no aim, so neither met nor missed")
	for _, name := range []string{"table.md", "chart.svg"} {
		info, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.NotZero(t, info.Size())
	}
}

// TestRowsThatSayNothing: a row without a figure is an error, not an empty cell.
func TestRowsThatSayNothing(t *testing.T) {
	for _, r := range []report.Row{
		{Name: "none", Ours: 1},
		{Name: "none", Ours: math.NaN(), Them: 1},
		{Name: "none", Ours: 1, Them: math.Inf(1)},
		{Name: "none", Ours: -1, Them: 1, Aim: report.AtMost(1)},
		{Name: "none", Ours: 0, Them: 1, Aim: report.AtMost(1)},
	} {
		require.ErrorContains(t, r.Check(), "none", "%+v", r)
		require.Error(t, report.Write(t.TempDir(), report.Header{}, []*report.Row{&r}))
	}
	for _, r := range sample() {
		require.NoError(t, r.Check(), "%s", r.Name)
	}
}
