// Package histories_test runs random transactions of concurrent clients against the
// drivers, without faults and with, and has every history checked.
//
// One run of each test is short. For a long one, say how long each test goes on:
//
//	go test ./tests/histories -for 10m -clients 16 -timeout 0
//
// A history with a violation is saved; the message says how to check it again and how
// to run the same scripts again.
package histories_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/tests/histories/check"
	"github.com/seed4391e180/runlane/tests/histories/history"
	"github.com/seed4391e180/runlane/tests/histories/play"
)

var (
	duration     = flag.Duration("for", 0, "how long each test of histories goes on, history after history; 0 is one history")
	clients      = flag.Int("clients", 8, "concurrent clients of a history")
	transactions = flag.Int("transactions", 0, "of a history; 0 is what each test has of its own")
	seed         = flag.Uint64("seed", 0, "of the first history; 0 draws one")
	recheck      = flag.String("history", "", "a saved history for TestRecheck")
)

// patience bounds one history; nothing waits for it.
const patience = 10 * time.Minute

// stage is where one history is played.
type stage struct {
	store storage.Transactor
	// settle returns a store for the audit, once nothing that the clients began can
	// take effect any more.
	settle func(ctx context.Context) storage.Transactor
	// faults counts what was done to the store, and expect names what must have occurred
	// in any history of the test.
	faults *disturbances
	expect []string
}

// histories plays histories of one kind, each with a seed of its own, until the time
// is up. open prepares a stage for each.
func histories(t *testing.T, o play.Options, open func(t *testing.T, o *play.Options) stage) {
	o.About, o.Clients, o.Environment = t.Name(), *clients, "env"
	if *transactions != 0 {
		o.Transactions = *transactions
	}
	o.Seed = *seed
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	began := time.Now()
	for again := true; again; again = time.Since(began) < *duration {
		if !t.Run(strconv.FormatUint(o.Seed, 10), func(t *testing.T) { one(t, o, open) }) {
			return
		}
		o.Seed++
	}
}

// one plays one history and checks it.
func one(t *testing.T, o play.Options, open func(*testing.T, *play.Options) stage) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	s := open(t, &o)
	p, err := play.New(o)
	require.NoError(t, err)
	require.NoError(t, p.Run(ctx, s.store))
	played := time.Since(began)
	audit := s.settle(ctx)
	p.Settle()
	err = p.Audit(ctx, audit)
	h := p.History()
	if err != nil {
		t.Fatalf("%v\n%s", err, save(t, h))
	}
	checking := time.Now()
	report := check.Check(h)
	if !report.OK() {
		t.Fatalf("%s\n%s", report, save(t, h))
	}
	t.Logf("%s; played in %v, checked in %v\n%s", report, played.Round(time.Millisecond), time.Since(checking).Round(time.Millisecond), figures(h))
	if s.faults != nil {
		t.Log(s.faults)
	}
	for _, fault := range s.expect {
		require.Positive(t, s.faults.count(fault), "nothing was disturbed by: %s", fault)
	}
	sound(t, h, o)
}

// sound makes sure that the history could have shown something: most transactions
// committed, and they got into each other's way.
func sound(t *testing.T, h *history.History, o play.Options) {
	committed, attempts := h.Count(history.Committed)
	require.Greater(t, committed, o.Transactions/3, "most transactions came to nothing")
	require.Greater(t, attempts, committed+committed/50, "the clients hardly met")
}

// figures are what a history amounts to.
func figures(h *history.History) string {
	committed, attempts := h.Count(history.Committed)
	refused, _ := h.Count(history.Refused)
	failed, _ := h.Count(history.Failed)
	unknown, _ := h.Count(history.Unknown)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return fmt.Sprintf("%d transactions: %d committed in %.2f attempts each, %d refused, %d failed, %d unknown; %d MiB of memory from the system",
		len(h.Transactions), committed, float64(attempts)/float64(max(1, committed)), refused, failed, unknown, memory.Sys>>20)
}

// save saves a history and says what can be done with it.
func save(t *testing.T, h *history.History) string {
	dir, err := os.MkdirTemp("", "runlane-history-")
	require.NoError(t, err)
	path := filepath.Join(dir, "history.jsonl")
	require.NoError(t, h.Save(path))
	return fmt.Sprintf("check it again: go test ./tests/histories -run TestRecheck -history %s\nplay it again:  go test ./tests/histories -run '^%s$' -clients %d -transactions %d -seed %d",
		path, h.About, *clients, *transactions, h.Seed)
}

// TestRecheck checks a saved history, or, if none is given, that what was saved is
// what is loaded and has the same verdict.
func TestRecheck(t *testing.T) {
	path := *recheck
	if path == "" {
		path = filepath.Join(t.TempDir(), "history.jsonl")
		h := &history.History{Seed: 7, MaxAttempts: 8}
		a := &history.Attempt{Return: 10, Ops: []*history.Operation{{Kind: history.Get, Reads: []history.Read{{Key: "x", Value: "nobody's", Version: 1}}}}}
		h.Append(&history.Transaction{Return: 10, Outcome: history.Committed, Attempts: []*history.Attempt{a}})
		require.NoError(t, h.Save(path))
		loaded, err := history.Load(path)
		require.NoError(t, err)
		require.Equal(t, h, loaded)
		require.Equal(t, check.Check(h), check.Check(loaded))
		require.True(t, check.Check(loaded).Has(check.Nowhere))
		return
	}
	h, err := history.Load(path)
	require.NoError(t, err)
	report := check.Check(h)
	t.Logf("%s, seed %d\n%s\n%s", h.About, h.Seed, report, figures(h))
	require.True(t, report.OK(), "the history has violations")
}
