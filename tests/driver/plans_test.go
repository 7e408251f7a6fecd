package driver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/rawsql"
	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// TestPlans makes the driver send every statement that it has, plans each for values
// that are not known (force_generic_plan), and walks the whole plan: no table is
// scanned from end to end, and what is scanned is scanned by the index that the
// header of the SQL file names. It does so on tables where one environment, one
// queue and one run have nearly everything, once analyzed and once when the server
// knows nothing of them yet but their size.
func TestPlans(t *testing.T) {
	for _, store := range []string{"a skewed store", "a store without statistics"} {
		t.Run(store, func(t *testing.T) {
			var lose responses
			l := newLab(t, postgres.Config{CommitTimeout: 300 * time.Millisecond}, lose.from)
			l.skew()
			if store == "a skewed store" {
				l.exec("VACUUM ANALYZE")
			}
			l.sendEverything(&lose)
			l.planEverything()
		})
	}
}

// TestPlansAreKept: the statements that find rows by their keys are planned for any
// number of rows, not anew for each call.
func TestPlansAreKept(t *testing.T) {
	l := newLab(t, postgres.Config{}, func(c *pgxpool.Config) { c.MaxConns = 1 })
	kept := plain(slot("kept"))
	l.transact(creates(kept))
	for i := range 20 {
		l.transact(steps(replaces(kept), creates(plain(slot(fmt.Sprint(i))))))
	}
	rows, err := l.pool.Query(t.Context(), `SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%runlane_record_queue_slots%'`)
	require.NoError(t, err)
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var (
			sql             string
			generic, custom int64
		)
		require.NoError(t, rows.Scan(&sql, &generic, &custom))
		require.Zero(t, custom, sql)
		require.Positive(t, generic, sql)
	}
	require.NoError(t, rows.Err())
	require.GreaterOrEqual(t, n, 3, "a read, a creation, and both with a replacement")
}

// planEverything plans what has been sent.
func (l *lab) planEverything() {
	l.Helper()
	conn, err := l.side.Acquire(l.Context())
	require.NoError(l, err)
	defer conn.Release()
	_, err = conn.Exec(l.Context(), "SET plan_cache_mode = force_generic_plan")
	require.NoError(l, err)

	files := sqlFiles(l.T)
	planned, seen := map[string]bool{}, map[string]bool{}
	all := l.tap.take()
	settings := all[slices.IndexFunc(all, func(s sent) bool { return s.kind() == "settings" })]
	for _, s := range all {
		if planned[s.sql] || !strings.Contains(strings.ReplaceAll(s.sql, "runlane_record_versions", ""), `"runlane"."runlane_r`) {
			continue
		}
		planned[s.sql] = true
		p := plan{T: l.T, sql: s.sql, used: map[string]bool{}, wanted: map[string]bool{}}
		for _, f := range files {
			seen[f.name] = seen[f.name] || f.pattern.MatchString(s.sql)
			for _, index := range f.indexesIn(s.sql) {
				p.wanted[index] = true
			}
		}
		if strings.HasPrefix(s.sql, `SELECT "`) {
			p.generated(s.sql)
		}
		require.NotEmpty(l, p.wanted, "no SQL file explains this statement:\n%s", s.sql)

		name := fmt.Sprintf("plan_%d", len(planned))
		prepared, err := conn.Conn().Prepare(l.Context(), name, s.sql)
		require.NoError(l, err, s.sql)
		values := strings.TrimSuffix(strings.Repeat("NULL, ", len(prepared.ParamOIDs)), ", ")
		if values != "" {
			values = "(" + values + ")"
		}
		_, err = conn.Exec(l.Context(), "BEGIN")
		require.NoError(l, err)
		if kind := s.kind(); kind == "commit" || kind == "append" { // these follow the settings of their transaction
			_, err = conn.Exec(l.Context(), settings.sql, settings.args...)
			require.NoError(l, err)
			_, err = conn.Exec(l.Context(), "SELECT set_config('runlane.busy', '', true)") // or a shared one of its locks
			require.NoError(l, err)
		}
		var text []byte
		require.NoError(l, conn.QueryRow(l.Context(), "EXPLAIN (FORMAT JSON) EXECUTE "+name+values).Scan(&text))
		_, err = conn.Exec(l.Context(), "ROLLBACK")
		require.NoError(l, err)
		var tree []struct{ Plan node }
		require.NoError(l, json.Unmarshal(text, &tree))
		p.walk(tree[0].Plan)
		for index := range p.wanted {
			assert.True(l, p.used[index], "%s is not used, but %v, by:\n%s", index, p.used, s.sql)
		}
		_, err = conn.Exec(l.Context(), "DEALLOCATE "+name)
		require.NoError(l, err)
	}
	for _, f := range files {
		assert.True(l, seen[f.name] || f.indexes == "", "%s.sql names an index, and no statement was made from it", f.name)
	}
}

