package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
)

func sortGroups(groups []*group) {
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.collection.Ordinal(), b.collection.Ordinal()),
			strings.Compare(a.partition, b.partition))
	})
}

// groupLabel is the name of a group within its statement, and the code that its
// check fails with.
func groupLabel(i int) string { return "g" + strconv.Itoa(i+1) }

// groupAt is the group that a failed check names; nil if it names none.
func groupAt(groups []*group, code string) *group {
	i, err := strconv.Atoi(strings.TrimPrefix(code, "g"))
	if err != nil || i < 1 || i > len(groups) {
		return nil
	}
	return groups[i-1]
}

// commit is the one statement of a commit with the given groups.
func (s *statements) commit(groups []*group) string {
	return s.shape(shape("commit", groups), func() string {
		w := &commitWriter{names: s.names}
		return w.statement(groups)
	})
}

// writes reports whether any of the groups does more than look. A statement that
// writes asserts its deadline, which is its first parameter.
func writes(groups []*group) bool {
	return slices.ContainsFunc(groups, func(g *group) bool { return !g.check() })
}

// commitArgs are the parameters of a commit; the deadline counts if it writes.
func commitArgs(groups []*group, deadline string) []any {
	var args []any
	if writes(groups) {
		args = append(args, deadline)
	}
	for _, g := range groups {
		args = append(args, g.args()...)
	}
	return args
}

// commitWriter writes the statement of a commit group by group.
type commitWriter struct {
	names *names

	offset  int      // parameters so far
	ctes    []string // texts of the groups
	asserts []string
	checks  []string // labels of the groups that only look
	after   string   // the condition that makes a group wait for the one before it
}

func (w *commitWriter) statement(groups []*group) string {
	w.after = "true"
	if writes(groups) {
		w.offset = 1
		w.asserts = append(w.asserts, w.names.assert+"(clock.at < $1::text::timestamptz, '"+deadlineCode+"')")
	}
	for i, g := range groups {
		if !g.check() && len(w.checks) > 0 {
			w.closeChecks()
		}
		w.group(groupLabel(i), g)
	}
	if len(w.checks) > 0 {
		w.closeChecks()
		w.asserts = append(w.asserts, "(SELECT n FROM checked)")
	}
	var asserts strings.Builder
	for _, a := range w.asserts {
		asserts.WriteString(",\n  " + a)
	}
	return fill(fragment("commit"), holes{
		"time_text": timeText("c.at"), "time_key": keys.SQLTime("c.at"),
		"groups": strings.Join(w.ctes, ",\n"), "asserts": asserts.String(),
	})
}

// closeChecks joins the checks so far into one condition.
func (w *commitWriter) closeChecks() {
	arms := make([]string, len(w.checks))
	for i, label := range w.checks {
		arms[i] = "SELECT ok FROM " + label
	}
	w.ctes = append(w.ctes, "checked AS MATERIALIZED (SELECT count(*) AS n FROM ("+strings.Join(arms, " UNION ALL ")+") checks)")
	w.after = "(SELECT n FROM checked) >= 0"
	w.checks = nil
}

func (w *commitWriter) group(label string, g *group) {
	text, h := w.text(label, g)
	w.ctes = append(w.ctes, fill(renumber(text, w.offset), h))
	switch {
	case g.check():
		w.checks = append(w.checks, label)
	default:
		w.after = "(SELECT count(*) FROM " + label + ") >= 0"
		wanted := fmt.Sprintf("pg_catalog.cardinality($%d::text[])", w.offset+2)
		if g.kind == materializeGroup {
			wanted = "(SELECT count(*) FROM " + label + "_found)" // few runs have an event that shares their payload
		}
		w.asserts = append(w.asserts, fmt.Sprintf("%s((SELECT count(*) FROM %s) = %s, '%s')", w.names.assert, label, wanted, label))
	}
	w.offset += len(g.args())
}

// text is the SQL file of a group, and what goes into its holes.
func (w *commitWriter) text(label string, g *group) (string, holes) {
	t := w.names.of(g.collection)
	h := holes{
		"group": label, "environment": fmt.Sprintf("$%d", w.offset+1), "after": w.after,
		"assert": w.names.assert, "filled": filledDocument, "filled_payload": filledPayload,
		"table": t.name, "partition": t.partition, "id": t.id,
		"arrays": "", "names": "", "columns": "", "values": "", "assignments": "",
	}
	text, own := w.fragment(g, h)
	if g.kind > deleteGroup {
		w.pairs(g, own, h)
	}
	return text, h
}

// fragment is the SQL file of a group, and how many parameters it has before the
// pairs of named indexes.
func (w *commitWriter) fragment(g *group, h holes) (text string, own int) {
	switch g.kind {
	case presentGroup:
		return fragment("expect_present"), 3
	case heldGroup:
		return fragment("hold_present"), 3
	case absentGroup:
		return fragment("expect_absent"), 2
	case materializeGroup:
		h["table"] = w.names.of(storage.RunEvents).name
		h["runs"] = w.names.of(storage.Runs).name
		return fragment("materialize_payload"), 3
	case deleteGroup:
		return fragment("delete"), 3
	}
	operation, own := "update", 6
	if g.kind == insertGroup {
		operation, own = "insert", 5
	}
	switch g.collection {
	case storage.Runs:
		h["operator_columns"] = fragment("operator_columns_run")
		return fragment(operation + "_run"), map[string]int{"insert": 7, "update": 9}[operation]
	case storage.RunEvents:
		return fragment(operation + "_event"), 8
	}
	return fragment(operation), own
}

// pairs fills the holes for the pairs of named indexes, whose parameters come
// after the group's own.
func (w *commitWriter) pairs(g *group, own int, h holes) {
	var arrays, rowNames, columns, values, assignments strings.Builder
	for i, ix := range storage.IndexesOn(g.collection) {
		partition, sort := indexColumns(ix)
		p := own + 2*i + 1
		fmt.Fprintf(&arrays, ", $%d::text[], $%d::text[]", w.offset+p, w.offset+p+1)
		fmt.Fprintf(&rowNames, ", %s, %s", partition, sort)
		fmt.Fprintf(&columns, ", %s, %s", partition, sort)
		pv, sv := "nullif(u."+partition+", '')", filledSort("u."+sort)
		fmt.Fprintf(&values, ", %s, %s", pv, sv)
		fmt.Fprintf(&assignments, ", %s = %s, %s = %s", partition, pv, sort, sv)
	}
	h["arrays"], h["names"], h["columns"] = arrays.String(), rowNames.String(), columns.String()
	h["values"], h["assignments"] = values.String(), assignments.String()
}
