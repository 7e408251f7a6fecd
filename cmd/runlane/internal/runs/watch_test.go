package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
)

// watch starts a command line; look lets it look again and returns what it wrote.
func (d *desk) watch(args ...string) (first string, look func() string, stop func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx, args...) }()
	await := func() string {
		d.Helper()
		select {
		case <-d.looked:
		case err := <-ended:
			require.FailNow(d, "the watch has ended", "%v", err)
		}
		return d.out.take()
	}
	stop = func() {
		d.Helper()
		cancel()
		require.NoError(d, <-ended)
		require.Empty(d, d.out.take())
	}
	return await(), func() string { d.Helper(); d.ticks <- time.Time{}; return await() }, stop
}

func TestWatchList(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		d := newDesk(t)
		d.world.Redraw = redraw
		d.add("one", 1, `1`)
		first, look, stop := d.watch("list", "--watch")
		require.Contains(t, first, "one")
		d.add("two", 2, `1`)
		second := look()
		require.Contains(t, second, "one")
		require.Contains(t, second, "two")
		require.Equal(t, redraw, strings.HasPrefix(second, "\x1b[H\x1b[2J"))
		stop()
	}
}

func TestWatchCount(t *testing.T) {
	d := newDesk(t)
	first, look, stop := d.watch("count", "--watch", "--status", "queued", "-o", "ndjson")
	require.Equal(t, `{"status":"queued","runs":0,"at_least":false}`+"\n", first)
	d.add("one", 1, `1`)
	require.Equal(t, `{"status":"queued","runs":1,"at_least":false}`+"\n", look())
	stop()
}

func sequences(t *testing.T, text string) (list []string) {
	for line := range strings.Lines(text) {
		var e struct {
			Run      string
			Sequence int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		list = append(list, fmt.Sprint(e.Run, " ", e.Sequence))
	}
	return list
}

// A long history takes several pages; then what follows comes once.
func TestWatchRun(t *testing.T) {
	d := newDesk(t)
	r := d.add("r", 0, `1`)
	var want []string
	for i := 1; i <= 1100; i += 2 {
		r = d.then(r, i, run.Started{Lease: lease(i)})
		r = d.then(r, i+1, run.Released{Token: r.Lease.Token, Due: began})
	}
	for i := range 1101 {
		want = append(want, fmt.Sprint("r ", i+1))
	}
	first, look, stop := d.watch("events", "r", "--watch", "-o", "ndjson")
	require.Equal(t, want, sequences(t, first))
	require.Empty(t, look())
	r = d.then(r, 2000, run.Started{Lease: lease(1101)})
	d.add("other", 2001, `1`)
	require.Equal(t, []string{"r 1102"}, sequences(t, look()))
	require.Empty(t, look())
	d.then(r, 2002, run.Released{Token: r.Lease.Token, Due: began})
	require.Equal(t, []string{"r 1103"}, sequences(t, look()))
	stop()
}

func lease(i int) run.Lease {
	return run.Lease{Token: token(i), Worker: "w", Attempt: (i + 1) / 2, Expires: began.Add(24 * time.Hour), Duration: time.Minute}
}

// The newest page first; then what is new, also if it comes late or shares its time.
func TestWatchEnvironment(t *testing.T) {
	d := newDesk(t)
	for i := range 6 {
		d.add(fmt.Sprint("r", i), i/2, `1`)
	}
	first, look, stop := d.watch("events", "--watch", "-o", "ndjson", "--limit", "3")
	require.Equal(t, 3, len(sequences(t, first)))
	require.Equal(t, []string{"r4 1", "r5 1"}, sequences(t, first)[1:])
	require.Empty(t, look())
	d.add("tie", 2, `1`)
	require.Equal(t, []string{"tie 1"}, sequences(t, look()))
	d.add("far", 50, `1`)
	require.Equal(t, []string{"far 1"}, sequences(t, look()))
	d.add("late", 20, `1`)
	require.Equal(t, []string{"late 1"}, sequences(t, look()))
	d.add("next", 500, `1`)
	require.Equal(t, []string{"next 1"}, sequences(t, look()))
	require.Empty(t, look())
	for i := range 600 {
		d.add(fmt.Sprint("many", i), 501+i, `1`)
	}
	require.Len(t, sequences(t, look()), 600)
	require.Empty(t, look())
	stop()
}

// An empty store is watched, too, and a beginning can be named.
func TestWatchFrom(t *testing.T) {
	d := newDesk(t)
	first, look, stop := d.watch("events", "--watch")
	require.Equal(t, "AT  RUN  SEQ  TYPE  WHAT\n", first)
	d.add("one", 1, `1`)
	text := look()
	require.Contains(t, text, "one")
	require.NotContains(t, text, "AT ")
	stop()

	d.add("two", 100, `1`)
	first, look, stop = d.watch("events", "--watch", "-o", "ndjson", "--occurred-after", began.Add(10*time.Second).Format(time.RFC3339))
	require.Equal(t, []string{"two 1"}, sequences(t, first))
	require.Empty(t, look())
	stop()
}
