// Package report turns measurements into a table, a chart and a file for programs.
package report

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed4391e180/runlane/bench/measure"
)

// Aim says what a ratio should be. The zero value is no aim: the row is for information.
type Aim struct {
	way   way
	limit float64
}

type way uint8

const (
	none way = iota
	atLeast
	atMost
)

// AtLeast is the aim of a ratio that is to be high: of rates.
func AtLeast(limit float64) Aim { return Aim{atLeast, limit} }

// AtMost is the aim of a ratio that is to be low: of times and sizes.
func AtMost(limit float64) Aim { return Aim{atMost, limit} }

func (a Aim) String() string {
	switch a.way {
	case atLeast:
		return fmt.Sprintf("≥ %g", a.limit)
	case atMost:
		return fmt.Sprintf("≤ %g", a.limit)
	}
	return ""
}

// Met reports whether a ratio is what was aimed for; nil if nothing was.
func (a Aim) Met(ratio float64) *bool {
	var met bool
	switch a.way {
	case atLeast:
		met = ratio >= a.limit
	case atMost:
		met = ratio <= a.limit
	default:
		return nil
	}
	return &met
}

// Unit is what figures are in.
type Unit string

// The units.
const (
	PerSecond Unit = "runs/s"
	Items     Unit = "items/s"
	Micros    Unit = "µs"
	Bytes     Unit = "bytes"
	Trips     Unit = "trips"
)

// Row is one line of the report: a comparison that was made.
type Row struct {
	Name  string
	Peer  string // what it was compared with, and in which setting
	Unit  Unit
	Ours  float64 // medians
	Them  float64
	Aim   Aim
	Spent Spent
	Notes []string
}

// Spent is what a unit of work cost each side; nil where it was not counted.
type Spent struct {
	Unit string // of work: "run", "page"
	Ours *measure.PerUnit
	Them *measure.PerUnit
}

// Ratio is ours by theirs.
func (r *Row) Ratio() float64 { return r.Ours / r.Them }

// String is the row in one line, for a terminal.
func (r *Row) String() string {
	text := fmt.Sprintf("%s: %s against %s of %s: %.4g", r.Name, figure(r.Ours, r.Unit), figure(r.Them, r.Unit), r.Peer, r.Ratio())
	if met := r.Aim.Met(r.Ratio()); met != nil {
		text += fmt.Sprintf(", aim %v, met: %v", r.Aim, *met)
	}
	return text
}

// Check refuses a row that says nothing.
func (r *Row) Check() error {
	for _, v := range []float64{r.Ours, r.Them, r.Ratio()} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %g by %g is no ratio", r.Name, r.Ours, r.Them)
		}
	}
	if r.Aim.way != none && (r.Ours <= 0 || r.Them <= 0) {
		return fmt.Errorf("%s: an aim for %g by %g means nothing", r.Name, r.Ours, r.Them)
	}
	return nil
}

// MarshalJSON is one element of latest.json.
func (r *Row) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name      string           `json:"name"`
		Peer      string           `json:"peer"`
		Ratio     float64          `json:"ratio"` // ours by the peer's
		Aim       string           `json:"aim"`   // "" is none
		Met       *bool            `json:"met"`   // null where there is no aim
		Unit      Unit             `json:"unit"`
		Ours      float64          `json:"ours"`
		Theirs    float64          `json:"theirs"`
		CostUnit  string           `json:"cost_unit,omitempty"`
		OursEach  *measure.PerUnit `json:"ours_each,omitempty"`
		TheirEach *measure.PerUnit `json:"theirs_each,omitempty"`
		Notes     []string         `json:"notes,omitempty"`
	}{r.Name, r.Peer, round(r.Ratio()), r.Aim.String(), r.Aim.Met(r.Ratio()), r.Unit, round(r.Ours), round(r.Them),
		r.Spent.Unit, r.Spent.Ours, r.Spent.Them, r.Notes})
}

// round keeps four digits: the rest is noise.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
