package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// fakeStore is a Store over a map. It applies plans without locks and writes down
// every call, so that tests see exactly what the engine asked for.
type fakeStore struct {
	records  map[storage.Key]storage.Record
	streams  map[storage.Key][]string // the items of each stream
	next     int64
	now      time.Time
	log      []string
	page     storage.Page       // the answer to Select
	failures map[string][]error // what calls by name fail with, in turn
	before   map[string]func()  // what happens just before calls by name
	plans    []*Plan            // of commits
	admitted []*Plan            // of replays
	ended    int
}

func newFake() *fakeStore {
	return &fakeStore{
		records: make(map[storage.Key]storage.Record), streams: make(map[storage.Key][]string), failures: make(map[string][]error), before: make(map[string]func()),
		now: time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func (f *fakeStore) engine() *Engine {
	return Engine{Store: f, Sleep: func(context.Context, time.Duration) error { return nil }, Rand: func() float64 { return 0 }}.WithDefaults()
}

func (f *fakeStore) put(key storage.Key, doc string) storage.Record {
	f.next++
	rec := storage.Record{Key: key, Version: storage.MakeVersion(f.next), Document: []byte(doc)}
	f.records[key] = rec
	return rec
}

// call logs a call and returns what it is to fail with.
func (f *fakeStore) call(name, detail string) error {
	f.log = append(f.log, strings.TrimSpace(name+" "+detail))
	if do := f.before[name]; do != nil {
		delete(f.before, name)
		do()
	}
	if queue := f.failures[name]; len(queue) > 0 {
		f.failures[name] = queue[1:]
		return queue[0]
	}
	return nil
}

func (f *fakeStore) Begin(_ context.Context, _ string, admit *Plan) (Session, error) {
	detail := ""
	if admit != nil {
		f.admitted = append(f.admitted, admit)
		detail = lockText(admit.Locks)
	}
	if err := f.call("begin", detail); err != nil {
		return nil, err
	}
	return &fakeSession{f}, nil
}

func lockText(locks []Lock) string {
	var s []string
	for _, l := range locks {
		mode := "x"
		if l.Shared {
			mode = "s"
		}
		s = append(s, l.Key.ID+":"+mode)
	}
	return strings.Join(s, " ")
}

type fakeSession struct{ f *fakeStore }

func (s *fakeSession) Lookup(_ context.Context, keys []storage.Key) (found []storage.Record, err error) {
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	if err := s.f.call("lookup", strings.Join(ids, " ")); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if rec, ok := s.f.records[k]; ok {
			found = append(found, rec)
		}
	}
	return found, nil
}

func (s *fakeSession) Select(context.Context, storage.Query) (storage.Page, error) {
	return s.f.page, s.f.call("select", "")
}

func (s *fakeSession) check(p *Plan) error {
	for _, e := range p.Expect {
		if s.f.records[e.Key].Version != e.Version {
			return &Replay{Reason: storage.ReasonChanged, Key: e.Key}
		}
	}
	return nil
}

func (s *fakeSession) Validate(_ context.Context, p *Plan) error {
	return errors.Join(s.f.call("validate", ""), s.check(p))
}

func (s *fakeSession) Seal(_ context.Context, p *Plan) (time.Time, error) {
	if err := s.f.call("seal", lockText(p.Locks)); err != nil {
		return time.Time{}, err
	}
	return s.f.now, s.check(p)
}

func (s *fakeSession) Commit(_ context.Context, p *Plan) (Committed, error) {
	s.f.plans = append(s.f.plans, p)
	if err := s.f.call("commit", lockText(p.Locks)); err != nil {
		return Committed{}, err
	}
	if err := s.check(p); err != nil {
		return Committed{}, err
	}
	done := Committed{Time: s.f.now}
	for _, m := range p.Mutations {
		if s.f.records[m.Key].Version != m.Before.Version {
			return Committed{}, &Replay{Reason: storage.ReasonExists, Key: m.Key}
		}
	}
	for _, m := range p.Mutations {
		if m.Op == Delete {
			delete(s.f.records, m.Key)
			done.Versions = append(done.Versions, storage.Version{})
			continue
		}
		done.Versions = append(done.Versions, s.f.put(m.Key, string(m.Record.Document)).Version)
	}
	for _, a := range p.Appends {
		done.First = append(done.First, int64(len(s.f.streams[a.Head]))+1)
		for _, item := range a.Items {
			s.f.streams[a.Head] = append(s.f.streams[a.Head], string(item))
		}
	}
	return done, nil
}

func (s *fakeSession) End(context.Context) { s.f.ended++ }
func (s *fakeSession) RoundTrips() int     { return 1 }

func key(id string) storage.Key {
	return storage.Key{Collection: storage.Runs, Partition: "$e!", ID: id}
}

func record(id, doc string) storage.Record {
	return storage.Record{Key: key(id), Document: []byte(doc)}
}

func (f *fakeStore) wrote(id string) string {
	rec, ok := f.records[key(id)]
	if !ok {
		return "absent"
	}
	return fmt.Sprint(string(rec.Document))
}
