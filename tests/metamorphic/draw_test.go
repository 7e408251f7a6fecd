package metamorphic_test

import (
	"math/rand/v2"
	"slices"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

// drawer draws a script.
type drawer struct {
	*rand.Rand
	world       *world // for its names
	environment string // of the transaction that is drawn
	focus       []string
}

// draw makes the script of a seed.
func draw(seed uint64) script {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x6d657461)), world: newWorld("draw")}
	s := script{Seed: seed}
	for i := range 6 + d.IntN(3) {
		s.Transactions = append(s.Transactions, d.transaction(i == 0))
	}
	return s
}

// one draws one of its arguments.
func one[T any](d *drawer, choices ...T) T { return choices[d.IntN(len(choices))] }

// chance is true n times in a hundred.
func (d *drawer) chance(n int) bool { return d.IntN(100) < n }

// transaction draws one. The first of a script fills the store.
func (d *drawer) transaction(first bool) transaction {
	d.environment = "A"
	if d.chance(20) {
		d.environment = "B"
	}
	d.choose()
	t := transaction{}
	if first {
		for range 5 {
			t.Ops = append(t.Ops, d.op("trigger"))
		}
		return t
	}
	switch n := d.IntN(100); {
	case n < 12:
		t.End = "fail"
	case n < 15:
		t.End = "panic"
	}
	t.Stops = d.chance(20)
	for range 1 + d.IntN(6) {
		t.Ops = append(t.Ops, d.op(d.verb()))
	}
	if d.chance(30) {
		t.Ops = d.interfere(t.Ops)
	}
	for range d.IntN(3) {
		t.Looks = append(t.Looks, d.look())
	}
	return t
}

// choose draws the few keys that a transaction is about, so that its operations meet.
func (d *drawer) choose() {
	kinds := []string{"run", "run", "run", "event", "event", "owner", "single", "slot", "fire", "cursor", "presence", "reserved", "head", "item/0", "item/1"}
	d.focus = d.focus[:0]
	for range 3 + d.IntN(3) {
		d.focus = append(d.focus, d.key(one(d, kinds...)))
	}
}

// key draws a key of a kind, now and then of the other environment.
func (d *drawer) key(kind string) string {
	environment := d.environment
	if d.chance(5) {
		environment = one(d, environmentNames...)
	}
	var all []string
	for _, name := range d.world.names {
		if len(name) > len(environment)+len(kind)+2 && name[:len(environment)+len(kind)+2] == environment+"/"+kind+"/" {
			all = append(all, name)
		}
	}
	return one(d, all...)
}

// verb draws what an operation does.
func (d *drawer) verb() string {
	verbs := []struct {
		do     string
		weight int
	}{
		{"get", 9}, {"getMany", 7}, {"peek", 5}, {"assume", 7}, {"create", 6}, {"replace", 6}, {"put", 14}, {"delete", 5}, {"remove", 4},
		{"trigger", 9}, {"transition", 12}, {"page", 6}, {"walk", 5}, {"claim", 4}, {"locked", 4}, {"append", 7}, {"now", 5}, {"wake", 3}, {"misuse", 5},
	}
	total := 0
	for _, v := range verbs {
		total += v.weight
	}
	n := d.IntN(total)
	for _, v := range verbs {
		if n -= v.weight; n < 0 {
			return v.do
		}
	}
	panic("weights do not add up")
}

// op draws the rest of an operation.
func (d *drawer) op(do string) op {
	o := op{Do: do}
	switch do {
	case "get", "peek", "getMany":
		o.Keys = d.few(do)
		o.ReadOnly = do != "peek" && d.chance(15)
	case "assume":
		o.Keys, o.As = []string{one(d, d.focus...)}, one(d, "current", "current", "before", "written", "absent")
	case "create", "replace", "put":
		o.Keys = []string{one(d, d.focus...)}
		o.Write = d.content(o.Keys[0])
	case "delete", "remove":
		o.Keys = []string{one(d, d.focus...)}
	case "trigger":
		o.Keys = []string{d.key("run"), d.key("event")}
		o.Write = d.run()
		o.As = one(d, "", "", "blind", "blind", "apart")
	case "transition":
		o.Keys = []string{d.key("run"), d.key("event")}
		o.Write = d.event(o.Keys[0])
	case "page", "walk":
		o.Query = d.query()
		o.Query.Exclusive = d.chance(40)
		if do == "page" {
			o.Query.Limit, o.As = 1+d.IntN(3), one(d, "", "more")
		}
	case "claim":
		o.Query = &query{Environment: d.environment, Index: slices.Index(storage.Indexes(), storage.RunsByDue), Part: d.IntN(4), Until: boundCount - 1, Exclusive: true, Limit: 1 + d.IntN(3)}
		o.Keys = []string{d.key("event"), d.key("event")}
		o.Write = d.event(d.key("run"))
		o.Write.Type = string(run.TypeStarted)
	case "locked":
		o.As, o.Write = one(d, "", "delete"), &content{Document: d.IntN(len(documents)), Entry: one(d, "", "other"), Number: d.IntN(4), Due: d.IntN(4)}
	case "append":
		o.Keys = []string{d.key("head")}
		for range d.IntN(3) + 1 {
			o.Items = append(o.Items, 1+d.IntN(marked-1))
		}
	case "wake":
		o.Topic = one(d, "due", "topic é", "it's")
	case "misuse":
		o.As = misuses[d.IntN(len(misuses))].name
	}
	return o
}

