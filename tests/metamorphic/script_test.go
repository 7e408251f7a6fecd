// Package metamorphic_test runs one script under many configurations and compares
// the histories: how a script travels to a store must not be seen in what it reads
// and writes.
//
// A script is drawn from a seed. It names transactions, each a list of operations
// over a small set of keys in two environments. Carried out on a store it leaves a
// history, a text of everything that the callbacks were told, what the commits
// reported, and what could be read afterwards in several ways. In that text versions
// are numbered as they appear, times of the database are named after the transaction
// that they come from, and attempts and round trips do not occur. Then the history on
// PostgreSQL, whatever its settings, is the history in memory.
//
// What the contract leaves to a driver stays out of scripts, or is spelt alike: see
// the comments of attempt.
package metamorphic_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
)

// script is what one history is made of, as plain values: it can be drawn, read,
// shortened, stored and run again.
type script struct {
	Seed         uint64        `json:"seed"`
	Transactions []transaction `json:"transactions"`
}

// transaction is one call of Transact and what is looked at when it is over.
type transaction struct {
	// End is how the callback ends: "" returns nil, "fail" an error of its own, and
	// "panic" does not return.
	End string `json:"end,omitempty"`
	// Stops makes the callback return the first refusal; otherwise it goes on.
	Stops bool   `json:"stops,omitempty"`
	Ops   []op   `json:"ops"`
	Looks []look `json:"looks,omitempty"`
}

// op is one step of a callback. Which fields it has depends on what it does; the
// verbs are those of attempt.perform.
type op struct {
	Do       string   `json:"do"`
	Keys     []string `json:"keys,omitempty"` // names of world
	ReadOnly bool     `json:"readOnly,omitempty"`
	As       string   `json:"as,omitempty"` // which of the ways there are to do it
	Write    *content `json:"write,omitempty"`
	Query    *query   `json:"query,omitempty"`
	Items    []int    `json:"items,omitempty"` // of payloads
	Topic    string   `json:"topic,omitempty"`
	Ops      []op     `json:"ops,omitempty"` // of a transaction that begins and ends here
}

// content is what a write puts into a record, in words and small numbers.
type content struct {
	As        string `json:"as"`                 // run, tombstone, event, owner, head, item, opaque, plain
	Document  int    `json:"document,omitempty"` // of documents, if it is opaque or plain
	Status    string `json:"status,omitempty"`   // of a run
	Type      string `json:"type,omitempty"`     // of an event
	Run       string `json:"run,omitempty"`      // of an event: the run's name
	Number    int    `json:"number,omitempty"`   // a sequence, a position, a place in an index
	Payload   int    `json:"payload,omitempty"`  // of payloads
	Singleton bool   `json:"singleton,omitempty"`
	Queue     int    `json:"queue,omitempty"`
	Priority  int    `json:"priority,omitempty"`
	Source    int    `json:"source,omitempty"`
	At        int    `json:"at,omitempty"`    // of moments
	Due       int    `json:"due,omitempty"`   // of moments
	Later     int    `json:"later,omitempty"` // of delays
	Entry     string `json:"entry,omitempty"` // "" as the document says, or "none", "other", "odd"
	Fenced    bool   `json:"fenced,omitempty"`
}

// query asks for a page, or for all pages, of an index.
type query struct {
	Environment string `json:"environment"`
	Index       int    `json:"index"`           // of storage.Indexes
	Part        int    `json:"part,omitempty"`  // of the partitions that scripts use
	From        int    `json:"from,omitempty"`  // of bounds
	Until       int    `json:"until,omitempty"` // of bounds
	Down        bool   `json:"down,omitempty"`  //
	Exclusive   bool   `json:"exclusive,omitempty"`
	Limit       int    `json:"limit,omitempty"` // of a page that is not walked on from
}

// look is one way to read what is committed.
type look struct {
	At          string `json:"at"` // run, runs, events, index
	Environment string `json:"environment"`
	Run         int    `json:"run,omitempty"`
	Filter      int    `json:"filter,omitempty"`
	Sort        int    `json:"sort,omitempty"`
	Down        bool   `json:"down,omitempty"`
	Query       *query `json:"query,omitempty"`
}

// text spells a script as JSON with one operation on each line.
func (s *script) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\"seed\": %d, \"transactions\": [", s.Seed)
	for i, t := range s.Transactions {
		fmt.Fprintf(&b, "%s\n{\"end\": %q, \"stops\": %t, \"ops\": [", comma(i), t.End, t.Stops)
		writeOps(&b, t.Ops, "\n  ")
		b.WriteString("\n], \"looks\": [")
		for j, l := range t.Looks {
			fmt.Fprintf(&b, "%s\n  %s", comma(j), asJSON(l))
		}
		b.WriteString("]}")
	}
	b.WriteString("\n]}\n")
	return b.String()
}

func writeOps(b *strings.Builder, ops []op, indent string) {
	for i, o := range ops {
		b.WriteString(comma(i) + indent)
		if o.Ops == nil {
			b.WriteString(asJSON(o))
			continue
		}
		fmt.Fprintf(b, "{\"do\": %q, \"ops\": [", o.Do)
		writeOps(b, o.Ops, indent+"  ")
		b.WriteString(indent + "]}")
	}
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

func readScript(path string) (script, error) {
	var s script
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// withoutAppends is the script for a store that does not append.
func (s script) withoutAppends() script {
	return s.only(func(o op) bool { return o.Do != "append" })
}

// only is the script with those operations, within asides as well.
func (s script) only(keep func(op) bool) script {
	var filter func(ops []op) []op
	filter = func(ops []op) []op {
		kept := []op{}
		for _, o := range ops {
			if !keep(o) {
				continue
			}
			if o.Ops != nil {
				o.Ops = filter(o.Ops)
			}
			kept = append(kept, o)
		}
		return kept
	}
	shorter := script{Seed: s.Seed, Transactions: make([]transaction, len(s.Transactions))}
	for i, t := range s.Transactions {
		t.Ops = filter(t.Ops)
		shorter.Transactions[i] = t
	}
	return shorter
}

// all yields the operations of a transaction, those of its asides included.
func (t *transaction) all() iter.Seq[op] {
	return func(yield func(op) bool) {
		for _, o := range t.Ops {
			if !yield(o) {
				return
			}
			for _, inner := range o.Ops {
				if !yield(inner) {
					return
				}
			}
		}
	}
}

// does reports whether a transaction itself has an operation of that kind.
func (t *transaction) does(what string) bool {
	return slices.ContainsFunc(t.Ops, func(o op) bool { return o.Do == what })
}
