package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

var concurrency = topic{"Concurrency", []test{
	{name: "CountersCountEverything", run: countersCountEverything},
	{name: "TransfersKeepTheSum", run: transfersKeepTheSum},
	{name: "OneCreateWins", run: oneCreateWins},
	{name: "WorkIsClaimedOnce", run: workIsClaimedOnce},
	{name: "ShuffledKeysDoNotDeadlock", run: shuffledKeysDoNotDeadlock},
	{name: "ClaimsAndWritersMix", run: claimsAndWritersMix},
}}

const workers = 8

// together runs n workers and returns when all have ended. Their errors fail the test.
func (f *fixture) together(n int, work func(worker int) error) {
	f.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = work(i) })
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(f, err, "worker %d", i)
	}
}

// insist repeats a transaction for as long as the driver says that it may succeed later.
func (f *fixture) insist(body func(c *call)) (storage.Commit, error) {
	for {
		commit, err := f.try(body)
		if !storage.Retryable(err) || f.ctx.Err() != nil {
			return commit, err
		}
	}
}

func countersCountEverything(f *fixture) {
	const counters = 3
	rounds := f.rounds(40)
	key := func(i int) storage.Key { return slot(fmt.Sprint(i % counters)) }
	var mu sync.Mutex
	versions := map[storage.Version]bool{}
	f.together(workers, func(worker int) error {
		for round := range rounds {
			key := key(worker + round)
			commit, err := f.insist(func(c *call) {
				rec, found := c.get(key)
				if !found {
					c.create(number(key, 1))
					return
				}
				c.replace(number(key, numberIn(rec)+1))
			})
			if err != nil {
				return err
			}
			version := commit.Versions[key]
			mu.Lock()
			twice := versions[version]
			versions[version] = true
			mu.Unlock()
			if twice {
				return fmt.Errorf("version %d was given out twice", version.Int64())
			}
		}
		return nil
	})
	sum := 0
	f.transact(func(c *call) {
		sum = 0
		for i := range counters {
			sum += c.number(key(i))
		}
	})
	assert.Equal(f, workers*rounds, sum)
}

