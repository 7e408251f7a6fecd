package postgres

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// text is one rendered statement of a golden file.
type text struct{ name, sql string }

// TestGolden compares every shape of statement with the files in testdata. After a
// change that is meant, run it with -update and read the difference.
func TestGolden(t *testing.T) {
	n, err := newNames(DefaultSchema)
	require.NoError(t, err)
	s := newStatements(n)
	files := map[string][]text{
		"fixed": {
			{"settings", s.settings}, {"settings of a joined transaction", s.settingsJoined}, {"try locks", s.lockTry}, {"wait for locks", s.lockWait},
			{"draw versions", s.versions}, {"clock", s.clock}, {"notify", s.notify}, {"append", s.append},
			{"planner", s.planner}, {"try the locks of several commits", s.sharedLockTry}, {"notify for several commits", s.sharedNotify},
			{"what was appended", s.appended}, {"has the commit ended", s.commitEnded}, {"check", fragment("check")},
		},
		"lookup":      lookupTexts(s),
		"list_events": listTexts(s),
		"count_runs":  {{"of the index alone", s.countRuns(storage.Plan{})}, {"with filters", s.countRuns(storage.Plan{Cost: storage.Scanned})}},
	}
	for _, ix := range storage.Indexes() {
		files["query_"+storage.SnakeCase(ix.String())] = queryTexts(s, ix)
	}
	for _, k := range groupKinds {
		var texts []text
		for _, c := range storage.Collections() {
			if groups := n.groupsOf(t, k.kind, c, 1); groups != nil {
				texts = append(texts, text{c.String(), s.commit(groups)})
			}
		}
		files["commit_"+k.name] = texts
	}
	files["shared_commit"] = sharedTexts(t, n)
	files["commit_of_everything"] = []text{{"every operation on runs and events, in two environments", s.commit(n.everything(t))}}

	want := []string{}
	for name, texts := range files {
		path := filepath.Join("testdata", name+".sql")
		want = append(want, path)
		var b strings.Builder
		for _, x := range texts {
			fmt.Fprintf(&b, "-- %s\n%s\n\n", x.name, x.sql)
		}
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
		}
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(golden), b.String(), "%s differs; if that is meant, run go test -run TestGolden -update", path)
	}
	found, err := filepath.Glob(filepath.Join("testdata", "*.sql"))
	require.NoError(t, err)
	require.ElementsMatch(t, want, found)
}

// sharedTexts are the statements of shared commits: of runs that are created, and of
// two commits with every operation on runs, events and queue slots.
func sharedTexts(t *testing.T, n *names) []text {
	groups := func(c storage.Collection, kinds ...groupKind) (all []*group) {
		for _, kind := range kinds {
			all = append(all, n.groupsOf(t, kind, c, 1)...)
		}
		return all
	}
	created := append(groups(storage.Runs, insertGroup), groups(storage.RunEvents, insertGroup)...)
	one := groups(storage.Runs, presentGroup, absentGroup, leavingGroup, updateGroup, insertGroup)
	other := append(groups(storage.RunEvents, deleteGroup, updateGroup), groups(storage.QueueSlots, presentGroup, deleteGroup, updateGroup, insertGroup)...)
	return []text{
		{"runs that are created", newStatements(n).sharedCommit(merged([][]*group{created, created}))},
		{"every operation", newStatements(n).sharedCommit(merged([][]*group{one, other, created}))},
	}
}

