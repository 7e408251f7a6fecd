package check

import (
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/tests/histories/history"
)

// write is one staged write of a value.
type write struct {
	t       *history.Transaction
	attempt int
	final   bool   // nothing that the same attempt staged later replaced it
	index   string // where the record has an entry; "" is nowhere
}

// item is one appended item.
type item struct {
	t       *history.Transaction
	attempt int
	head    string
	place   int64 // among the items that the attempt appends to the stream, from 0
}

// access is what one attempt had to do with one key.
type access struct {
	key    string
	known  bool   // base is what it read, or expected to find
	base   string // "" is absent
	read   bool   // base was read and not only expected
	exists bool   // it was told that there is a record, and not which
	wrote  bool
	after  string // "" is deleted
	index  string // of after
	sealed bool   // locked before Now was answered
	stream bool   // written by Append: its lock is the last one taken
}

// changes reports whether the access has an effect.
func (a *access) changes() bool { return a.wrote && (a.base != "" || a.after != "") }

// learnWrites finds out who wrote what, in all attempts, also of transactions that
// took no effect.
func (c *checker) learnWrites() {
	for _, t := range c.h.Transactions {
		for i, a := range t.Attempts {
			staged := make(map[string]*write)
			for _, op := range a.Ops {
				if op.Error != "" || op.Key == "" {
					continue
				}
				if before := staged[op.Key]; before != nil {
					before.final = false
				}
				if op.Kind != history.Create && op.Kind != history.Replace {
					continue
				}
				w := &write{t: t, attempt: i, final: true, index: op.Index}
				staged[op.Key] = w
				r := ref{op.Key, op.Value}
				if c.writes[r] != nil || op.Value == "" {
					c.violate(Malformed, []*history.Transaction{t}, "%s writes %s to %s, which is no unique value", name(t), show(op.Value), op.Key)
				}
				c.writes[r] = w
			}
		}
	}
}

// learnItems does the same for what was appended. Positions are known from what the
// commits reported; those of unknown outcome from where their items were read.
func (c *checker) learnItems() {
	for _, t := range c.h.Transactions {
		for i, a := range t.Attempts {
			places := make(map[string]int64)
			for _, op := range a.Ops {
				if op.Kind != history.Append || op.Error != "" {
					continue
				}
				for _, value := range op.Items {
					c.items[value] = &item{t: t, attempt: i, head: op.Key, place: places[op.Key]}
					places[op.Key]++
				}
			}
		}
	}
	c.eachRead(func(t *history.Transaction, _ int, _ *history.Operation, r history.Read, _ bool) {
		it := c.items[r.Value]
		if it == nil || it.t.Outcome != history.Unknown || it.t.Appended != nil || it.attempt != len(it.t.Attempts)-1 {
			return
		}
		c.locate(it.t, r.Key, it)
	})
	for _, t := range c.h.Transactions {
		if t.Outcome == history.Committed || t.Outcome == history.Unknown {
			c.placeItems(t)
		}
	}
}

// locate works out where all items of an append went from where one of them is. An
// item on the stream of another head leaves the append unlocated.
func (c *checker) locate(t *history.Transaction, key string, found *item) {
	at, ok := strings.CutPrefix(key, observations(found.head))
	position, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return
	}
	count := int64(0)
	for _, op := range t.Last().Ops {
		if op.Kind == history.Append && op.Error == "" && op.Key == found.head {
			count += int64(len(op.Items))
		}
	}
	first := position - found.place
	for _, s := range t.Appended {
		if s.Head == found.head {
			return
		}
	}
	t.Appended = append(t.Appended, history.Span{Head: found.head, First: first, Last: first + count - 1})
}

// placeItems makes the records that a commit appended its writes: each item, and
// the position in the head.
func (c *checker) placeItems(t *history.Transaction) {
	last := t.Last()
	if last == nil {
		return
	}
	for _, s := range t.Appended {
		position := s.First
		for _, op := range last.Ops {
			if op.Kind != history.Append || op.Error != "" || op.Key != s.Head {
				continue
			}
			for _, value := range op.Items {
				c.writes[ref{observations(s.Head) + strconv.FormatInt(position, 10), value}] = &write{
					t: t, attempt: len(t.Attempts) - 1, final: true, index: streamIndex(s.Head),
				}
				position++
			}
		}
		if position != s.Last+1 {
			c.violate(BadStream, []*history.Transaction{t}, "%s appended %d items to %s, which went to the positions %d to %d", name(t), position-s.First, s.Head, s.First, s.Last)
		}
		r := ref{s.Head, strconv.FormatInt(s.Last, 10)}
		if other := c.writes[r]; other != nil {
			c.violate(BadStream, []*history.Transaction{other.t, t}, "%s and %s both moved %s to position %d", name(other.t), name(t), s.Head, s.Last)
			continue
		}
		c.writes[r] = &write{t: t, attempt: len(t.Attempts) - 1, final: true}
	}
}