// transfersKeepTheSum moves amounts between accounts while others add them up.
func transfersKeepTheSum(f *fixture) {
	const accounts, each = 6, 100
	rounds := f.rounds(30)
	account := func(i int) storage.Key { return slot(fmt.Sprint(i)) }
	var all []storage.Key
	for i := range accounts {
		all = append(all, account(i))
		f.put(number(account(i), each))
	}
	audit := func(c *call, sealed bool) {
		sum := 0
		for i := range accounts {
			sum += c.number(account(i), storage.ReadOnly)
		}
		if sealed {
			c.now()
		}
		if sum != accounts*each {
			c.stop(fmt.Errorf("the sum is %d", sum))
		}
	}
	f.together(workers, func(worker int) error {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for round := range rounds {
			from, to, amount := random.IntN(accounts), random.IntN(accounts), random.IntN(50)
			if from == to {
				to = (to + 1) % accounts
			}
			_, err := f.insist(func(c *call) {
				switch {
				case worker%4 == 3:
					audit(c, round%2 == 0)
				case c.number(account(from)) >= amount:
					c.add(account(from), -amount)
					c.add(account(to), amount)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.transact(func(c *call) {
		sum := 0
		for _, rec := range c.getMany(all...) {
			c.want(numberIn(rec) >= 0, "%s is overdrawn: %s", rec.Key, rec.Document)
			sum += numberIn(rec)
		}
		c.want(sum == accounts*each, "the sum is %d", sum)
	})
}

func oneCreateWins(f *fixture) {
	for round := range f.rounds(20) {
		key := slot(fmt.Sprint(round))
		var winners, losers atomic.Int32
		var winner atomic.Int32
		f.together(workers, func(worker int) error {
			_, err := f.insist(func(c *call) { c.create(number(key, worker)) })
			switch {
			case err == nil:
				winners.Add(1)
				winner.Store(int32(worker))
			case errors.Is(err, storage.ErrRecordExists):
				losers.Add(1)
			default:
				return err
			}
			return nil
		})
		require.Equal(f, []int32{1, workers - 1}, []int32{winners.Load(), losers.Load()})
		f.holds(key, fmt.Sprintf(`{"n":%d}`, winner.Load()))
	}
}

// workIsClaimedOnce: workers claim due records until none is left, and some of them
// fail after they claimed.
func workIsClaimedOnce(f *fixture) {
	n := f.rounds(200)
	q := f.queue(n)
	q.Limit = 7
	var mu sync.Mutex
	done := map[string]int{}
	f.together(workers, func(worker int) error {
		random := rand.New(rand.NewPCG(2, uint64(worker)))
		for {
			fail := random.IntN(4) == 0
			var got []storage.Record
			more := false
			_, err := f.insist(func(c *call) {
				page := c.query(q)
				got, more = page.Records, !page.Resume.IsZero() || len(page.Records) > 0
				for _, rec := range got {
					c.replace(number(rec.Key, numberIn(rec)+1000))
				}
				if fail && len(got) > 0 {
					c.stop(errStop)
				}
			})
			if err == errStop {
				continue
			}
			if err != nil {
				return err
			}
			mu.Lock()
			for _, id := range ids(got) {
				done[id]++
			}
			mu.Unlock()
			if !more {
				return nil
			}
		}
	})
	// Whoever found nothing may have met only records that others held and then
	// gave back.
	for _, rec := range f.walk(q) {
		done[ids([]storage.Record{rec})[0]]++
		f.transact(func(c *call) { c.put(number(rec.Key, numberIn(rec)+1000)) })
	}
	assert.Len(f, done, n)
	for id, times := range done {
		assert.Equal(f, 1, times, "record %s", id)
	}
	f.transact(func(c *call) {
		for i := range n {
			c.want(c.number(keyOf(storage.Runs, fmt.Sprint(i))) == i+1000, "record %d was written more than once", i)
		}
	})
}

// shuffledKeysDoNotDeadlock: many write the same keys, each in an order of its own.
func shuffledKeysDoNotDeadlock(f *fixture) {
	const n = 40
	rounds := f.rounds(8)
	var keys []storage.Key
	for i := range n {
		keys = append(keys, slot(fmt.Sprint(i)))
	}
	f.transact(func(c *call) {
		for _, key := range keys {
			c.create(number(key, 0))
		}
	})
	f.together(4, func(worker int) error {
		random := rand.New(rand.NewPCG(3, uint64(worker)))
		for round := range rounds {
			order := random.Perm(n)
			_, err := f.insist(func(c *call) {
				for i, at := range order {
					c.add(keys[at], 1)
					if round%2 == 0 && i == n/2 {
						// After Now no other key may be read.
						for _, rest := range order[i+1:] {
							c.get(keys[rest])
						}
						c.now()
					}
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.transact(func(c *call) {
		for _, rec := range c.getMany(keys...) {
			c.want(numberIn(rec) == 4*rounds, "%s holds %s", rec.Key, rec.Document)
		}
	})
}

// claimsAndWritersMix: some take records by exclusive queries, some by key. Each adds
// one to whatever it writes, and nothing is lost.
func claimsAndWritersMix(f *fixture) {
	const n = 5
	rounds := f.rounds(30)
	q := f.queue(n)
	var written atomic.Int64
	f.together(workers, func(worker int) error {
		for round := range rounds {
			wrote := 0
			add := func(c *call, rec storage.Record) {
				id := ids([]storage.Record{rec})[0]
				c.replace(indexed(id, numberIn(rec)+1, entry(storage.RunsByDue, encode(id))))
				wrote++
			}
			_, err := f.insist(func(c *call) {
				wrote = 0
				if worker%2 == 0 {
					for _, rec := range c.claim(q, 1+round%3) {
						add(c, rec)
					}
					return
				}
				rec, found := c.get(keyOf(storage.Runs, fmt.Sprint((worker+round)%n)))
				c.want(found, "a record is gone")
				if round%3 == 0 {
					c.now()
				}
				add(c, rec)
			})
			if err != nil {
				return err
			}
			written.Add(int64(wrote))
		}
		return nil
	})
	sum := int64(0)
	for _, rec := range f.walk(storage.Query{Index: storage.RunsByDue, Partition: partitionOf()}) {
		sum += int64(numberIn(rec))
	}
	const before = n * (n - 1) / 2
	assert.Equal(f, before+written.Load(), sum)
}
