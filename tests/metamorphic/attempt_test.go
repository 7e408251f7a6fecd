package metamorphic_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// attempt is one run of a callback. Only the last one of a transaction is part of the
// history.
//
// Where the contract leaves a choice to the driver, attempts keep out of its way:
//
//   - A blind Create over a record that is present is found out late. A transaction
//     that may end early therefore reads before it creates, and any other ends when a
//     Create is refused of what it had not read: whether the refusal counts as a
//     reading is left open.
//   - Writing a key that was read as read-only may be refused for that, or for
//     whether the record is there.
//   - An error that a method returned ends a transaction as it is, right or wrong.
//     So transactions that assume something, and may do so wrongly, do not return it.
//   - Whether what a callback saw is checked depends on how many reads it took.
//     Transactions that are interfered with begin with two.
type attempt struct {
	p          *player
	t          *transaction
	tx         storage.Tx
	transactor storage.Transactor
	ctx        context.Context // that the callback was given
	number     int
	careful    bool // it may end before it commits
	stops      bool // at the first refusal
	aside      *[]line
	name       string // of the transaction

	lines    []line
	read     map[string]bool // keys that it has read, or staged
	readOnly map[string]bool
	sealed   bool
	now      time.Time
	locked   []storage.Record          // the last exclusive page
	wrote    map[string]storage.Record // what it has staged
	resumes  map[string]storage.Resume
	refused  error // the refusal that the callback returns
}

func newAttempt(p *player, t *transaction, tx storage.Tx, transactor storage.Transactor, number int, name string) *attempt {
	stops := t.Stops && !t.does("assume")
	return &attempt{
		p: p, t: t, tx: tx, transactor: transactor, number: number, name: name, careful: stops || t.End != "", stops: stops,
		read: map[string]bool{}, readOnly: map[string]bool{}, wrote: map[string]storage.Record{}, resumes: map[string]storage.Resume{},
	}
}

func (a *attempt) say(parts ...any) { a.lines = append(a.lines, parts) }

func (a *attempt) run(ctx context.Context) error {
	a.ctx = ctx
	if a.t.does("aside") {
		for _, name := range []string{"A/reserved/0", "B/reserved/0"} {
			if err := a.get(op{Do: "get", Keys: []string{name}}); err != nil {
				return err
			}
		}
	}
	for _, o := range a.t.Ops {
		if err := a.perform(o); err != nil {
			return err
		}
	}
	switch a.t.End {
	case "fail":
		return errOwn
	case "panic":
		panic(errOwn)
	}
	return nil
}

// perform carries out one operation. An error ends the callback.
func (a *attempt) perform(o op) error {
	switch o.Do {
	case "get", "getMany":
		return a.get(o)
	case "peek":
		return a.peek(o)
	case "assume":
		return a.assume(o)
	case "create":
		return a.create(o.Keys[0], a.p.world.record(o.Keys[0], o.Write))
	case "replace":
		return a.replace(o.Keys[0], a.p.world.record(o.Keys[0], o.Write), o.Write.Fenced)
	case "put":
		return a.put(o)
	case "delete":
		return a.remove(o.Keys[0])
	case "remove":
		return a.readAndRemove(o.Keys[0])
	case "trigger":
		return a.trigger(o)
	case "transition":
		return a.transition(o)
	case "page":
		return a.page(o)
	case "walk":
		return a.walk(o)
	case "claim":
		return a.claim(o)
	case "locked":
		return a.writeLocked(o)
	case "append":
		return a.append(o)
	case "now":
		return a.seal()
	case "wake":
		return a.settle("wake", a.tx.Wake(o.Topic))
	case "misuse":
		return a.misuse(o)
	case "aside":
		return a.interfere(o)
	}
	panic("no such operation: " + o.Do)
}

// settle says what a method answered and decides whether the callback goes on.
func (a *attempt) settle(what any, err error) error {
	if err == nil {
		a.say(what, "ok")
		return nil
	}
	a.say(what, err)
	return a.goOn(err)
}

