package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// mostMemory is how much memory a worker may have used.
const mostMemory = 200 << 20

// record is what the database holds of the work when it is done, read back
// through the operator's API.
type record struct {
	statuses   statuses
	results    map[string]digest // by path
	repeated   int               // runs for a path that another run has as well
	unreadable int               // runs whose payload or result does not decode, or that did not succeed
	retries    int
	history    *history
	endedTwice int // counted by the database itself
}

// readRecord reads all runs and all events.
func (s *show) readRecord(ctx context.Context) (*record, error) {
	r := &record{statuses: statuses{}, results: make(map[string]digest, s.plan.runs)}
	filter := storage.RunFilter{Environment: environment, Full: true, Limit: storage.DefaultLimits().MaxPage}
	for {
		page, err := s.db.driver.ListRuns(ctx, filter)
		if err != nil {
			return nil, fmt.Errorf("reading the runs back: %w", err)
		}
		for i := range page.Runs {
			r.add(&page.Runs[i])
		}
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	var err error
	if r.history, err = readHistory(ctx, s.db.driver, s.plan.runs, s.outcome.killed.at); err != nil {
		return nil, fmt.Errorf("reading the events back: %w", err)
	}
	r.endedTwice, err = s.db.endedTwice(ctx)
	return r, err
}

// add takes a run.
func (r *record) add(item *storage.RunItem) {
	r.statuses[item.Status]++
	var (
		j job
		d digest
	)
	if item.Run == nil || item.Status != run.StatusSucceeded || json.Unmarshal(item.Run.Payload, &j) != nil || json.Unmarshal(item.Run.Result, &d) != nil {
		r.unreadable++
		return
	}
	r.retries += item.Run.Retries
	if _, has := r.results[j.Path]; has {
		r.repeated++
	}
	r.results[j.Path] = d
}

// comparison is what a walk of the tree and the results of the runs differ in.
type comparison struct {
	missing   []string // files without a succeeded run
	surplus   []string // runs without a file
	different []string // files whose run says something else
}

func compare(tree, results map[string]digest) (c comparison) {
	for path, want := range tree {
		switch got, has := results[path]; {
		case !has:
			c.missing = append(c.missing, path)
		case got != want:
			c.different = append(c.different, path)
		}
	}
	for path := range results {
		if _, has := tree[path]; !has {
			c.surplus = append(c.surplus, path)
		}
	}
	slices.Sort(c.missing)
	slices.Sort(c.surplus)
	slices.Sort(c.different)
	return c
}

// check is one thing that has to hold.
type check struct {
	claim string
	holds bool
	found string
}

// none is the check that there are none, of which examples may be given.
func none(claim string, n int, examples ...string) check {
	found := count(n)
	if len(examples) > 0 {
		found += ", such as " + examples[0]
	}
	return check{claim, n == 0, found}
}

// checks are all the things that have to hold.
func (s *show) checks(r *record, tree, results sums, c comparison) []check {
	h := r.history
	held := s.outcome.killed.held
	return []check{
		{"each run has ended", r.statuses.ended() == s.plan.runs, count(r.statuses.ended())},
		none("no run is lost: each file has a result", len(c.missing), c.missing...),
		none("no result without a file", len(c.surplus), c.surplus...),
		none("no result that differs from the walk", len(c.different), c.different...),
		none("no run that failed or cannot be read", r.unreadable),
		none("no file with two runs", r.repeated),
		none("no run with two terminal events", r.endedTwice+h.endedTwice),
		none("no gap in a run's history", h.gaps),
		{"totals and digest are those of the walk", tree == results, results.digest},
		{fmt.Sprintf("at least %d leases were lost and recovered", held), h.expired[victimName] >= held, count(h.expired[victimName])},
		{"a worker stays below " + megabytes(mostMemory), max(s.victim.memory, s.survivor.memory) < mostMemory,
			megabytes(max(s.victim.memory, s.survivor.memory))},
	}
}

// prove reads the work back, walks the tree and prints the table. It is an error
// if something does not hold.
func (s *show) prove(ctx context.Context) error {
	r, err := s.readRecord(ctx)
	if err != nil {
		return err
	}
	files, err := walk(s.plan.root)
	if err != nil {
		return fmt.Errorf("walking the tree: %w", err)
	}
	tree, results := sumUp(files), sumUp(r.results)
	checks := s.checks(r, tree, results, compare(files, r.results))
	if err := s.printTable(r, tree, results, checks); err != nil {
		return err
	}
	var broken []string
	for _, c := range checks {
		if !c.holds {
			broken = append(broken, c.claim+": "+c.found)
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d of %d checks failed: %s", len(broken), len(checks), strings.Join(broken, "; "))
	}
	return nil
}
