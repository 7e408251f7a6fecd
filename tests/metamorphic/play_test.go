package metamorphic_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// store is where a script is played.
type store struct {
	storage.Driver
	// join begins a transaction of the application; nil plays each transaction of the
	// script on its own. The transactor is used once before commit.
	join func(ctx context.Context) (t storage.Transactor, commit func() error, err error)
	// restart restarts what is behind the store; nil where nothing can be restarted.
	restart func(ctx context.Context) error
}

// manner is how a script is played where that must not matter.
type manner struct {
	singles bool // read several keys one by one
	page    int  // limit of the pages of everything that is read to its end
}

// player plays one script on one store and writes its history.
type player struct {
	world   *world
	store   store
	manner  manner
	names   *names
	history []string

	last    map[string]storage.Record // as the records were read last
	before  map[string]storage.Record // as they were when they were another version
	wrote   map[string]storage.Record // as the last commit that wrote them had them
	resumes map[string]storage.Resume // where pages ended
	number  int                       // of the transaction
}

// patience bounds one play of a script.
const patience = 2 * time.Minute

// play returns the history of a script. prefix names the environments; nobody else
// may use it.
func play(ctx context.Context, s script, st store, m manner, prefix string) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w := newWorld(prefix)
	p := &player{
		world: w, store: st, manner: m, names: newNames(w),
		last: map[string]storage.Record{}, before: map[string]storage.Record{}, wrote: map[string]storage.Record{}, resumes: map[string]storage.Resume{},
	}
	for i := range s.Transactions {
		t := &s.Transactions[i]
		p.number = i
		if st.restart != nil && restartsBefore(s, i) {
			if err := st.restart(ctx); err != nil {
				p.say("the restart failed:", err)
			}
		}
		p.say(fmt.Sprintf("transaction %d", i))
		p.changes(ctx, p.concerned(t, p.transact(ctx, t)))
		for _, l := range t.Looks {
			p.look(ctx, l)
		}
	}
	p.say("in the end")
	p.lookAtAll(ctx, s.Seed)
	return p.history
}

// restartsBefore chooses the transactions before which the store is restarted: the
// connection that is lost makes the first attempt fail, so they are ones that see the
// same on any attempt.
func restartsBefore(s script, i int) bool {
	t := &s.Transactions[i]
	return (s.Seed+uint64(i))%4 == 0 && !t.does("aside") && !t.does("assume")
}

func (p *player) say(parts ...any) { p.history = append(p.history, p.names.line(parts)) }

// errOwn is what a callback returns that fails by itself, and panics with.
var errOwn = errors.New("the callback's own error")

// concerned lists what a transaction may have changed: the keys that it names, or
// came across, and all of a stream. Whether it changed others as well is seen in the
// end.
func (p *player) concerned(t *transaction, read map[string]bool) []string {
	concerned := maps.Clone(read)
	if concerned == nil {
		concerned = map[string]bool{}
	}
	streams := false
	for o := range t.all() {
		for _, name := range o.Keys {
			concerned[name] = true
		}
		streams = streams || o.Do == "append"
	}
	var names []string
	for _, name := range p.world.names {
		_, kind, _ := place(name)
		if concerned[name] || streams && (kind == "head" || kind == "item") {
			names = append(names, name)
		}
	}
	return names
}

// transact plays one transaction, says what became of it, and returns what it came
// across.
func (p *player) transact(ctx context.Context, t *transaction) (read map[string]bool) {
	transactor, finish := storage.Transactor(p.store), func() error { return nil }
	if p.store.join != nil {
		var err error
		if transactor, finish, err = p.store.join(ctx); err != nil {
			p.say("joining failed:", err)
			return nil
		}
	}
	var (
		a        *attempt
		attempts int
		aside    []line
		commit   storage.Commit
		err      error
		panicked any
	)
	func() {
		defer func() { panicked = recover() }()
		commit, err = transactor.Transact(ctx, "metamorphic", func(ctx context.Context, tx storage.Tx) error {
			attempts++
			a = newAttempt(p, t, tx, transactor, attempts, fmt.Sprint(p.number))
			a.aside = &aside
			return a.run(ctx)
		})
	}()
	if ferr := finish(); ferr != nil {
		p.say("  committing what was joined failed:", ferr)
	}
	for _, l := range aside {
		p.say(append(line{"   "}, l...)...)
	}
	if a == nil {
		p.say("  the callback never ran:", err)
		return nil
	}
	for _, l := range a.lines {
		p.say(append(line{" "}, l...)...)
	}
	for key, resume := range a.resumes {
		p.resumes[key] = resume
	}
	p.end(a, commit, err, panicked)
	return a.read
}