// TestSharedParameters: a text uses exactly the parameters that are sent with it, and
// does not depend on how many commits share it.
func TestSharedParameters(t *testing.T) {
	n, err := newNames(`a"b'c {group} $9`)
	require.NoError(t, err)
	number := regexp.MustCompile(`\$[0-9]+`)
	schema, _, _ := strings.Cut(n.of(storage.Runs).name, ".")
	for _, k := range groupKinds {
		if k.kind == heldGroup {
			continue // of transactions that are open
		}
		for _, c := range storage.Collections() {
			groups := n.groupsOf(t, k.kind, c, 2)
			if groups == nil || slices.ContainsFunc(groups, func(g *group) bool { return g.kind == materializeGroup }) {
				continue // payloads are not copied in shared transactions
			}
			two, four := merged([][]*group{groups, groups}), merged([][]*group{groups, groups, groups, groups})
			sql := newStatements(n).sharedCommit(two)
			require.Equal(t, sql, newStatements(n).sharedCommit(four))
			used := map[string]bool{}
			for _, p := range number.FindAllString(strings.ReplaceAll(sql, schema, ""), -1) {
				used[p] = true
			}
			args := sharedArgs(four, "")
			require.Len(t, used, len(args), sql)
			for i := range args {
				require.True(t, used["$"+strconv.Itoa(i+1)], "parameter %d of:\n%s", i+1, sql)
			}
			for _, g := range four {
				require.Equal(t, []int32{0, 0, 1, 1, 2, 2, 3, 3}, g.members)
				require.Len(t, g.environments, 8)
				require.Len(t, g.ids(), 8)
			}
		}
	}
}

func lookupTexts(s *statements) (texts []text) {
	for _, c := range storage.Collections() {
		texts = append(texts, text{c.String(), s.lookup([]storage.Collection{c}, wholeRecords)})
	}
	return append(texts,
		text{"two collections, one of them in two environments", s.lookup([]storage.Collection{storage.Runs, storage.Runs, storage.QueueSlots}, wholeRecords)},
		text{"versions only", s.lookup([]storage.Collection{storage.Runs, storage.RunEvents, storage.QueueSlots}, versionsOnly)})
}

func queryTexts(s *statements, ix storage.Index) (texts []text) {
	for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			name := map[storage.Lock]string{storage.Candidates: "candidates", storage.Exclusive: "exclusive"}[lock] +
				map[storage.Direction]string{storage.Ascending: ", ascending", storage.Descending: ", descending"}[direction]
			texts = append(texts, text{name, s.query(storage.Query{Index: ix, Direction: direction, Lock: lock})})
		}
	}
	return texts
}

func listTexts(s *statements) (texts []text) {
	for name, f := range map[string]storage.EventFilter{
		"a run, by sequence": {RunID: "r"}, "a run, by occurrence": {RunID: "r", Sort: storage.SortOccurred}, "an environment, by occurrence": {Sort: storage.SortOccurred},
		"two types, by occurrence": {Sort: storage.SortOccurred, Types: []run.EventType{run.TypeFailed, run.TypeCreated, run.TypeFailed}},
	} {
		plan, err := storage.PlanEvents(f)
		if err != nil {
			panic(err)
		}
		texts = append(texts, text{name, s.listEvents(f, plan, 50)})
		f.Direction = storage.Descending
		texts = append(texts, text{name + ", descending", s.listEvents(f, plan, 50)})
	}
	slices.SortFunc(texts, func(a, b text) int { return strings.Compare(a.name, b.name) })
	return texts
}

var groupKinds = []struct {
	name string
	kind groupKind
}{
	{"expect_present", presentGroup}, {"hold_present", heldGroup}, {"expect_absent", absentGroup}, {"materialize", materializeGroup},
	{"delete", deleteGroup}, {"leave", leavingGroup}, {"update", updateGroup}, {"insert", insertGroup},
}