// node is one node of a plan.
type node struct {
	Type     string `json:"Node Type"`
	Alias    string
	Relation string   `json:"Relation Name"`
	Index    string   `json:"Index Name"`
	Cond     string   `json:"Index Cond"`
	Arbiters []string `json:"Conflict Arbiter Indexes"`
	Plans    []node
}

// plan is the plan of one statement.
type plan struct {
	*testing.T
	sql    string
	wanted map[string]bool // by the headers of the files
	used   map[string]bool
}

func (p *plan) walk(n node) {
	p.Helper()
	ours := strings.HasPrefix(n.Relation, "runlane_") || strings.HasPrefix(n.Index, "runlane_")
	switch {
	case n.Type == "ModifyTable":
		for _, index := range n.Arbiters {
			p.used[index] = true
		}
	case n.Type == "Bitmap Heap Scan", n.Type == "Tid Scan": // the node below, or beside, has the index
	case strings.HasSuffix(n.Type, "Scan") && ours:
		assert.NotEmpty(p, n.Index, "%s on %s by:\n%s", n.Type, n.Relation, p.sql)
		p.used[n.Index] = true
		if strings.HasSuffix(n.Index, "_pkey") {
			assert.Regexp(p, `\b(record_id|run_id)\b`, n.Cond, "%s as %s is scanned by half of its key by:\n%s", n.Index, n.Alias, p.sql)
			break
		}
		assert.True(p, p.wanted[n.Index], "%s as %s is used, and no file says so, by:\n%s", n.Index, n.Alias, p.sql)
		assert.Contains(p, n.Cond, "(", "%s is scanned from end to end by:\n%s", n.Index, p.sql)
	}
	for _, child := range n.Plans {
		p.walk(child)
	}
}

// generated says which index a generated statement, which has no file, must use.
func (p *plan) generated(sql string) {
	p.Helper()
	_, order, ordered := strings.Cut(sql, " ORDER BY ")
	switch {
	case !ordered:
		p.wanted["runlane_runs_pkey"] = true
	case strings.Contains(sql, `"status" IN (`):
		p.wanted["runlane_runs_status"] = true
	case strings.Contains(order, "created_at"):
		p.wanted["runlane_runs_created"] = true
	case strings.Contains(order, "updated_at"):
		p.wanted["runlane_runs_updated"] = true
	case strings.Contains(order, "due_at"):
		p.wanted["runlane_runs_due_at"] = true
	}
}

// sqlFile is a file of rawsql as a pattern for the statements made from it.
type sqlFile struct {
	name    string
	indexes string // what the header says
	pattern *regexp.Regexp
}

// long are the holes that take more than a line.
var long = []string{"groups", "asserts", "lookups", "refusals", "planner", "merged", "operator_columns", "document", "page", "filters"}

