package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

const operations = 3000

// TestParity plays one history on the memory driver and on PostgreSQL, and compares
// what both answer: every filter of the tables, in every order and direction, with pages
// of several sizes, to the end.
func TestParity(t *testing.T) {
	s := newStore(t)
	m := newMemory(t)
	h := newHistory(7)
	committed, undone := 0, 0
	for range operations {
		if h.played(t, h.draw(), s.driver, m) {
			committed++
		} else {
			undone++
		}
	}
	hidden := scalar[int](s, "SELECT count(*) FROM runlane.runlane_runs WHERE status IS NULL")
	orphans := scalar[int](s, `SELECT count(*) FROM runlane.runlane_record_run_events e
WHERE NOT EXISTS (SELECT FROM runlane.runlane_runs r WHERE r.environment_key = e.environment_key AND r.run_id = e.run_id AND r.status IS NOT NULL)`)
	require.Positive(t, undone)
	require.Greater(t, hidden, 10)
	require.Greater(t, orphans, 100)

	c := comparison{ctx: t.Context(), one: s.driver, other: m}
	c.everything()
	t.Logf("%d operations were committed and %d undone; %d runs are hidden, %d events are orphans", committed, undone, hidden, orphans)
	t.Logf("%d comparisons, %d of them past page 1; %d differences", c.pages, c.past, len(c.differences))
	require.Empty(t, c.differences)
	require.GreaterOrEqual(t, c.pages, 5000)
	require.GreaterOrEqual(t, 2*c.past, c.pages, "comparisons past page 1")
}

