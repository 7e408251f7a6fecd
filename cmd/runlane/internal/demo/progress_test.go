package demo

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
)

// work is what a demo shows in three seconds.
func showWork(t *testing.T, terminal bool) string {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(&out, terminal, 1000)
		for i := range 6 {
			time.Sleep(500 * time.Millisecond)
			p.show(statuses{run.StatusQueued: 900 - 100*i, run.StatusSucceeded: 100 * i, run.StatusRunning: 60}, i == 5)
			if i == 3 {
				p.say("something happens")
			}
		}
		require.NoError(t, p.end(statuses{run.StatusSucceeded: 1000}))
	})
	return out.String()
}

func TestProgressInLines(t *testing.T) {
	require.Equal(t, ` 1.0 s  triggered 960, running 60, ended 100 (10 %)
 2.0 s  triggered 960, running 60, ended 300 (30 %)
 2.0 s  something happens
 3.0 s  triggered 960, running 60, ended 500 (50 %), lost leases run out
 3.0 s  triggered 1,000, running 0, ended 1,000 (100 %)
`, showWork(t, false))
}

// On a terminal there is one line until something is said; what was there before
// is cleared.
func TestProgressOnATerminal(t *testing.T) {
	out := showWork(t, true)
	require.Equal(t, 2, strings.Count(out, "\n"))
	lines := strings.Split(out, "\n")
	require.Equal(t, 4, strings.Count(lines[0], "ended"))
	require.True(t, strings.HasSuffix(lines[0], "\r\x1b[K 2.0 s  something happens"), "%q", lines[0])
	require.True(t, strings.HasSuffix(lines[1], "\r\x1b[K 3.0 s  triggered 1,000, running 0, ended 1,000 (100 %)"), "%q", lines[1])
}

func TestProgressFitsIntoATerminal(t *testing.T) {
	p := newProgress(nil, true, 99_999)
	p.began = p.began.Add(-10 * time.Minute)
	line := p.line(statuses{run.StatusRunning: 9_999, run.StatusRetrying: 9_999, run.StatusSucceeded: 80_001})
	require.LessOrEqual(t, len(line), 80, "%q", line)
}

func TestFormats(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		require.Equal(t, want, count(n))
	}
	require.Equal(t, "33 %", percent(1, 3))
	require.Equal(t, "0 %", percent(0, 0))
	require.Equal(t, 667, perSecond(2, 3*time.Millisecond))
	require.Zero(t, perSecond(2, 0))
	require.Equal(t, "200 MB", megabytes(200<<20))
}
