package postgres

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// groupKind is one operation of a commit statement. The order of the kinds is the
// order in which the groups take effect: what was read is checked before anything
// changes; payloads are copied before the run that holds them changes; deletes and
// updates that leave the set of active runs free a singleton key before another
// write takes it.
type groupKind uint8

const (
	presentGroup groupKind = iota
	heldGroup              // like presentGroup, and locks the rows
	absentGroup
	materializeGroup
	deleteGroup
	leavingGroup
	updateGroup
	insertGroup
)

// groupID names a group: one operation on one collection in one environment.
type groupID struct {
	kind       groupKind
	collection storage.Collection
	partition  string
}

// group is the rowset of one group, column by column.
type group struct {
	groupID
	keys     []storage.Key
	versions []int64 // new versions
	fences   []int64 // versions that must be found
	docs     []string
	later    []int64
	pairs    map[storage.Index]*pair

	payloads  []string             // runs
	canonical []bool               // runs
	kept      []bool               // updated runs
	holders   []storage.RunColumns // runs that hold a singleton key from now on: its environment, task and key
	runIDs    []string             // events
	native    []bool               // events
	shared    []bool               // inserted events
	except    []string             // materialize: events that the commit writes itself

	environments []string // shared: the partition of each row, in place of that of the group
	members      []int32  // shared: whose each row is; nil for a group of one commit
}

// pair is the two columns of a named index; "" is no entry.
type pair struct{ partitions, sorts []string }

// check reports whether the group only looks.
func (g *group) check() bool { return g.kind <= absentGroup }

func (g *group) ids() []string {
	ids := make([]string, len(g.keys))
	for i, k := range g.keys {
		ids[i] = k.ID
	}
	return ids
}

// args are the group's parameters, in the order that its SQL file names.
func (g *group) args() []any {
	if g.members != nil {
		return append(g.columns(g.environments), g.members)
	}
	return g.columns(g.partition)
}

func (g *group) columns(environment any) []any {
	args := []any{environment, g.ids()}
	switch g.kind {
	case presentGroup, heldGroup, deleteGroup:
		return append(args, g.fences)
	case absentGroup:
		return args
	case materializeGroup:
		return append(args, g.except)
	}
	args = append(args, g.versions, g.docs, g.later)
	updates := g.kind != insertGroup
	switch g.collection {
	case storage.Runs:
		args = append(args, g.payloads, g.canonical)
		if updates {
			args = append(args, g.fences, g.kept)
		}
	case storage.RunEvents:
		args = append(args, g.runIDs, g.native)
		if updates {
			args = append(args, g.fences)
		} else {
			args = append(args, g.shared)
		}
	default:
		if updates {
			args = append(args, g.fences)
		}
	}
	for _, ix := range storage.IndexesOn(g.collection) {
		args = append(args, g.pairs[ix].partitions, g.pairs[ix].sorts)
	}
	return args
}

// grouping turns a plan into groups.
type grouping struct {
	groups   map[groupID]*group
	payloads map[storage.Key][]byte // of the runs that the plan inserts; nil: none
	written  map[string][]string    // ids of the events that the plan updates or deletes, by environment
}

// groupPlan returns the groups of a plan in the order in which they take effect.
// versions has the new version of each mutation.
func (n *names) groupPlan(p *txn.Plan, versions []storage.Version) []*group {
	b := &grouping{
		groups:   make(map[groupID]*group),
		payloads: make(map[storage.Key][]byte),
		written:  make(map[string][]string),
	}
	for _, e := range p.Expect {
		b.expect(e)
	}
	for i := range p.Mutations {
		m := &p.Mutations[i]
		if m.Key.Collection == storage.RunEvents && m.Op != txn.Insert {
			b.written[m.Key.Partition] = append(b.written[m.Key.Partition], m.Key.ID)
		}
	}
	// Mutations are in key order and runs come before events, so that an event finds
	// the payload of a run of the same plan.
	for i := range p.Mutations {
		b.mutate(&p.Mutations[i], versions[i])
	}
	return b.ordered()
}