// few draws one key to read, or several.
func (d *drawer) few(do string) []string {
	few := []string{one(d, d.focus...)}
	if do != "get" {
		for range d.IntN(4) {
			few = append(few, one(d, d.focus...))
		}
	}
	return few
}

// content draws what is written to a key.
func (d *drawer) content(name string) *content {
	var c *content
	_, kind, _ := place(name)
	switch {
	case d.chance(25):
		c = &content{As: "opaque", Document: d.IntN(len(documents))}
	case kind == "run" && d.chance(15):
		c = &content{As: "tombstone"}
	case kind == "run":
		c = d.run()
	case kind == "event":
		c = d.event(d.key("run"))
		c.Type = one(d, string(run.TypeCreated), string(run.TypeCancellationRequested))
	case kind == "owner", kind == "single", kind == "head", kind == "item":
		c = &content{As: kind}
	default:
		c = &content{As: "plain", Document: d.IntN(len(documents)), Entry: "other"}
	}
	if c.Number == 0 {
		c.Number = d.IntN(4)
	}
	if c.Due == 0 && c.As != "run" {
		c.At, c.Due, c.Later = d.IntN(momentLater), d.IntN(momentLater+1), d.IntN(len(delays))
	}
	switch {
	case c.Entry != "":
	case c.As == "opaque":
		c.Entry = one(d, "none", "other", "other", "odd")
	case d.chance(15):
		c.Entry = one(d, "none", "other", "odd")
	}
	c.Fenced = d.chance(50)
	return c
}

// run draws a run. Few payloads and few singleton keys, so that they coincide.
func (d *drawer) run() *content {
	c := &content{
		As: "run", Status: string(one(d, run.Statuses()...)), Payload: d.payload(), Queue: d.IntN(queueCount), Priority: d.IntN(2),
		Source: d.IntN(3), At: d.IntN(momentLater + 1), Due: d.IntN(momentLater + 1), Later: d.IntN(len(delays)),
	}
	if d.chance(50) {
		c.Status = string(run.StatusQueued)
	}
	c.Singleton = d.chance(30)
	if d.chance(25) {
		c.Number = 1 + d.IntN(3)
	}
	return c
}

func (d *drawer) payload() int {
	if d.chance(60) {
		return d.IntN(4)
	}
	return d.IntN(len(payloads))
}

// event draws an event of a run, or what happens to it.
func (d *drawer) event(runName string) *content {
	c := d.run()
	c.As, c.Run = "event", runName
	c.Type = string(one(d, run.EventTypes()[1:]...))
	if d.chance(40) {
		c.Type = string(run.TypeStarted)
	}
	return c
}

func (d *drawer) query() *query {
	q := &query{Environment: d.environment, Index: d.IntN(len(storage.Indexes())), Part: d.IntN(4), Down: d.chance(40)}
	if d.chance(50) {
		q.Index = one(d, 0, 1, 1, 2, 4)
	}
	index := storage.Indexes()[q.Index]
	if d.chance(30) {
		q.From = d.IntN(boundCount)
	}
	if d.chance(40) {
		q.Until = d.IntN(boundCount)
	}
	if byTime(index) && d.chance(20) {
		q.Until = boundCount - 1
	}
	return q
}

func (d *drawer) look() look {
	l := look{At: one(d, "run", "runs", "events", "index"), Environment: d.environment}
	switch l.At {
	case "run":
		l.Run = d.IntN(runCount)
	case "runs":
		l.Filter, l.Sort, l.Down = d.IntN(len(filters)), d.IntN(3), d.chance(50)
	case "events":
		l.Run, l.Sort, l.Down = d.IntN(runCount+1), d.IntN(2), d.chance(50)
	case "index":
		l.Query = d.query()
	}
	return l
}

// interfere puts a transaction between two operations of another, before the other
// holds a lock: then one connection is enough for both.
func (d *drawer) interfere(ops []op) []op {
	last := slices.IndexFunc(ops, func(o op) bool {
		return o.Do == "now" || o.Do == "claim" || o.Query != nil && o.Query.Exclusive
	})
	if last < 0 {
		last = len(ops)
	}
	var inner []op
	for range 1 + d.IntN(2) {
		inner = append(inner, d.op(one(d, "put", "put", "remove", "trigger", "transition", "append", "claim")))
	}
	return slices.Insert(slices.Clone(ops), d.IntN(last+1), op{Do: "aside", Ops: inner})
}