// end says how a transaction ended.
func (p *player) end(a *attempt, commit storage.Commit, err error, panicked any) {
	switch {
	case panicked != nil && panicked == any(errOwn):
		p.say("  panicked")
	case panicked != nil:
		p.say("  panicked with something else:", fmt.Sprint(panicked))
	case err == nil:
		p.committed(commit, fmt.Sprintf("commit %d", p.number), a.wrote)
	default:
		p.say("  failed:", p.failure(err, a))
	}
	if _, _, err := a.tx.Get(context.Background(), a.p.world.keys["A/slot/0"]); !errors.Is(err, storage.ErrClosed) {
		p.say("  a callback's transaction can still be used:", err)
	}
}

// failure spells the error of Transact. What the callback returned comes as it is.
func (p *player) failure(err error, a *attempt) string {
	var (
		conflict  *storage.ConflictError
		duplicate *storage.DuplicateActiveError
		text      = wordFor(err)
	)
	switch {
	case err == errOwn:
		return "own error"
	case errors.Is(err, errOwn):
		return "own error, wrapped"
	case a.refused != nil && err == a.refused:
		return "the refusal above, as it was returned"
	case errors.As(err, &conflict):
		return fmt.Sprintf("%s: %s", text, conflict.Reason)
	case errors.As(err, &duplicate):
		held := fmt.Sprintf("%s of %s of %s, held by ", duplicate.SingletonKey, duplicate.Task, duplicate.Environment)
		return text + ": " + p.names.plain(held, false) + p.holder(duplicate, a)
	}
	return text
}

// holder names the run that holds a singleton key. Whether a run counts as another one
// that the transaction itself writes is left to the store.
func (p *player) holder(d *storage.DuplicateActiveError, a *attempt) string {
	for _, name := range p.world.names {
		key := p.world.keys[name]
		if runKey, err := codec.RunKey(d.Environment, d.RunID); err == nil && key == runKey && !a.read[name] {
			return name
		}
	}
	return "a run that it knows"
}

// committed says what a commit reports, and remembers what was written.
func (p *player) committed(commit storage.Commit, name string, wrote map[string]storage.Record) {
	parts := line{"  committed at " + p.names.learn(commit.Time, name) + ":"}
	written := make([]storage.Key, 0, len(commit.Versions))
	for key := range commit.Versions {
		written = append(written, key)
	}
	slices.SortFunc(written, func(a, b storage.Key) int { return strings.Compare(p.world.show(a), p.world.show(b)) })
	for _, key := range written {
		parts = append(parts, key, commit.Versions[key])
	}
	for _, a := range commit.Appended {
		parts = append(parts, a.Head, fmt.Sprintf("%d–%d", a.First, a.Last))
	}
	p.say(parts...)
	for name, rec := range wrote {
		if rec.Version = commit.Versions[rec.Key]; !rec.Version.IsZero() {
			p.wrote[name] = rec
		}
	}
}

// runAside plays a whole transaction while another one is in its callback.
func (p *player) runAside(ctx context.Context, ops []op) []line {
	var a *attempt
	attempts := 0
	commit, err := p.store.Transact(ctx, "aside", func(ctx context.Context, tx storage.Tx) error {
		attempts++
		a = newAttempt(p, &transaction{Ops: ops}, tx, p.store, attempts, fmt.Sprintf("the aside of %d", p.number))
		return a.run(ctx)
	})
	if err != nil {
		return []line{{"aside failed:", p.failure(err, a)}}
	}
	for name, rec := range a.wrote {
		if rec.Version = commit.Versions[rec.Key]; !rec.Version.IsZero() {
			p.wrote[name] = rec
		}
	}
	return append(a.lines, line{"aside committed at", p.names.learn(commit.Time, fmt.Sprintf("aside of %d", p.number))})
}