func (b *grouping) group(kind groupKind, k storage.Key) *group {
	id := groupID{kind, k.Collection, k.Partition}
	g := b.groups[id]
	if g == nil {
		g = newGroup(id)
		b.groups[id] = g
	}
	g.keys = append(g.keys, k)
	return g
}

func newGroup(id groupID) *group {
	g := &group{groupID: id, pairs: make(map[storage.Index]*pair)}
	for _, ix := range storage.IndexesOn(id.collection) {
		g.pairs[ix] = &pair{}
	}
	return g
}

func (b *grouping) expect(e txn.Expectation) {
	if e.Version.IsZero() {
		b.group(absentGroup, e.Key)
		return
	}
	kind := presentGroup
	if e.Hold {
		kind = heldGroup
	}
	g := b.group(kind, e.Key)
	g.fences = append(g.fences, e.Version.Int64())
}

func (b *grouping) mutate(m *txn.Mutation, version storage.Version) {
	if m.Op == txn.Delete {
		g := b.group(deleteGroup, m.Key)
		g.fences = append(g.fences, m.Before.Version.Int64())
		if m.Key.Collection == storage.Runs {
			b.materialize(m.Key)
		}
		return
	}
	switch m.Key.Collection {
	case storage.Runs:
		b.mutateRun(m, version)
	case storage.RunEvents:
		b.mutateEvent(m, version)
	default:
		kind := insertGroup
		if m.Op == txn.Update {
			kind = updateGroup
		}
		g := b.group(kind, m.Key)
		g.row(m, version, m.Record.Document, m.Record.Entries)
	}
}

// row adds what all collections have.
func (g *group) row(m *txn.Mutation, version storage.Version, document []byte, entries []storage.Entry) {
	g.versions = append(g.versions, version.Int64())
	g.docs = append(g.docs, string(document))
	g.later = append(g.later, m.Record.Later.Microseconds())
	if m.Op == txn.Update {
		g.fences = append(g.fences, m.Before.Version.Int64())
	}
	for ix, p := range g.pairs {
		var partition, sort string
		for _, e := range entries {
			if e.Index == ix {
				partition, sort = e.Partition, e.Sort
			}
		}
		p.partitions, p.sorts = append(p.partitions, partition), append(p.sorts, sort)
	}
}

func (b *grouping) mutateRun(m *txn.Mutation, version storage.Version) {
	columns, canonical := runColumns(m.Record)
	rest, payload, split := codec.SplitPayload(m.Record.Document)
	if !split {
		rest, payload = m.Record.Document, nil
	}
	kind := insertGroup
	if m.Op == txn.Update {
		kind = updateGroup
		if !canonical || !columns.Status.Active() || columns.SingletonKey == "" {
			kind = leavingGroup
		}
	}
	g := b.group(kind, m.Key)
	g.row(m, version, rest, m.Record.Entries)
	g.payloads = append(g.payloads, string(payload))
	g.canonical = append(g.canonical, canonical)
	if canonical && columns.Status.Active() && columns.SingletonKey != "" {
		g.holders = append(g.holders, storage.RunColumns{Environment: columns.Environment, Task: columns.Task, SingletonKey: columns.SingletonKey})
	}
	if m.Op == txn.Insert {
		if canonical {
			b.payloads[m.Key] = payload
		}
		return
	}
	kept := samePayload(m.Before.Document, payload)
	g.kept = append(g.kept, kept)
	if !kept {
		b.materialize(m.Key)
	}
}

// samePayload reports whether a document has that payload. Every digit counts; and a
// mark is another time than the one that it became when it was written last.
func samePayload(before, payload []byte) bool {
	_, old, ok := codec.SplitPayload(before)
	if !ok || payload == nil {
		return !ok && payload == nil
	}
	if hasMark(payload) {
		return false
	}
	if bytes.Equal(old, payload) {
		return true
	}
	was, err := jsonscan.Canonical(old)
	if err != nil {
		return false
	}
	is, err := jsonscan.Canonical(payload)
	return err == nil && bytes.Equal(was, is)
}

