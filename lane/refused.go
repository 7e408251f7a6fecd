package lane

import (
	"github.com/google/uuid"

	"github.com/seed4391e180/runlane/storage"
)

// idPool holds identifiers that were drawn before a transaction. Those that it did
// not need serve the next one: an idle worker draws none.
type idPool struct {
	draw  func() uuid.UUID
	spare []uuid.UUID
}

// fill makes sure that there are n.
func (p *idPool) fill(n int) {
	for len(p.spare) < n {
		p.spare = append(p.spare, p.draw())
	}
}

// use takes away the first n, which a transaction has stored.
func (p *idPool) use(n int) { p.spare = p.spare[:copy(p.spare, p.spare[n:])] }

// drop takes away all: a transaction that failed may have stored some of them.
func (p *idPool) drop() { p.spare = p.spare[:0] }

// refusedRun ends a claim because the store, or the reducer, does not accept what
// would become of one run.
type refusedRun struct {
	key storage.Key
	err error
}

func (e *refusedRun) Error() string { return e.err.Error() }
func (e *refusedRun) Unwrap() error { return e.err }

// refusedRuns remembers such runs, so that they do not stand in the way of the
// others for ever.
type refusedRuns map[storage.Key]struct{}

func (r refusedRuns) has(key storage.Key) bool {
	_, ok := r[key]
	return ok
}

func (r *refusedRuns) add(key storage.Key) {
	const enough = 10_000 // beyond which they are tried again rather than remembered
	if *r == nil || len(*r) >= enough {
		*r = refusedRuns{}
	}
	(*r)[key] = struct{}{}
}