func sqlFiles(t *testing.T) (files []sqlFile) {
	t.Helper()
	names, err := fs.Glob(rawsql.Files, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := rawsql.Files.ReadFile(name)
		require.NoError(t, err)
		body := regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(string(text), "")
		header := regexp.MustCompile(`(?m)^-- index: (.*)$`).FindStringSubmatch(string(text))
		require.NotNil(t, header, "%s says nothing of an index", name)
		f := sqlFile{name: strings.TrimSuffix(name, ".sql"), indexes: header[1]}
		if f.indexes == "none" {
			f.indexes = ""
		}
		pattern := regexp.QuoteMeta(strings.TrimSpace(body))
		pattern = regexp.MustCompile(`\\\$[0-9]+`).ReplaceAllString(pattern, `\$[0-9]+`)
		met := map[string]bool{}
		pattern = regexp.MustCompile(`\\\{([a-z_]+)\\\}`).ReplaceAllStringFunc(pattern, func(hole string) string {
			name := strings.Trim(hole, `\{}`)
			width := `.*?`
			switch {
			case slices.Contains(long, name):
				width = `(?s:.*?)`
			case name == "key":
				width = `\w+`
			}
			if met[name] {
				return width
			}
			met[name] = true
			return "(?P<" + name + ">" + width + ")"
		})
		f.pattern = regexp.MustCompile(pattern)
		files = append(files, f)
	}
	return files
}

// indexesIn returns the indexes that the file's header asks for, once for each part
// of the statement that is made from the file.
func (f sqlFile) indexesIn(sql string) (indexes []string) {
	for _, match := range f.pattern.FindAllStringSubmatch(sql, -1) {
		hole := func(name string) string {
			if i := f.pattern.SubexpIndex(name); i >= 0 {
				return strings.Trim(match[i], `"`)
			}
			return ""
		}
		table := strings.TrimPrefix(hole("table"), `runlane"."`)
		switch {
		case f.indexes == "":
		case f.name == "document_event":
			indexes = append(indexes, "runlane_runs_pkey")
		case f.name == "append":
			indexes = append(indexes, "runlane_record_observation_heads_pkey", "runlane_record_observation_records_pkey")
		case f.name == "list_events":
			indexes = append(indexes, "runlane_runs_pkey", "runlane_record_run_events_pkey")
		case strings.HasPrefix(f.indexes, "the primary key"):
			if table != "" {
				indexes = append(indexes, table+"_pkey")
			}
		default:
			for _, word := range regexp.MustCompile(`runlane_\w+|\{index\}`).FindAllString(f.indexes, -1) {
				if word == "{index}" { // a fragment of the file names it, if the file does not
					if word = strings.TrimSuffix(hole("index_partition"), "_partition"); word == "" {
						continue
					}
					word = "runlane_" + word
				}
				indexes = append(indexes, word)
			}
		}
	}
	return indexes
}