// groupsOf are the groups of a plan that does one thing to n records of one
// collection; nil if nothing does this to that collection.
func (n *names) groupsOf(t require.TestingT, kind groupKind, c storage.Collection, records int) []*group {
	runsOnly := kind == materializeGroup || kind == leavingGroup
	if runsOnly && c != storage.Runs {
		return nil
	}
	p := &txn.Plan{}
	for i := range records {
		rec := sampleRecord(t, c, "prod", i, run.StatusQueued)
		before := rec
		before.Version = storage.MakeVersion(int64(i + 1))
		switch kind {
		case presentGroup, heldGroup:
			p.Expect = append(p.Expect, txn.Expectation{Key: rec.Key, Version: before.Version, Hold: kind == heldGroup})
		case absentGroup:
			p.Expect = append(p.Expect, txn.Expectation{Key: rec.Key})
		case deleteGroup:
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Delete, Key: rec.Key, Before: before})
		case insertGroup:
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Insert, Key: rec.Key, Record: rec})
		case materializeGroup: // comes with the update that changes the payload
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Update, Key: rec.Key, Before: storage.Record{Version: before.Version, Document: []byte(`{"value":{"payload":"old"}}`)}, Record: rec})
		case leavingGroup:
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Update, Key: rec.Key, Before: before, Record: sampleRecord(t, c, "prod", i, run.StatusSucceeded)})
		case updateGroup:
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Update, Key: rec.Key, Before: before, Record: rec})
		}
	}
	return n.groupPlan(p, make([]storage.Version, len(p.Mutations)))
}

// everything is one commit with all operations on runs and events.
func (n *names) everything(t require.TestingT) []*group {
	p := &txn.Plan{}
	for _, env := range []string{"prod", "stage"} {
		for _, c := range []storage.Collection{storage.Runs, storage.RunEvents} {
			next := 0
			rec := func(status run.Status) storage.Record {
				next++
				return sampleRecord(t, c, env, next, status)
			}
			read := func(r storage.Record) storage.Record {
				r.Version = storage.MakeVersion(int64(next))
				return r
			}
			present, held, absent, gone := rec(run.StatusQueued), rec(run.StatusQueued), rec(run.StatusQueued), rec(run.StatusQueued)
			kept, ended, created := rec(run.StatusQueued), rec(run.StatusSucceeded), rec(run.StatusQueued)
			p.Expect = append(p.Expect, txn.Expectation{Key: present.Key, Version: storage.MakeVersion(1)},
				txn.Expectation{Key: held.Key, Version: storage.MakeVersion(1), Hold: true}, txn.Expectation{Key: absent.Key})
			p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Delete, Key: gone.Key, Before: read(gone)},
				txn.Mutation{Op: txn.Update, Key: kept.Key, Before: read(kept), Record: kept},
				txn.Mutation{Op: txn.Update, Key: ended.Key, Before: read(ended), Record: ended},
				txn.Mutation{Op: txn.Insert, Key: created.Key, Record: created})
		}
	}
	return n.groupPlan(p, make([]storage.Version, len(p.Mutations)))
}

// sampleRecord is a canonical run or event, or any record of another collection.
func sampleRecord(t require.TestingT, c storage.Collection, env string, i int, status run.Status) storage.Record {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	id := fmt.Sprintf("$1 {table} \" ' %d", i)
	var (
		rec storage.Record
		err error
	)
	switch c {
	case storage.Runs:
		r := run.Run{ID: id, Environment: env, Task: "mail", Queue: "q", Priority: 2, Status: status, Sequence: 1, Due: at, Created: at, Updated: at,
			Payload: []byte(`{"n":1}`), Source: run.Source{Type: run.SourceTrigger}}
		if status == run.StatusSucceeded {
			r.Due, r.Finished = time.Time{}, at
		}
		rec, err = codec.EncodeRun(r)
	case storage.RunEvents:
		rec, err = codec.EncodeEvent(run.Event{ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(env+id)), Environment: env, RunID: id, Sequence: 1, At: at,
			Data: run.Created{Task: "mail", Queue: "q", Priority: 2, Source: run.Source{Type: run.SourceTrigger}}})
	default:
		var partition string
		partition, err = codec.Partition(env)
		rec = storage.Record{Key: storage.Key{Collection: c, Partition: partition, ID: id}, Document: []byte(`{}`)}
	}
	require.NoError(t, err)
	return rec
}

// TestTextDoesNotDependOnTheRecords: one record or three hundred, the statement is
// the same, with the same number of parameters.
func TestTextDoesNotDependOnTheRecords(t *testing.T) {
	n, err := newNames(DefaultSchema)
	require.NoError(t, err)
	for _, k := range groupKinds {
		for _, c := range storage.Collections() {
			one, many := n.groupsOf(t, k.kind, c, 1), n.groupsOf(t, k.kind, c, 300)
			if one == nil {
				continue
			}
			// Each is rendered by itself: what is kept for a shape is not looked at.
			require.Equal(t, newStatements(n).commit(one), newStatements(n).commit(many), "%s %s", k.name, c)
			require.Len(t, commitArgs(many, ""), len(commitArgs(one, "")))
		}
	}
}

