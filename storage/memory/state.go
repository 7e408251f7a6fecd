package memory

import (
	"strings"

	"github.com/google/btree"

	"github.com/seed4391e180/runlane/storage"
)

// state is everything that is committed. It is used under the mutex of the driver.
type state struct {
	tables   []map[storage.Key]*stored  // by the ordinal of the collection
	indexes  []*btree.BTreeG[indexItem] // by the place in storage.Indexes
	place    map[storage.Index]int      // of an index in indexes
	active   map[singleton]storage.Key  // the active run of each singleton key
	versions int64                      // the last version that was given out
}

// stored is one committed record. It is never changed; a write puts another in its place.
type stored struct {
	version  storage.Version
	document []byte
	entries  []storage.Entry
	run      *storage.RunColumns   // nil unless the record is a visible run
	event    *storage.EventColumns // nil unless the record is a visible event
}

// singleton names what at most one active run may hold.
type singleton struct{ environment, task, key string }

// indexItem is one entry of a named index, with the key of the record it places.
type indexItem struct {
	partition, sort string
	key             storage.Key
}

func (i indexItem) less(o indexItem) bool {
	if d := strings.Compare(i.partition, o.partition); d != 0 {
		return d < 0
	}
	if d := i.position().compare(o.position()); d != 0 {
		return d < 0
	}
	return i.key.Partition < o.key.Partition
}

func (i indexItem) position() position { return position{i.sort, i.key.ID} }

// position is a place in one partition of an index.
type position storage.Resume

func (p position) compare(o position) int {
	if d := strings.Compare(p.Sort, o.Sort); d != 0 {
		return d
	}
	return strings.Compare(p.ID, o.ID)
}

func newState() state {
	s := state{place: map[storage.Index]int{}, active: map[singleton]storage.Key{}}
	for range storage.Collections() {
		s.tables = append(s.tables, map[storage.Key]*stored{})
	}
	const degree = 32
	for i, ix := range storage.Indexes() {
		s.place[ix] = i
		s.indexes = append(s.indexes, btree.NewG(degree, indexItem.less))
	}
	return s
}

func (s *state) table(c storage.Collection) map[storage.Key]*stored { return s.tables[c.Ordinal()] }

// get returns the record of a key, or nil.
func (s *state) get(key storage.Key) *stored { return s.table(key.Collection)[key] }

// version is the version of a key's record; zero if there is none.
func (s *state) version(key storage.Key) storage.Version {
	if r := s.get(key); r != nil {
		return r.version
	}
	return storage.Version{}
}

func (r *stored) record(key storage.Key) storage.Record {
	return storage.Record{Key: key, Version: r.version, Document: r.document}
}

// change is what a commit does to one key; a nil record removes it.
type change struct {
	key    storage.Key
	record *stored
}

// apply carries out the changes, which are of distinct keys.
func (s *state) apply(changes []change) {
	for _, c := range changes {
		s.remove(c.key)
	}
	for _, c := range changes {
		if c.record != nil {
			s.insert(c.key, c.record)
		}
	}
}

func (s *state) remove(key storage.Key) {
	old := s.get(key)
	if old == nil {
		return
	}
	delete(s.table(key.Collection), key)
	for _, e := range old.entries {
		s.indexes[s.place[e.Index]].Delete(indexItem{e.Partition, e.Sort, key})
	}
	if k, ok := old.singleton(); ok {
		delete(s.active, k)
	}
}

func (s *state) insert(key storage.Key, r *stored) {
	s.versions++
	r.version = storage.MakeVersion(s.versions)
	s.table(key.Collection)[key] = r
	for _, e := range r.entries {
		s.indexes[s.place[e.Index]].ReplaceOrInsert(indexItem{e.Partition, e.Sort, key})
	}
	if k, ok := r.singleton(); ok {
		s.active[k] = key
	}
}

// singleton returns what the record holds as an active run.
func (r *stored) singleton() (singleton, bool) {
	if r.run == nil || r.run.SingletonKey == "" || !r.run.Status.Active() {
		return singleton{}, false
	}
	return singleton{r.run.Environment, r.run.Task, r.run.SingletonKey}, true
}

// duplicate finds a change that would give one singleton key two active runs.
// holder is zero if both are among the changes.
func (s *state) duplicate(changes []change) (key storage.Key, held singleton, holder storage.Key, found bool) {
	changed := make(map[storage.Key]bool, len(changes))
	for _, c := range changes {
		changed[c.key] = true
	}
	taken := map[singleton]bool{}
	for _, c := range changes {
		if c.record == nil {
			continue
		}
		k, ok := c.record.singleton()
		if !ok {
			continue
		}
		if taken[k] {
			return c.key, k, storage.Key{}, true
		}
		if holder, held := s.active[k]; held && !changed[holder] {
			return c.key, k, holder, true
		}
		taken[k] = true
	}
	return storage.Key{}, singleton{}, storage.Key{}, false
}
