package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

const (
	counters = 40
	streams  = 4
	env      = "soak"
)

// What a client knows of one of its effects.
const (
	absent  = byte('-') // it was told that nothing happened, for good
	present = byte('+')
	unknown = byte('?')
)

// client does one effect after the other. An effect is a record of its own, and with
// it either one more in a shared counter or one more item in a shared stream. It is
// tried until it is done or its outcome is unknown.
type client struct {
	*world
	number  int
	rng     *rand.Rand
	effects []byte // what is known of each
	tally
}

// tally is what a client went through.
type tally struct {
	commits, attempts, retries, unknown int
	took                                []time.Duration // of a sample of the commits
}

func (t *tally) add(u *tally) {
	t.commits, t.attempts, t.retries, t.unknown = t.commits+u.commits, t.attempts+u.attempts, t.retries+u.retries, t.unknown+u.unknown
	t.took = append(t.took, u.took...)
}

// record adds a commit. Of many it keeps only a sample, so that it does not grow itself.
func (t *tally) record(commit storage.Commit, took time.Duration, rng *rand.Rand) {
	const sample = 4096
	t.commits, t.attempts = t.commits+1, t.attempts+commit.Attempts
	if len(t.took) < sample {
		t.took = append(t.took, took)
	} else if i := rng.IntN(t.commits); i < sample {
		t.took[i] = took
	}
}

func (t *tally) quantile(q float64) time.Duration { return t.took[int(q*float64(len(t.took)-1))] }

func (c *client) work(ctx context.Context) {
	for ctx.Err() == nil && !c.Failed() {
		c.effects = append(c.effects, c.effect(ctx))
	}
}

// effect does the next effect, and says what is known of it.
func (c *client) effect(ctx context.Context) byte {
	fn := c.increment(c.rng.IntN(counters))
	if c.rng.IntN(3) == 0 {
		fn = c.append(c.rng.IntN(streams))
	}
	for {
		began := time.Now()
		commit, err := c.driver.Transact(ctx, "soak", fn)
		switch {
		case err == nil:
			c.record(commit, time.Since(began), c.rng)
			return present
		case errors.Is(err, storage.ErrCommitUnknown):
			if ctx.Err() == nil { // when the time is over, nobody waits for the look-up
				c.unknown++
			}
			return unknown
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return absent
		case !storage.Retryable(err):
			assert.NoError(c, err)
			return absent
		}
		c.retries++
	}
}

// increment adds one to a counter, beside the effect's record.
func (c *client) increment(i int) func(ctx context.Context, tx storage.Tx) error {
	effect := effectRecord(c.number, len(c.effects), fmt.Sprintf(`{"counter": %d}`, i))
	return func(ctx context.Context, tx storage.Tx) error {
		rec, _, err := tx.Get(ctx, counterKey(i))
		if err != nil {
			return err
		}
		rec.Document = fmt.Appendf(nil, `{"n": %d}`, numberIn(rec)+1)
		return errors.Join(tx.Replace(ctx, rec), tx.Create(ctx, effect))
	}
}

// append adds an item that names the effect to a stream, beside the effect's record.
func (c *client) append(i int) func(ctx context.Context, tx storage.Tx) error {
	effect := effectRecord(c.number, len(c.effects), fmt.Sprintf(`{"stream": %d}`, i))
	item := fmt.Appendf(nil, `"%d/%d"`, c.number, len(c.effects))
	return func(ctx context.Context, tx storage.Tx) error {
		return errors.Join(tx.Create(ctx, effect), tx.Append(ctx, streamKey(i), item))
	}
}

// begin stores the counters.
func (w *world) begin() {
	_, err := w.driver.Transact(w.Context(), "begin", func(ctx context.Context, tx storage.Tx) error {
		for i := range counters {
			if err := tx.Create(ctx, storage.Record{Key: counterKey(i), Document: []byte(`{"n": 0}`)}); err != nil {
				return err
			}
		}
		return nil
	})
	assert.NoError(w, err)
}

func effectRecord(client, n int, document string) storage.Record {
	key, err := codec.ScheduleCursorKey(env, fmt.Sprintf("effect/%d/%d", client, n))
	return storage.Record{Key: must(key, err), Document: []byte(document)}
}

func counterKey(i int) storage.Key {
	key, err := codec.SingletonKey(env, "counter", fmt.Sprint(i))
	return must(key, err)
}

func streamKey(i int) storage.Key {
	key, err := codec.ObservationHeadKey(env, fmt.Sprintf("stream %d", i))
	return must(key, err)
}

func must(key storage.Key, err error) storage.Key {
	if err != nil {
		panic(err)
	}
	return key
}

func numberIn(rec storage.Record) (n int) {
	if _, err := fmt.Sscanf(string(rec.Document), `{"n": %d}`, &n); err != nil {
		panic(fmt.Sprintf("%s is not one of ours: %v", rec.Document, err))
	}
	return n
}