// goOn is nil if the callback goes on after an error.
func (a *attempt) goOn(err error) error {
	if !isRefusal(err) {
		return err
	}
	if a.stops {
		a.refused = err
		return err
	}
	return nil
}

// get reads one key or several.
func (a *attempt) get(o op) error {
	var mode []storage.ReadMode
	what := o.Do
	if o.ReadOnly {
		mode, what = []storage.ReadMode{storage.ReadOnly}, what+" read-only"
	}
	recs, err := a.fetch(o.Keys, mode...)
	if err != nil {
		a.say(what, fmt.Sprint(o.Keys), err)
		return a.goOn(err)
	}
	a.sayFound(what, o.Keys, recs)
	return nil
}

func (a *attempt) sayFound(what string, names []string, recs map[storage.Key]storage.Record) {
	for _, name := range names {
		rec, ok := recs[a.p.world.keys[name]]
		a.say(what, name, found{rec, ok})
	}
}

// fetch reads keys in one read, or in one for each where that must not matter: a
// sealed transaction refuses several keys as a whole.
func (a *attempt) fetch(names []string, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	recs, err := a.lookup(names, mode...)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		a.read[name] = true
		if len(mode) > 0 {
			a.readOnly[name] = true
		}
	}
	return recs, nil
}

func (a *attempt) lookup(names []string, mode ...storage.ReadMode) (map[storage.Key]storage.Record, error) {
	keys := make([]storage.Key, len(names))
	for i, name := range names {
		keys[i] = a.p.world.keys[name]
	}
	if !a.p.manner.singles && len(names) > 1 || a.sealed {
		return a.tx.GetMany(a.ctx, keys, mode...)
	}
	recs := make(map[storage.Key]storage.Record, len(keys))
	for _, key := range keys {
		rec, ok, err := a.tx.Get(a.ctx, key, mode...)
		if err != nil {
			return nil, err
		}
		if ok {
			recs[key] = rec
		}
	}
	return recs, nil
}

func (a *attempt) peek(o op) error {
	keys := make([]storage.Key, len(o.Keys))
	for i, name := range o.Keys {
		keys[i] = a.p.world.keys[name]
	}
	recs, err := a.tx.Peek(a.ctx, keys)
	if err != nil {
		return a.settle("peek", err)
	}
	a.sayFound("peek", o.Keys, recs)
	return nil
}

// assume offers a record as it is committed, as it was before, as it was written, or
// none at all.
func (a *attempt) assume(o op) error {
	name := o.Keys[0]
	key := a.p.world.keys[name]
	rec := a.p.last[name]
	switch o.As {
	case "before":
		rec = a.p.before[name]
	case "written":
		if wrote, ok := a.p.wrote[name]; ok {
			rec = wrote
		}
	case "absent":
		rec = storage.Record{}
	}
	var (
		got storage.Record
		ok  bool
		err error
	)
	if rec.Version.IsZero() {
		got, ok, err = a.tx.AssumeAbsent(a.ctx, key)
	} else {
		got, ok, err = a.tx.Assume(a.ctx, rec)
	}
	if err != nil {
		return a.settle("assume "+name, err)
	}
	a.read[name] = true
	a.say("assume", o.As, name, found{got, ok})
	return nil
}

func (a *attempt) seal() error {
	now, err := a.tx.Now(a.ctx)
	if err != nil {
		return a.settle("now", err)
	}
	a.sealed, a.now = true, now
	a.say("now:", a.p.names.learn(now, "now of "+a.name))
	return nil
}

// interfere runs a whole transaction, but only in the first attempt: later ones hold
// locks.
func (a *attempt) interfere(o op) error {
	if a.number > 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	*a.aside = append(*a.aside, a.p.runAside(ctx, o.Ops)...)
	return nil
}
