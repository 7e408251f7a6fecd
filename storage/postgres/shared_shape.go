package postgres

import (
	"fmt"
	"strings"

	"github.com/seed4391e180/runlane/storage/keys"
)

// merged puts the groups of several commits together: one group for each collection
// and operation, in which each row says whose it is and in which environment. The
// groups of single commits are left as they are.
func merged(commits [][]*group) []*group {
	var all []*group
	byID := make(map[groupID]*group)
	for member, groups := range commits {
		for _, g := range groups {
			id := groupID{kind: g.kind, collection: g.collection}
			m := byID[id]
			if m == nil {
				m = newGroup(id)
				byID[id], all = m, append(all, m)
			}
			m.join(g, int32(member)) //nolint:gosec // few commits share a transaction
		}
	}
	sortGroups(all)
	return all
}

// join adds the rows of a commit's group.
func (g *group) join(o *group, member int32) {
	for range o.keys {
		g.environments, g.members = append(g.environments, o.partition), append(g.members, member)
	}
	g.keys = append(g.keys, o.keys...)
	g.versions, g.fences = append(g.versions, o.versions...), append(g.fences, o.fences...)
	g.docs, g.later = append(g.docs, o.docs...), append(g.later, o.later...)
	for ix, p := range g.pairs {
		p.partitions, p.sorts = append(p.partitions, o.pairs[ix].partitions...), append(p.sorts, o.pairs[ix].sorts...)
	}
	g.payloads, g.canonical = append(g.payloads, o.payloads...), append(g.canonical, o.canonical...)
	g.kept = append(g.kept, o.kept...)
	g.runIDs, g.native, g.shared = append(g.runIDs, o.runIDs...), append(g.native, o.native...), append(g.shared, o.shared...)
}

// sharedCommit is the one statement of a transaction that several commits share.
func (s *statements) sharedCommit(groups []*group) string {
	return s.shape(shape("shared", groups), func() string {
		w := &sharedWriter{commitWriter: commitWriter{names: s.names, offset: 1, after: notRefused}}
		return w.statement(groups)
	})
}

// sharedArgs are the parameters of a shared commit.
func sharedArgs(groups []*group, deadline string) []any {
	args := []any{deadline}
	for _, g := range groups {
		args = append(args, g.args()...)
	}
	return args
}

// notRefused is true of a row u that may be written.
const notRefused = "u.member <> ALL (ARRAY(SELECT f.member FROM refused f))"

// sharedWriter writes the statement of a shared commit group by group.
type sharedWriter struct {
	commitWriter
	lookups  []string // what is looked at before anything is written
	refusals []string // queries of the commits that are refused, and the codes of why
}

func (w *sharedWriter) statement(groups []*group) string {
	w.refusals = []string{fragment("shared_busy")}
	w.asserts = []string{w.names.assert + "(clock.at < $1::text::timestamptz, '" + deadlineCode + "')"}
	for i, g := range groups {
		w.group(groupLabel(i), g)
	}
	return fill(fragment("shared_commit"), holes{
		"time_text": timeText("c.at"), "time_key": keys.SQLTime("c.at"), "lookups": strings.Join(w.lookups, ",\n"),
		"refusals": strings.Join(w.refusals, "\n  UNION ALL\n  "), "groups": strings.Join(w.ctes, ",\n"), "asserts": ",\n  " + strings.Join(w.asserts, ",\n  "),
	})
}

func (w *sharedWriter) group(label string, g *group) {
	text, h := w.text(label, g)
	h["environment"] = "u.environment"
	h["arrays"] += fmt.Sprintf(", $%d::text[], $%d::int[]", w.offset+1, w.offset+len(g.args()))
	h["names"] += ", environment, member"
	written := func(file string) string { return fill(renumber(fragment(file), w.offset), h) }
	switch g.kind {
	case presentGroup:
		w.lookups = append(w.lookups, written("shared_present"))
	case absentGroup:
		w.lookups = append(w.lookups, written("shared_absent"))
	default:
		refusal := "shared_gone"
		if g.kind == insertGroup {
			refusal = "shared_taken"
		}
		before, write, _ := strings.Cut(fill(renumber(text, w.offset), h), "\n"+label+" AS (")
		w.lookups = append(w.lookups, before+"\n"+written(refusal))
		w.ctes = append(w.ctes, label+" AS ("+write)
		w.after = notRefused + " AND (SELECT count(*) FROM " + label + ") >= 0"
		w.asserts = append(w.asserts, fmt.Sprintf("%s((SELECT count(*) FROM %s) = (SELECT count(*) FROM %s_rows u WHERE %s), '%s')", w.names.assert, label, label, notRefused, label))
	}
	w.refusals = append(w.refusals, fmt.Sprintf("SELECT %s_refused.member, '%s'::text FROM %s_refused", label, label, label))
	w.offset += len(g.args())
}