func newMemory(t *testing.T) *memory.Driver {
	t.Helper()
	m := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// TestPlantedDifferences: a comparison of a driver with itself finds nothing, and finds
// each of the ways in which a driver may be wrong.
func TestPlantedDifferences(t *testing.T) {
	m := newMemory(t)
	h := newHistory(8)
	for range operations / 4 {
		h.played(t, h.draw(), m)
	}
	same := comparison{ctx: t.Context(), one: m, other: m, brief: true}
	same.everything()
	require.Empty(t, same.differences)
	for name, plant := range map[string]planted{
		"a run is missing": {runs: func(p *storage.RunPage, page int) {
			if page == 2 && len(p.Runs) > 1 {
				p.Runs = append(p.Runs[:1:1], p.Runs[2:]...)
			}
		}},
		"a time is off by a microsecond": {runs: func(p *storage.RunPage, page int) {
			if page == 3 && len(p.Runs) > 0 {
				p.Runs[0].Updated = p.Runs[0].Updated.Add(time.Microsecond)
			}
		}},
		"the pages end early": {runs: func(p *storage.RunPage, page int) {
			if page == 4 {
				p.Next = ""
			}
		}},
		"a payload is another": {runs: func(p *storage.RunPage, _ int) {
			for i := range p.Runs {
				if r := p.Runs[i].Run; r != nil && r.Payload != nil {
					r.Payload = []byte(`{"of": 4}`)
				}
			}
		}},
		"two events change places": {events: func(p *storage.EventPage, page int) {
			if page > 1 && len(p.Events) > 1 {
				p.Events[0], p.Events[1] = p.Events[1], p.Events[0]
			}
		}},
		"an orphan is shown": {events: func(p *storage.EventPage, page int) {
			if page > 1 && len(p.Events) > 0 {
				p.Events = append(p.Events, p.Events[0])
			}
		}},
		"a count is one too high": {counts: func(counts []storage.StatusCount) { counts[len(counts)-1].Runs++ }},
		"a count is not exact":    {counts: func(counts []storage.StatusCount) { counts[0].AtLeast = !counts[0].AtLeast }},
		"a run is not found":      {lost: true},
	} {
		plant.Operator, plant.turned = m, map[string]int{}
		c := comparison{ctx: t.Context(), one: m, other: &plant, brief: true}
		c.everything()
		require.NotEmpty(t, c.differences, name)
	}
}

// planted is an operator that is wrong in one way.
type planted struct {
	storage.Operator
	runs   func(p *storage.RunPage, page int)
	events func(p *storage.EventPage, page int)
	counts func(counts []storage.StatusCount)
	lost   bool
	turned map[string]int // the number of the page that a cursor leads to
}

// number is that of a page; next leads to the one behind it.
func (p *planted) number(cursor, next string) int {
	number := 1
	if cursor != "" {
		number = p.turned[cursor] + 1
	}
	p.turned[next] = number
	return number
}

func (p *planted) ListRuns(ctx context.Context, f storage.RunFilter) (storage.RunPage, error) {
	page, err := p.Operator.ListRuns(ctx, f)
	if p.runs != nil && err == nil {
		number := p.number(f.Cursor, page.Next)
		p.runs(&page, number)
	}
	return page, err
}

func (p *planted) ListEvents(ctx context.Context, f storage.EventFilter) (storage.EventPage, error) {
	page, err := p.Operator.ListEvents(ctx, f)
	if p.events != nil && err == nil {
		number := p.number(f.Cursor, page.Next)
		p.events(&page, number)
	}
	return page, err
}

func (p *planted) CountRuns(ctx context.Context, f storage.RunFilter, limit int) ([]storage.StatusCount, error) {
	counts, err := p.Operator.CountRuns(ctx, f, limit)
	if p.counts != nil && err == nil {
		p.counts(counts)
	}
	return counts, err
}

func (p *planted) GetRun(ctx context.Context, environment, id string) (run.Run, bool, error) {
	r, found, err := p.Operator.GetRun(ctx, environment, id)
	if p.lost && found && id == "run 007" || p.lost && found && id > "run 100" {
		return run.Run{}, false, nil
	}
	return r, found, err
}

// comparison asks two operators the same and notes where they differ.
type comparison struct {
	ctx         context.Context
	one, other  storage.Operator
	brief       bool // one page size, and few filters
	pages, past int  // compared, and how many of them are not the first
	differences []string
}

func (c *comparison) differ(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

func (c *comparison) everything() {
	sizes := []int{3, 20, 0}
	if c.brief {
		sizes = sizes[:1]
	}
	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		for _, size := range sizes {
			for i, edit := range parityRuns() {
				if c.brief && i%7 != 0 || size == sizes[0] && i > 16 && i%4 != 0 { // small pages take long
					continue
				}
				for sort := range runSorts {
					f := storage.RunFilter{Environment: environment, Sort: storage.RunSort(sort), Direction: direction, Limit: size, Full: i%5 == 0}
					edit(&f)
					c.runPages(f)
				}
			}
			for i, edit := range parityEvents() {
				if c.brief && i%3 != 0 {
					continue
				}
				for sort := range eventSorts {
					f := storage.EventFilter{Environment: environment, Sort: storage.EventSort(sort), Direction: direction, Limit: size}
					edit(&f)
					c.eventPages(f)
				}
			}
		}
	}
	for _, edit := range parityRuns() {
		for _, limit := range []int{0, 1, 7} {
			f := storage.RunFilter{Environment: environment}
			edit(&f)
			c.count(f, limit)
		}
	}
	for i := range 300 {
		c.run(fmt.Sprintf("run %03d", i))
	}
}

func (c *comparison) runPages(f storage.RunFilter) {
	if _, err := storage.PlanRuns(f); err != nil {
		_, one := c.one.ListRuns(c.ctx, f)
		_, other := c.other.ListRuns(c.ctx, f)
		if !errors.Is(one, storage.ErrUnsupportedFilter) || one.Error() != other.Error() {
			c.differ("%+v: %v, %v", f, one, other)
		}
		*sortRange(&f) = storage.TimeRange{From: epoch.Add(-time.Hour), Until: epoch.Add(100 * time.Hour)}
	}
	one, other := f, f
	for number := 1; ; number++ {
		a, err := c.one.ListRuns(c.ctx, one)
		b, otherErr := c.other.ListRuns(c.ctx, other)
		if err = errors.Join(err, otherErr); err != nil {
			c.differ("%+v: %v", f, err)
			return
		}
		c.turn(number)
		if x, y := said(a.Runs), said(b.Runs); x != y || (a.Next == "") != (b.Next == "") {
			c.differ("page %d of %+v:\n%s\n%s", number, f, x, y)
			return
		}
		if one.Cursor, other.Cursor = a.Next, b.Next; a.Next == "" {
			return
		}
	}
}

func (c *comparison) eventPages(f storage.EventFilter) {
	one, other := f, f
	for number := 1; ; number++ {
		a, err := c.one.ListEvents(c.ctx, one)
		b, otherErr := c.other.ListEvents(c.ctx, other)
		if err != nil || otherErr != nil {
			if _, refused := storage.PlanEvents(f); refused == nil || err == nil || otherErr == nil || err.Error() != otherErr.Error() {
				c.differ("%+v: %v, %v", f, err, otherErr)
			}
			return
		}
		c.turn(number)
		if x, y := said(a.Events), said(b.Events); x != y || (a.Next == "") != (b.Next == "") {
			c.differ("page %d of %+v:\n%s\n%s", number, f, x, y)
			return
		}
		if one.Cursor, other.Cursor = a.Next, b.Next; a.Next == "" {
			return
		}
	}
}

func (c *comparison) count(f storage.RunFilter, limit int) {
	if _, err := storage.PlanCounts(f); err != nil {
		f.Created.From = epoch.Add(-time.Hour)
	}
	a, err := c.one.CountRuns(c.ctx, f, limit)
	b, otherErr := c.other.CountRuns(c.ctx, f, limit)
	c.turn(1)
	if x, y := said(a), said(b); x != y || err != nil || otherErr != nil {
		c.differ("counts of %+v: %v, %v\n%s\n%s", f, err, otherErr, x, y)
	}
}

func (c *comparison) run(id string) {
	a, found, err := c.one.GetRun(c.ctx, environment, id)
	b, otherFound, otherErr := c.other.GetRun(c.ctx, environment, id)
	c.turn(1)
	if x, y := said(a), said(b); x != y || found != otherFound || err != nil || otherErr != nil {
		c.differ("%s: %v %v, %v %v\n%s\n%s", id, found, err, otherFound, otherErr, x, y)
	}
}

func (c *comparison) turn(number int) {
	c.pages++
	if number > 1 {
		c.past++
	}
}
