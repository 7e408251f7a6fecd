package postgres

import (
	"context"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// sharedItems bounds the items that one transaction of several appends brings.
const sharedItems = 512

// onlyAppends reports whether the commit does nothing but append, and little of it.
// Such commits depend on nothing, so several of them on one stream are as good as one
// that brings the items of all, in the order of arrival.
func (c *commit) onlyAppends() bool {
	s, p := c.session, c.plan
	return s.d.appends != nil && !s.open && s.joined == nil && c.items > 0 && c.items <= memberKeys && c.appendSize() <= memberBytes &&
		len(p.Mutations) == 0 && len(p.Expect) == 0 && len(p.Locks) == 0
}

func (c *commit) appendSize() int {
	size := 0
	for i := range c.plan.Appends {
		for _, item := range c.plan.Appends[i].Items {
			size += len(item)
		}
	}
	return size
}

// newAppends makes the batcher of appends. Those to a stream whose head a transaction
// under way has locked wait for it, and then go together; whoever waits for one stream
// is not overtaken on another.
func (d *Driver) newAppends() *batcher[*commit] {
	underWay := make(map[storage.Key]int) // how many appends to the stream are
	board := func() func(*commit, bool) boarding {
		ours, ahead := make(map[storage.Key]bool), make(map[storage.Key]bool)
		items, bytes := 0, 0
		return func(c *commit, room bool) boarding {
			size := c.appendSize()
			waits := !room || items > 0 && (items+c.items > sharedItems || bytes+size > sharedBytes)
			for i := range c.plan.Appends {
				head := c.plan.Appends[i].Head
				waits = waits || ahead[head] || underWay[head] > 0 && !ours[head]
			}
			if waits {
				for i := range c.plan.Appends {
					ahead[c.plan.Appends[i].Head] = true
				}
				return wait
			}
			for i := range c.plan.Appends {
				head := c.plan.Appends[i].Head
				ours[head] = true
				underWay[head]++
			}
			items, bytes = items+c.items, bytes+size
			return aboard
		}
	}
	land := func(c *commit) {
		for i := range c.plan.Appends {
			head := c.plan.Appends[i].Head
			if underWay[head]--; underWay[head] == 0 {
				delete(underWay, head)
			}
		}
	}
	return &batcher[*commit]{
		admit: func(*commit) bool { return true }, board: board, land: land, send: d.sendAppends,
		most: sharedCommits, free: sharedTransactions, trips: &d.calls,
	}
}

// sendAppends sends commits that only append as one commit.
func (d *Driver) sendAppends(ctx context.Context, commits []*commit) error {
	t, places := joinAppends(&session{d: d, label: "shared"}, commits)
	for _, c := range commits {
		c.fate, c.deadline = fate{trips: 1}, t.deadline
	}
	t.queue()
	lost, err := t.send(ctx)
	switch {
	case lost != nil:
		for _, c := range commits {
			c.fate.err, c.fate.lost = err, &outcome{commit: c, process: lost.process}
		}
	case err != nil && t.session.roundTrips > 0:
		return err
	case err != nil: // nothing could be sent
		for _, c := range commits {
			c.fate.err = err
		}
	default:
		for i, c := range commits {
			c.at = t.at
			for j, p := range places[i] {
				c.first[j] = t.first[p.stream] + p.offset
			}
		}
	}
	return nil
}

// place is where the items of one append are in the joined commit.
type place struct {
	stream int
	offset int64
}

// joinAppends makes one commit of several, in their order, and says where the appends
// of each are in it. Each item keeps the version that was drawn for it.
func joinAppends(s *session, commits []*commit) (*commit, [][]place) {
	t := &commit{session: s, plan: &txn.Plan{}, deadline: commits[0].deadline}
	places := make([][]place, len(commits))
	streams := make(map[storage.Key]int)
	var versions [][]storage.Version // of the items of each stream
	topics := make(map[string]bool)
	for i, c := range commits {
		rest := c.records
		for j := range c.plan.Appends {
			a := &c.plan.Appends[j]
			n, known := streams[a.Head]
			if !known {
				n = len(t.plan.Appends)
				streams[a.Head] = n
				t.plan.Appends = append(t.plan.Appends, txn.Append{Head: a.Head, Environment: a.Environment, Stream: a.Stream})
				t.heads, versions = append(t.heads, c.heads[j]), append(versions, nil)
			}
			joined := &t.plan.Appends[n]
			places[i] = append(places[i], place{stream: n, offset: int64(len(joined.Items))})
			joined.Items = append(joined.Items, a.Items...)
			versions[n], rest = append(versions[n], rest[:len(a.Items)]...), rest[len(a.Items):]
		}
		for _, topic := range c.plan.Topics {
			if !topics[topic] {
				topics[topic] = true
				t.plan.Topics = append(t.plan.Topics, topic)
			}
		}
		t.items, t.low = t.items+c.items, t.low || c.low
	}
	for _, of := range versions {
		t.records = append(t.records, of...)
	}
	t.first = make([]int64, len(t.plan.Appends))
	t.renew()
	return t, places
}