// hasMark reports whether JSON text holds a mark; its byte stands in no other text.
func hasMark(doc []byte) bool {
	return bytes.ContainsAny(doc, storage.CommitTime+storage.CommitTimeLater)
}

// materialize gives the events that share the payload of a run a copy of their own.
func (b *grouping) materialize(runKey storage.Key) {
	g := b.group(materializeGroup, runKey)
	g.except = b.written[runKey.Partition]
	if g.except == nil {
		g.except = []string{} // a null array compares as unknown
	}
}

func (b *grouping) mutateEvent(m *txn.Mutation, version storage.Version) {
	document, entries := m.Record.Document, m.Record.Entries
	runKey, sequence, native := nativeEvent(m.Record)
	if native {
		entries = nil
	}
	var runID string
	if native { // one that stands elsewhere is no event of the run for operators either
		runID = runKey.ID
	}
	if m.Op == txn.Update {
		g := b.group(updateGroup, m.Key)
		g.row(m, version, document, entries)
		g.runIDs, g.native = append(g.runIDs, runID), append(g.native, native)
		return
	}
	shared := false
	if native && sequence == 1 {
		if rest, payload, ok := codec.SplitEventPayload(document); ok && payload != nil && !hasMark(payload) && bytes.Equal(payload, b.payloads[runKey]) {
			document, shared = rest, true
		}
	}
	g := b.group(insertGroup, m.Key)
	g.row(m, version, document, entries)
	g.runIDs, g.native, g.shared = append(g.runIDs, runID), append(g.native, native), append(g.shared, shared)
}

// nativeEvent returns the run and sequence of a canonical event, and whether its
// index entry is the one that the typed columns stand for. The key is zero for an
// event that is not canonical.
func nativeEvent(rec storage.Record) (runKey storage.Key, sequence int64, native bool) {
	columns, ok := eventColumns(rec)
	if !ok {
		return storage.Key{}, 0, false
	}
	runKey, err := codec.RunKey(columns.Environment, columns.RunID)
	if err != nil {
		return storage.Key{}, 0, false
	}
	for _, e := range rec.Entries {
		if e.Index == storage.RunEventsBySequence {
			partition, perr := codec.EventsPartition(columns.Environment, columns.RunID)
			native = perr == nil && e.Partition == partition && e.Sort == codec.SequenceSort(columns.Sequence)
		}
	}
	return runKey, columns.Sequence, native
}

// ordered returns the groups in the order in which they take effect.
func (b *grouping) ordered() []*group {
	groups := make([]*group, 0, len(b.groups))
	for _, g := range b.groups {
		groups = append(groups, g)
	}
	sortGroups(groups)
	return groups
}

// shape names the text of a statement: everything about its groups but the rows.
func shape(statement string, groups []*group) string {
	var s strings.Builder
	s.WriteString(statement)
	for _, g := range groups {
		s.WriteByte(' ')
		s.WriteString(strconv.Itoa(int(g.kind)))
		s.WriteByte('A' + byte(g.collection.Ordinal()))
	}
	return s.String()
}

// payloadLocks are the lock texts of the payloads whose sharing a plan may change:
// of runs whose payload changes or goes, and of events that are replaced or go,
// under what they were and what they become. What is new shares with nothing that
// another transaction can reach.
func (n *names) payloadLocks(p *txn.Plan, groups []*group) []string {
	var locks []string
	event := func(rec storage.Record) {
		if columns, ok := eventColumns(rec); ok {
			if k, err := codec.RunKey(columns.Environment, columns.RunID); err == nil {
				locks = append(locks, n.payloadLock(k.Partition, k.ID, columns.Sequence))
			}
		}
	}
	for i := range p.Mutations {
		m := &p.Mutations[i]
		if m.Key.Collection != storage.RunEvents || m.Op == txn.Insert {
			continue
		}
		event(m.Before)
		if m.Op == txn.Update {
			event(m.Record)
		}
	}
	for _, g := range groups {
		if g.kind == materializeGroup {
			for _, k := range g.keys {
				locks = append(locks, n.payloadLock(k.Partition, k.ID, 1))
			}
		}
	}
	return locks
}