// skew fills the tables: nearly everything belongs to one environment, most runs
// are over, one run has a third of all events. The server does not analyze them by itself.
func (l *lab) skew() {
	l.Helper()
	for _, c := range storage.Collections() {
		l.exec("ALTER TABLE runlane." + postgres.TableName(c) + " SET (autovacuum_enabled = false)")
	}
	l.exec(`INSERT INTO runlane.runlane_runs (environment_key, run_id, record_version, record_document, record_payload,
  task, queue, status, priority, created_at, updated_at, due_at, singleton_key,
  runs_by_due_partition, runs_by_due_sort, runs_by_lease_expiry_partition, runs_by_lease_expiry_sort,
  runs_waiting_for_completion_partition, runs_waiting_for_completion_sort, runs_by_retention_partition, runs_by_retention_sort)
SELECT e, '$r-' || i || '!', i, '{"codec": "run"}', CASE WHEN i % 10 = 0 THEN '1'::jsonb END,
  'mail', 'default', CASE WHEN i % 100 = 0 THEN 'queued' WHEN i % 100 = 1 THEN 'running' WHEN i % 100 = 2 THEN 'waiting' ELSE 'succeeded' END, 2,
  now() - i * interval '1 second', now() - i * interval '1 second', CASE WHEN i % 100 = 0 THEN now() END, CASE WHEN i % 1000 = 0 THEN i::text END,
  CASE WHEN i % 100 = 0 THEN e || '$default!' END, CASE WHEN i % 100 = 0 THEN '@' || i END,
  CASE WHEN i % 100 = 1 THEN e END, CASE WHEN i % 100 = 1 THEN '@' || i END,
  CASE WHEN i % 100 = 2 THEN e || '$r-1!' END, CASE WHEN i % 100 = 2 THEN '@' || i END,
  CASE WHEN i % 100 > 2 THEN e END, CASE WHEN i % 100 > 2 THEN '@' || i END
FROM generate_series(1, 30000) i, LATERAL (SELECT CASE WHEN i % 500 = 0 THEN '$small!' ELSE '$prod!' END AS e) x`)
	l.exec(`INSERT INTO runlane.runlane_record_run_events (environment_key, record_id, record_version, record_document, payload_from_run,
  sequence_index_native, run_id, sequence, event_type, occurred_at, run_events_by_sequence_partition, run_events_by_sequence_sort)
SELECT e, '%' || i, i, '{"codec": "event", "value": {"event": {}}}', n AND i > 15000 AND i % 10 = 0, n, CASE WHEN n THEN r END, CASE WHEN n THEN s END,
  CASE WHEN n THEN 'run.created' END, CASE WHEN n THEN now() - i * interval '1 second' END,
  CASE WHEN NOT n THEN e || r END, CASE WHEN NOT n THEN '#' || s END
FROM generate_series(1, 45000) i, LATERAL (SELECT CASE WHEN i % 500 = 0 THEN '$small!' ELSE '$prod!' END AS e, i % 50 <> 0 AS n,
  CASE WHEN i <= 15000 THEN '$r-1!' ELSE '$r-' || i - 15000 || '!' END AS r, CASE WHEN i <= 15000 THEN i ELSE 1 END AS s) x`)
	for _, c := range storage.Collections()[2:] {
		table := "runlane." + postgres.TableName(c)
		l.exec("INSERT INTO " + table + ` (partition_key, record_id, record_version, record_document)
SELECT CASE WHEN i % 500 = 0 THEN '$small!' ELSE '$prod!' END, '$' || i || '!', i, '{}' FROM generate_series(1, 5000) i`)
		for _, ix := range storage.IndexesOn(c) {
			name := storage.SnakeCase(ix.String())
			l.exec(fmt.Sprintf("UPDATE %s SET %[2]s_partition = partition_key, %[2]s_sort = '@' || record_version WHERE record_version %% 10 <> 0", table, name))
		}
	}
}

