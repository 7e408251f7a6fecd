package demo

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/run"
)

// table is text in two columns.
type table struct{ text bytes.Buffer }

func (t *table) title(text string) { fmt.Fprintf(&t.text, "\n%s\n", text) }

func (t *table) row(name, format string, args ...any) {
	fmt.Fprintf(&t.text, "  %-44s %s\n", name, fmt.Sprintf(format, args...))
}

// printTable prints what came of the work, and the checks.
func (s *show) printTable(r *record, tree, results sums, checks []check) error {
	var t table
	t.title("Runs by status")
	for _, status := range run.Statuses() {
		if n := r.statuses[status]; n > 0 {
			t.row(string(status), "%s", count(n))
		}
	}
	s.leases(&t, r)
	s.speed(&t, r)
	s.cost(&t, r)
	t.title("Runs in the database and files in the tree")
	t.row("files", "%s %s", count(results.files), sameAs(tree.files == results.files, count(tree.files)))
	t.row("bytes", "%s %s", count(results.bytes), sameAs(tree.bytes == results.bytes, count(tree.bytes)))
	t.row("lines", "%s %s", count(results.lines), sameAs(tree.lines == results.lines, count(tree.lines)))
	t.row("digest over all digests", "%s %s", results.digest, sameAs(tree.digest == results.digest, tree.digest))
	t.title("Checks")
	for _, c := range checks {
		verdict := "ok"
		if !c.holds {
			verdict = "FAILED: " + c.found
		}
		t.row(c.claim, "%s", verdict)
	}
	_, err := t.text.WriteTo(s.options.Out)
	return err
}

func sameAs(same bool, other string) string {
	if same {
		return "in both"
	}
	return "against " + other
}

func (s *show) leases(t *table, r *record) {
	h, killed := r.history, s.outcome.killed
	t.title("The kill")
	t.row("leases that "+victimName+" held", "%s, when %s of the runs had ended", count(killed.held), percent(killed.ended, s.plan.runs))
	t.row("leases recovered (run.lease_expired)", "%s of %s, %s of %s", count(h.expired[victimName]), victimName, count(h.expired[survivorName]), survivorName)
	t.row("retries", "%s", count(r.retries))
}

func (s *show) speed(t *table, r *record) {
	h := r.history
	total := h.last.Sub(s.outcome.began)
	busy := total - h.wait
	t.title("Speed")
	t.row("first trigger to last completion", "%.2f s", total.Seconds())
	t.row("of which only waiting for lost leases", "%.2f s", h.wait.Seconds())
	t.row("runs a second, without that wait", "%s", count(perSecond(r.statuses.ended(), busy)))
	t.row("triggering", "%.2f s, %s runs a second", s.outcome.triggerTook.Seconds(), count(perSecond(s.plan.runs, s.outcome.triggerTook)))
	granted := h.started[victimName] + h.started[survivorName]
	t.row("claims", "%s runs in %s transactions", count(granted), count(len(h.claims)))
	t.row("completions", "%s runs in %s transactions", count(r.statuses.ended()), count(len(h.finishes)))
}

func (s *show) cost(t *table, r *record) {
	c, p := s.outcome.counters, s.outcome.processors
	busy := r.history.last.Sub(s.outcome.began) - r.history.wait
	t.title("Cost")
	t.row("commits, looks of the demo included", "%s, %s a second", count(c.commits), count(perSecond(c.commits, busy)))
	t.row("WAL", "%s in %s writes to the disk, %s bytes a run", megabytes(c.walBytes), count(c.walSyncs), count(c.walBytes/int64(s.plan.runs)))
	t.row("events", "%s", count(r.history.events))
	t.row("processor time", "server %s, demo %s, %s %s, %s %s", precise(p.server), precise(p.demo), victimName, precise(p.victim), survivorName, precise(p.survivor))
	t.row("peak memory (VmHWM)", "%s %s, %s %s", victimName, memory(s.victim.memory), survivorName, memory(s.survivor.memory))
}

func precise(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func memory(bytes int64) string {
	if bytes == 0 {
		return "not known"
	}
	return strings.TrimSpace(megabytes(bytes))
}
