package lane

import (
	"context"
	"errors"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// Ticked is what a tick did.
type Ticked struct {
	Recovered int // leases that their workers did not renew were ended; see [Lane.Recover]
	Fired     int // runs were made by schedules
	Resumed   int // runs no longer wait for a run that has ended or is gone
	Reclaimed int // slots were free whose leases are gone
	Pruned    int // runs were deleted that have been kept for Config.Retention
	Expired   int // idempotency keys were forgotten whose time is over
}

// Tick does a bounded piece of the work that time brings: what the fields of Ticked
// name. Workers tick by themselves; a process without a worker may call Tick as often
// as it likes. Any number of processes may do so at the same time: each piece is a
// transaction that looks again at what it is about to change, so nothing depends on
// there being a leader, and what one Tick does not get to is left to the next.
//
// A part that fails does not keep the others from being done. The error joins those
// of all parts, and Ticked says what was done all the same.
func (l *Lane) Tick(ctx context.Context) (Ticked, error) {
	recovered, err := l.Recover(ctx)
	fired, misfired := l.tickSchedules(ctx)
	done, rest := l.tick(ctx)
	done.Recovered, done.Fired = recovered, fired
	return done, errors.Join(err, misfired, rest)
}

// tick is Tick without lease recovery and schedules, for which workers have times of
// their own.
func (l *Lane) tick(ctx context.Context) (done Ticked, err error) {
	for _, part := range []struct {
		do    func(ctx context.Context) (int, error)
		count *int
	}{
		{l.sweepWaits, &done.Resumed},
		{l.reclaimSlots, &done.Reclaimed},
		{l.tickExpiredKeys, &done.Expired},
		{l.tickRetention, &done.Pruned},
	} {
		n, failed := part.do(ctx)
		*part.count = n
		err = errors.Join(err, failed)
	}
	return done, err
}

// ticks ticks until ctx ends: at first after a part of the interval, so that processes
// that start together do not tick together.
func (w *worker) ticks(ctx context.Context) {
	for pause(ctx, time.Duration(float64(w.cfg.TickInterval)*w.lane.source.chance())) {
		if _, err := w.lane.tick(ctx); err != nil && ctx.Err() == nil {
			if errors.Is(err, storage.ErrClosed) {
				return
			}
			w.lane.log.Warn("a tick failed in part", "worker", w.cfg.Name, "error", err)
		}
		if !pause(ctx, w.cfg.TickInterval/2) {
			return
		}
	}
}
