package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/seed4391e180/runlane/rawsql"
	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

// holes are what the words in braces of a SQL file are replaced with.
type holes map[string]string

// fragment is the text of a file of rawsql without its header comment.
func fragment(name string) string {
	text, err := rawsql.Files.ReadFile(name + ".sql")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	lines := strings.Split(string(text), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
		lines = lines[1:]
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// fill fills the holes of a text, in one pass: what goes into a hole is not
// looked at again.
func fill(text string, h holes) string {
	pairs := make([]string, 0, 2*len(h))
	for hole, with := range h {
		pairs = append(pairs, "{"+hole+"}", with)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// renumber adds an offset to the parameters of a fragment.
func renumber(text string, offset int) string {
	if offset == 0 {
		return text
	}
	return parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		return "$" + strconv.Itoa(n+offset)
	})
}

// timeText is SQL for a timestamptz as it stands in documents, see storage.TimeFormat.
func timeText(expr string) string {
	return "to_char((" + expr + ") AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
}

// laterThan is SQL for the commit time plus the row's offset. The offset is exact:
// it is far below 2^53 microseconds.
const laterThan = "clock.at + u.later::float8 * interval '1 microsecond'"

// filledDocument is SQL for a document whose marks are replaced by times.
var filledDocument = marksReplaced("u.document_text", "clock.text", timeText(laterThan)) + "::jsonb"

// filledPayload is filledDocument for a run's payload; "" is none.
var filledPayload = marksReplaced("nullif(u.payload, '')", "clock.text", timeText(laterThan)) + "::jsonb"

// filledSort is SQL for a sort value whose marks are replaced by encoded times.
func filledSort(column string) string {
	return marksReplaced("nullif("+column+", '')", "clock.key", keys.SQLTime(laterThan))
}

func marksReplaced(text, at, later string) string {
	return "replace(replace(" + text + `, E'\x01', ` + at + `), E'\x02', CASE WHEN u.later = 0 THEN ` + at + " ELSE " + later + " END)"
}

// justAfterNow is SQL for the encoded time behind every entry up to the clock.
var justAfterNow = keys.SQLTime("clock.at + interval '1 microsecond'")

// statements renders and keeps the statements of one schema. Their number is
// bounded by the shapes of commits that a program makes; should a program make
// more than maxShapes, all are forgotten and rendered again when they occur.
type statements struct {
	names *names

	settings, planner, settingsJoined, lockTry, lockWait, versions, clock, notify string
	commitEnded, appended, append                                                 string
	sharedLockTry, sharedNotify                                                   string

	mu     sync.Mutex
	shapes map[string]string
}

const maxShapes = 1024

func newStatements(n *names) *statements {
	common := holes{"assert": n.assert, "versions": n.versions, "planner": fragment("planner")}
	text := func(name string) string { return fill(fragment(name), common) }
	heads, records := n.of(storage.ObservationHeads), n.of(storage.ObservationRecords)
	common["heads"], common["records"] = heads.name, records.name
	common["index_partition"], common["sort"] = indexColumns(storage.ObservationsByPosition)
	common["time_text"], common["position_key"] = timeText("c.at"), keys.SQLInt("h.last + i.place")
	return &statements{
		names: n, shapes: make(map[string]string),
		settings: text("settings"), planner: "SELECT " + fragment("planner"), settingsJoined: text("settings_joined"), lockTry: text("lock_try"), lockWait: text("lock_wait"),
		versions: text("versions"), clock: text("clock"), notify: text("notify"),
		commitEnded: text("commit_ended"), appended: text("appended"), append: text("append"),
		sharedLockTry: text("shared_lock_try"), sharedNotify: text("shared_notify"),
	}
}

// shape returns the statement of a shape, rendering it once.
func (s *statements) shape(key string, render func() string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.shapes[key]
	if !ok {
		if len(s.shapes) >= maxShapes {
			clear(s.shapes)
		}
		text = render()
		s.shapes[key] = text
	}
	return text
}

// What a point read fetches.
const (
	wholeRecords = "lookup"
	versionsOnly = "versions" // no documents
)

// lookup is the statement of a point read with one arm for each collection and
// environment, in one snapshot.
func (s *statements) lookup(arms []storage.Collection, what string) string {
	return s.shape(what+ordinals(arms), func() string {
		texts := make([]string, len(arms))
		for i, c := range arms {
			t := s.names.of(c)
			document := t.document
			if what == versionsOnly {
				document = "NULL::jsonb"
			}
			texts[i] = fill(renumber(fragment("lookup"), 2*i), holes{
				"ordinal": strconv.Itoa(c.Ordinal()), "table": t.name, "partition": t.partition, "id": t.id, "document": document,
			})
		}
		return strings.Join(texts, "\nUNION ALL\n")
	})
}

func ordinals(cs []storage.Collection) string {
	b := make([]byte, len(cs))
	for i, c := range cs {
		b[i] = 'A' + byte(c.Ordinal())
	}
	return string(b)
}

// query is the statement of one page.
func (s *statements) query(q storage.Query) string {
	return s.shape(fmt.Sprintf("query %s %d %d", q.Index, q.Direction, q.Lock), func() string {
		t := s.names.of(q.Index.On())
		partition, sort := indexColumns(q.Index)
		h := holes{
			"table": t.name, "partition": t.partition, "id": t.id, "document": t.document,
			"index": IndexName(q.Index), "index_partition": partition, "sort": sort, "just_after_now": justAfterNow,
			"direction": "ASC", "beyond": ">", "native_sort": keys.SQLInt("r.sequence"),
		}
		if q.Direction == storage.Descending {
			h["direction"], h["beyond"] = "DESC", "<"
		}
		name := "query"
		if q.Index == storage.RunEventsBySequence {
			name = "query_events"
			h["merged"] = fill(fragment("merged_events"), h)
		}
		if q.Lock == storage.Exclusive {
			name += "_exclusive"
		}
		return fill(fragment(name), h)
	})
}
