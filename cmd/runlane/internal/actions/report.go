package actions

import (
	"fmt"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/show"
	"github.com/seed4391e180/runlane/lane"
	"github.com/seed4391e180/runlane/run"
)

// The documents. Programs read them: members are added, and neither renamed nor
// taken away.

type cancellation struct {
	Run     string             `json:"run"`
	Outcome lane.CancelOutcome `json:"outcome,omitempty"`
	Status  run.Status         `json:"status,omitempty"`
	Error   string             `json:"error,omitempty"`
}

type cancellations struct {
	Items []cancellation `json:"items"`
	Bad   int            `json:"failed"`
}

func (c *cancellations) add(item lane.CancelItem) {
	shown := cancellation{Run: item.RunID, Outcome: item.Outcome, Status: item.Status}
	if item.Err != nil {
		shown = cancellation{Run: item.RunID, Error: item.Err.Error()}
		c.Bad++
	}
	c.Items = append(c.Items, shown)
}

func (c cancellations) tally() (bad, all int) { return c.Bad, len(c.Items) }

func (c cancellations) table(s show.Screen) string {
	rows := make([][]string, len(c.Items))
	for i, item := range c.Items {
		rows[i] = []string{item.Run, string(item.Outcome), string(item.Status), item.Error}
	}
	return (&show.Table{Columns: []show.Column{
		{Title: "RUN", Least: 12}, {Title: "OUTCOME"}, {Title: "STATUS", Color: show.StatusColor}, {Title: "ERROR", Least: 10, Spare: 1},
	}}).Text(s, true, rows)
}

type remadeRun struct {
	Origin   string `json:"origin"`
	Run      string `json:"run,omitempty"`
	Existing bool   `json:"existing,omitempty"` // nothing was made: this run does the work already
	Error    string `json:"error,omitempty"`
}

type remade struct {
	Items []remadeRun `json:"items"`
	Bad   int         `json:"failed"`
}

func (r *remade) add(item lane.RetryItem) {
	shown := remadeRun{Origin: item.Origin, Run: item.RunID, Existing: item.Existing}
	if item.Err != nil {
		shown = remadeRun{Origin: item.Origin, Error: item.Err.Error()}
		r.Bad++
	}
	r.Items = append(r.Items, shown)
}

func (r remade) tally() (bad, all int) { return r.Bad, len(r.Items) }

func (r remade) table(s show.Screen) string {
	rows := make([][]string, len(r.Items))
	for i, item := range r.Items {
		what := "made"
		switch {
		case item.Error != "":
			what = "failed"
		case item.Existing:
			what = "exists"
		}
		rows[i] = []string{item.Origin, what, item.Run, item.Error}
	}
	return (&show.Table{Columns: []show.Column{
		{Title: "ORIGIN", Least: 12}, {Title: "OUTCOME"}, {Title: "RUN", Least: 12}, {Title: "ERROR", Least: 10, Spare: 1},
	}}).Text(s, true, rows)
}

type pruned struct {
	Runs    int `json:"runs"`
	Events  int `json:"events"`
	Awaited int `json:"awaited"` // left alone because another run waits for them
	Opaque  int `json:"opaque"`  // left alone because another version wrote them
}

func (p pruned) table(show.Screen) string {
	return fmt.Sprintf("%d runs and %d events; left alone: %d awaited, %d of another version\n", p.Runs, p.Events, p.Awaited, p.Opaque)
}

type ticked lane.Ticked

func (t ticked) table(show.Screen) string {
	return fmt.Sprintf("%d leases recovered, %d runs resumed, %d slots reclaimed, %d runs pruned, %d keys forgotten\n",
		t.Recovered, t.Resumed, t.Reclaimed, t.Pruned, t.Expired)
}

// MarshalJSON names the members as the other documents do.
func (t ticked) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"recovered":%d,"resumed":%d,"reclaimed":%d,"pruned":%d,"expired":%d}`,
		t.Recovered, t.Resumed, t.Reclaimed, t.Pruned, t.Expired), nil
}