// observations is what the keys of a stream's items begin with.
func observations(head string) string {
	return "ObservationRecords/" + strings.TrimPrefix(head, "ObservationHeads/") + "/"
}

// streamIndex is how a history names the part of the index with one stream.
func streamIndex(head string) string {
	return ByPosition + strings.TrimPrefix(head, "ObservationHeads/")
}

// ByPosition begins the names of the parts of ObservationsByPosition.
const ByPosition = "ObservationsByPosition/"

// eachRead visits every record and absence that any attempt was told of. own says
// that the attempt had staged the key, so that it was told of its own write.
func (c *checker) eachRead(visit func(t *history.Transaction, attempt int, op *history.Operation, r history.Read, own bool)) {
	for _, t := range c.h.Transactions {
		for i, a := range t.Attempts {
			staged := make(map[string]bool)
			for _, op := range a.Ops {
				for _, r := range op.Reads {
					visit(t, i, op, r, staged[r.Key] && (op.Kind == history.Get || op.Kind == history.Assume))
				}
				if op.Error == "" && op.Key != "" && op.Kind != history.Append {
					staged[op.Key] = true
				}
			}
		}
	}
}

// accesses works out the net effect of an attempt on each key, and checks that the
// attempt's reads agree with each other and with its own writes.
func (c *checker) accesses(t *history.Transaction, a *history.Attempt) (list []*access, byKey map[string]*access, now history.Clock) {
	byKey = make(map[string]*access)
	of := func(key string) *access {
		if byKey[key] == nil {
			byKey[key] = &access{key: key}
			list = append(list, byKey[key])
		}
		return byKey[key]
	}
	first := true
	shortcut := false // Now told the time of the page that came first
	for _, op := range a.Ops {
		switch op.Kind {
		case history.Get, history.Assume, history.Exclusive:
			if op.Error == "" {
				for _, r := range op.Reads {
					c.takeRead(t, of(r.Key), op, r)
				}
			}
		case history.Create, history.Replace, history.Delete:
			takeWrite(of(op.Key), op)
		case history.Now:
			if now == 0 && op.Error == "" {
				now = op.Time
				for _, acc := range list {
					acc.sealed = acc.read || !shortcut
				}
			}
		}
		switch op.Kind {
		case history.Peek, history.Query, history.Wake: // nothing that Now would have to lock
		default:
			if first {
				shortcut = op.Kind == history.Exclusive
			}
			first = false
		}
	}
	return list, byKey, now
}

func (c *checker) takeRead(t *history.Transaction, acc *access, op *history.Operation, r history.Read) {
	if acc.wrote && op.Kind != history.Exclusive { // a query does not see what is staged
		if r.Value != acc.after {
			c.violate(OwnWrite, []*history.Transaction{t}, "%s staged %s = %s and then read %s", name(t), acc.key, show(acc.after), show(r.Value))
		}
		return
	}
	if !acc.known || !acc.read && t.Outcome == history.Refused {
		// What a blind create expects does not count if the create came to nothing.
		acc.known, acc.base = true, r.Value
	} else if acc.base != r.Value {
		c.violate(Unrepeatable, []*history.Transaction{t}, "%s read %s = %s and then %s", name(t), acc.key, show(acc.base), show(r.Value))
	}
	acc.read = true
}

func takeWrite(acc *access, op *history.Operation) {
	if op.Exists {
		acc.exists = true
	}
	if op.Error != "" {
		return
	}
	if !acc.known { // a blind create expects the absence
		acc.known, acc.base = true, ""
	}
	acc.wrote, acc.after, acc.index = true, op.Value, op.Index
	if op.Kind == history.Delete {
		acc.after, acc.index = "", ""
	}
}

// takeAppends adds what a commit appended to the accesses of its attempt.
func (n *node) takeAppends() {
	for _, s := range n.t.Appended {
		base := ""
		if s.First > 1 {
			base = strconv.FormatInt(s.First-1, 10)
		}
		n.append(&access{key: s.Head, known: true, base: base, wrote: true, after: strconv.FormatInt(s.Last, 10), stream: true})
		position := s.First
		for _, op := range n.t.Last().Ops {
			if op.Kind != history.Append || op.Error != "" || op.Key != s.Head {
				continue
			}
			for _, value := range op.Items {
				key := observations(s.Head) + strconv.FormatInt(position, 10)
				n.append(&access{key: key, known: true, wrote: true, after: value, index: streamIndex(s.Head), stream: true})
				position++
			}
		}
	}
}

// append adds an access. One that was there already, since the transaction read the
// head, keeps what it read: makeChains compares the two.
func (n *node) append(a *access) {
	if before := n.byKey[a.key]; before != nil {
		if before.base == a.base {
			before.wrote, before.after, before.index, before.stream = true, a.after, a.index, true
			return
		}
	}
	n.byKey[a.key] = a
	n.accesses = append(n.accesses, a)
}