// sendEverything makes the driver send every statement that is made from a file
// that names an index.
func (l *lab) sendEverything(lose *responses) {
	l.Helper()
	for _, ix := range storage.Indexes() {
		for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
			for _, lock := range []storage.Lock{storage.Candidates, storage.Exclusive} {
				l.transact(queries(storage.Query{Index: ix, Partition: tuple("prod", "none"), Direction: direction, Lock: lock}))
			}
		}
	}
	for _, c := range storage.Collections() {
		watched, kept, gone := item(c, "watched"), item(c, "kept"), item(c, "gone")
		l.transact(creates(plain(watched), plain(kept), plain(gone)))
		remove := func(ctx context.Context, tx storage.Tx) error { return tx.Delete(ctx, gone) }
		l.transact(steps(reads(watched, kept, gone, item(c, "absent")), writes(plain(kept)), remove))
		l.transact(steps(reads(watched, item(c, "absent")), now))
	}
	l.sendShared()
	r, recs := newRun(l.T, "shared", `{"n":1}`)
	l.transact(creates(recs...))
	l.transact(func(ctx context.Context, tx storage.Tx) error {
		return replaceRun(ctx, tx, recs[0].Key, func(r *run.Run) { r.Payload = []byte(`2`) })
	})
	stream, err := codec.ObservationHeadKey("prod", "s")
	require.NoError(l, err)
	for _, lost := range []bool{false, true} { // the first time prepares the statements
		commit := l.transact(func(ctx context.Context, tx storage.Tx) error {
			require.NoError(l, tx.Append(ctx, stream, []byte(`1`)))
			lose.lost.Store(lost)
			return tx.Create(ctx, plain(slot(uuid.NewString())))
		})
		require.Equal(l, lost, commit.Time.IsZero(), "of a lost answer the time is not known")
	}

	for _, direction := range []storage.Direction{storage.Ascending, storage.Descending} {
		for _, sort := range []storage.RunSort{storage.SortCreated, storage.SortUpdated, storage.SortDue} {
			for _, full := range []bool{false, true} {
				filter := storage.RunFilter{Environment: "prod", Sort: sort, Direction: direction, Limit: 1, Full: full}
				page, err := l.d.ListRuns(l.Context(), filter)
				require.NoError(l, err)
				filter.Cursor = page.Next
				_, err = l.d.ListRuns(l.Context(), filter)
				require.NoError(l, err)
			}
		}
		_, err := l.d.ListRuns(l.Context(), storage.RunFilter{Environment: "prod", Statuses: []run.Status{run.StatusQueued}, Direction: direction})
		require.NoError(l, err)
		for _, filter := range []storage.EventFilter{
			{Environment: "prod", RunID: r.ID, Direction: direction},
			{Environment: "prod", RunID: r.ID, Sort: storage.SortOccurred, Direction: direction},
			{Environment: "prod", Sort: storage.SortOccurred, Direction: direction},
			{Environment: "prod", Sort: storage.SortOccurred, Direction: direction, Types: []run.EventType{run.TypeCreated, run.TypeFailed}},
		} {
			_, err := l.d.ListEvents(l.Context(), filter)
			require.NoError(l, err)
		}
	}
	for _, tasks := range [][]string{nil, {"mail"}} {
		_, err := l.d.CountRuns(l.Context(), storage.RunFilter{Environment: "prod", Tasks: tasks, Created: storage.TimeRange{From: time.Unix(0, 0)}}, 0)
		require.NoError(l, err)
	}
	_, found, err := l.d.GetRun(l.Context(), "prod", r.ID)
	require.NoError(l, err)
	require.True(l, found)
}

// sendShared has two commits share a transaction that does everything to all
// collections.
func (l *lab) sendShared() {
	l.Helper()
	var all []callbackFunc
	for _, c := range storage.Collections() {
		kept, gone := item(c, "kept by a shared commit"), item(c, "deleted by a shared commit")
		l.transact(creates(plain(kept), plain(gone)))
		all = append(all, reads(item(c, "watched"), kept, gone, item(c, "absent")), writes(plain(kept)), creates(plain(item(c, "created by a shared commit"))))
		if c != storage.Runs { // the payload of a run that goes may have to be copied, which is not shared
			all = append(all, func(ctx context.Context, tx storage.Tx) error { return tx.Delete(ctx, gone) })
		}
	}
	tr := jammed(l)
	tr.join(steps(all...))
	tr.join(creates(plain(slot("beside"))))
	for _, r := range tr.flow() {
		require.NoError(l, r.err)
	}
	trips, together := tr.shared()
	require.Equal(l, []int64{1, 2}, []int64{trips, together})
}

// responses can be lost: what the server answers to the next thing that is sent
// never arrives.
type responses struct{ lost atomic.Bool }

func (r *responses) from(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &deafConn{conn, r}, err
	}
}

type deafConn struct {
	net.Conn
	lose *responses
}

func (c *deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.lose.lost.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}