// TestParameters renders commits of random groups: texts with the same shape are
// equal, and a text uses exactly the parameters that are sent with it.
func TestParameters(t *testing.T) {
	n, err := newNames(`a"b'c {group} $9`)
	require.NoError(t, err)
	texts := map[string]string{}
	number := regexp.MustCompile(`\$[0-9]+`)
	schema, _, _ := strings.Cut(n.of(storage.Runs).name, ".")
	rapid.Check(t, func(t *rapid.T) {
		p := &txn.Plan{}
		for i := range rapid.IntRange(1, 12).Draw(t, "records") {
			c := rapid.SampledFrom(storage.Collections()).Draw(t, "collection")
			status := rapid.SampledFrom([]run.Status{run.StatusQueued, run.StatusSucceeded}).Draw(t, "status")
			rec := sampleRecord(t, c, rapid.SampledFrom([]string{"prod", "stage"}).Draw(t, "environment"), i, status)
			before := storage.Record{Key: rec.Key, Version: storage.MakeVersion(1), Document: []byte(rapid.SampledFrom([]string{`{}`, `{"value":{"payload":{"n":1}}}`}).Draw(t, "before"))}
			switch rapid.IntRange(0, 5).Draw(t, "operation") {
			case 0:
				p.Expect = append(p.Expect, txn.Expectation{Key: rec.Key})
			case 1:
				p.Expect = append(p.Expect, txn.Expectation{Key: rec.Key, Version: before.Version, Hold: rapid.Bool().Draw(t, "hold")})
			case 2:
				p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Delete, Key: rec.Key, Before: before})
			case 3:
				p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Update, Key: rec.Key, Before: before, Record: rec})
			default:
				p.Mutations = append(p.Mutations, txn.Mutation{Op: txn.Insert, Key: rec.Key, Record: rec})
			}
		}
		groups := n.groupPlan(p, make([]storage.Version, len(p.Mutations)))
		sql := newStatements(n).commit(groups)
		if seen, ok := texts[shape("commit", groups)]; ok && seen != sql {
			t.Fatalf("two texts of one shape:\n%s\n%s", seen, sql)
		}
		texts[shape("commit", groups)] = sql
		used := map[int]bool{}
		for _, p := range number.FindAllString(strings.ReplaceAll(sql, schema, ""), -1) {
			i, err := strconv.Atoi(p[1:])
			if err != nil {
				t.Fatal(err)
			}
			used[i] = true
		}
		args := commitArgs(groups, "")
		for i := range args {
			if !used[i+1] {
				t.Fatalf("parameter %d is not used in:\n%s", i+1, sql)
			}
		}
		if len(used) != len(args) {
			t.Fatalf("%d parameters are used and %d sent:\n%s", len(used), len(args), sql)
		}
	})
}

// TestShapesAreBounded makes more shapes than are kept.
func TestShapesAreBounded(t *testing.T) {
	n, err := newNames(DefaultSchema)
	require.NoError(t, err)
	s := newStatements(n)
	seen := map[string]bool{}
	for i := range 3 * maxShapes {
		var groups []*group
		for bit, c := range storage.Collections() {
			for j, kind := range []groupKind{presentGroup, absentGroup} {
				if i>>(2*bit+j)&1 == 1 {
					groups = append(groups, n.groupsOf(t, kind, c, 1)...)
				}
			}
		}
		sortGroups(groups)
		require.False(t, seen[shape("commit", groups)])
		seen[shape("commit", groups)] = true
		first := s.commit(groups)
		require.Equal(t, first, s.commit(groups))
		require.LessOrEqual(t, len(s.shapes), maxShapes)
	}
}
