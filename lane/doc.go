// Package lane gives an application durable runs: pieces of work that are stored
// before they are done, survive crashes, are tried again when they fail, and leave
// a history of everything that happened to them. It is written against the
// contract of package storage and runs on any driver.
//
// # A tour
//
// A [Lane] is one environment in a store. [Define] gives it a task: a name, a
// handler, and what the handler takes and returns.
//
//	l, err := lane.New(store, lane.Config{Environment: "prod"})
//	welcome := lane.Define(l, "emails.welcome", func(ctx context.Context, a *lane.Attempt, p Welcome) (Receipt, error) {
//		return mailer.Send(ctx, p.UserID, a.RunID)
//	}, lane.TaskOptions{Queue: "emails"})
//
// [Task.Trigger] stores a run, durably and in one round trip, and [Lane.Work] works
// on what is due, in this process or in any number of others:
//
//	res, err := welcome.Trigger(ctx, Welcome{UserID: "u_123"})
//	err = l.Work(ctx, lane.WorkerConfig{Queues: []string{"emails"}, Concurrency: 100})
//
// [TriggerOptions] says when a run is due, how urgent it is, and which keys it
// carries: an idempotency key makes a repeated trigger return the run that is
// there already, a singleton key allows one active run. [Task.TriggerMany] stores
// many runs, [Task.TriggerIn] stores one in a transaction that the caller has open.
// [Task.Wait] waits for a result.
//
// # How an attempt ends
//
// A handler that returns a result succeeds. An error makes the run due again after
// the [Backoff] of its task, until MaxAttempts have failed; [Permanent] fails it at
// once, and [Attempt.Release] gives it back for a while without a failure. A panic
// is a failure with its stack. A handler may run more than once for one run: a
// worker can die after the work is done and before that is stored.
//
// [Attempt.WaitFor] leaves the run waiting for another run to end; it occupies no
// worker meanwhile, and its handler begins anew afterwards. An attempt that takes
// longer than its timeout is a failure.
//
// # Limits
//
// [Config.Limits] bounds how many runs of a queue, and of a concurrency key in it, are
// worked on at a time in all processes together. [Lane.PauseQueue] stops a queue.
//
// # Leases
//
// A worker claims due runs in batches, each under a lease with a token of its own,
// and holds no transaction while handlers run. It renews its leases by heartbeats
// and stores outcomes in batches too; every write proves that the run still
// carries the token. A lease that is not renewed is ended by [Lane.Recover], which
// every worker also does by itself, and the run goes to another worker. Whatever
// the first one says later is discarded.
//
// All times that decide anything are read from the store's clock. A process uses
// its own only to measure how long something takes.
//
// # Schedules and time
//
// [Schedule] makes a task run at times: [Once], [Every] so often, or by a [Cron]
// expression and a time zone. Workers fire what is due, and they tick ([Lane.Tick]):
// they end leases, resume waits that a dead process left behind, prune what has been kept
// for [Config.Retention] and forget expired keys. There is no leader.
//
// # Runs that are there
//
// [Lane.Get] reads a run, [Lane.Cancel] stops one, [Lane.Retry] and [Lane.Rerun] make
// a new one that does the work again, and [Lane.ResetKey] frees an idempotency key.
// [Lane.CancelMany] and [Lane.RetryMany] do so for all runs of a filter. [Lane.Prune]
// deletes runs that have ended.
//
// # Wakes and polls
//
// Storing a run that is due wakes the workers of its queue. A wake is a hint and
// may be lost; workers also poll, so it changes how soon a run begins and never
// whether.
package lane
