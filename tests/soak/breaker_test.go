package soak_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/tests/wire"
)

// soaked is how the server knows the driver's connections.
const soaked = "soaked"

// breaker breaks something every one to three seconds.
type breaker struct {
	*world
	rng   *rand.Rand
	done  map[string]int
	shots []*wire.Shot
}

func (b *breaker) work(ctx context.Context) {
	kinds := []struct {
		name   string
		weight int
		do     func(ctx context.Context) error
	}{
		{"connection cut", 8, func(context.Context) error { return b.arm(wire.Cut) }},
		{"connection half open", 8, func(context.Context) error { return b.arm(wire.HalfOpen) }},
		{"message delayed", 4, func(context.Context) error { return b.arm(wire.Pause) }},
		{"backend ended", 8, func(ctx context.Context) error { return b.signal(ctx, "pg_terminate_backend") }},
		{"statement cancelled", 8, func(ctx context.Context) error { return b.signal(ctx, "pg_cancel_backend") }},
		{"table locked", 3, b.lockTable},
		{"all connections cut", 2, func(context.Context) error { b.faults.Strike(wire.Cut); return nil }},
		{"server restarted", 1, b.restart},
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	for {
		b.drop()
		select {
		case <-ctx.Done():
			b.faults.Rewind()
			b.drop()
			return
		case <-time.After(time.Second + time.Duration(b.rng.IntN(2000))*time.Millisecond): // the pace of the faults
		}
		at := b.rng.IntN(sum)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				if err := k.do(ctx); ctx.Err() == nil && assert.NoError(b, err, k.name) {
					b.done[k.name]++
				}
				break
			}
		}
	}
}

// arm lets a connection break, or a message wait, at any message of what comes next.
func (b *breaker) arm(action wire.Action) error {
	f := wire.Fault{Action: action, Direction: wire.ToServer, Message: b.rng.IntN(40)}
	if b.rng.IntN(2) == 0 {
		f.Direction = wire.ToClient
	}
	if action == wire.Pause {
		f.Delay = time.Duration(b.rng.IntN(3000)) * time.Millisecond
	}
	b.shots = append(b.shots, b.faults.Arm(f))
	return nil
}

// drop lets the server hear of the half-open connections, as its keepalives would.
func (b *breaker) drop() {
	for _, s := range b.shots {
		if s.HasStruck() && s.Fault().Action == wire.HalfOpen {
			s.Drop()
		}
	}
	b.shots = slices.DeleteFunc(b.shots, (*wire.Shot).HasStruck)
}

// signal calls a function of the server on one of the driver's backends at work.
func (b *breaker) signal(ctx context.Context, function string) error {
	_, err := b.side.Exec(ctx, "SELECT "+function+`(pid) FROM pg_stat_activity
WHERE application_name = $1 AND state <> 'idle' ORDER BY random() LIMIT 1`, soaked)
	return err
}

// lockTable holds a table for longer than a transaction waits for a lock.
func (b *breaker) lockTable(ctx context.Context) error {
	_, err := b.side.Exec(ctx, `BEGIN; LOCK TABLE runlane.runlane_record_singleton_owners IN SHARE MODE; SELECT pg_sleep(2.5); COMMIT`, pgx.QueryExecModeSimpleProtocol)
	return err
}

// restart lets the server crash and come back.
func (b *breaker) restart(context.Context) error {
	err := b.cluster.Restart(context.WithoutCancel(b.Context()), pgtest.Immediate)
	b.side.Reset()
	return err
}
