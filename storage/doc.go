// Package storage is the contract between durable runs and where they are kept.
// It names no database: storage/postgres implements it for production,
// storage/memory for tests, and storage/storagetest proves any driver.
//
// # Records
//
// A [Record] is a JSON document under a [Key], with a [Version] and entries in
// named indexes. Keys and sort values are texts made by package keys, whose byte
// order is the order of what they encode. Collections and indexes are closed sets:
// [Collections] and [Indexes]. What the documents of runs and events look like is
// the business of package codec; a driver keeps any document.
//
// # Transactions
//
// [Transactor].Transact runs a callback and commits what it staged, all or nothing.
// The callback reads optimistically: nothing is locked while it runs, and the commit
// goes through only if everything that was read is still as it was seen, absence
// included. Otherwise the callback runs again. So concurrent transactions behave as
// if they had run one after the other, and a callback must be fit to run twice.
//
//   - [Tx].Get and GetMany read and depend on what they saw; Peek reads without.
//   - Assume offers what was read earlier, so that finishing a claimed run takes one
//     round trip.
//   - Query pages through a named index. Its candidates are no dependencies. With
//     Lock: [Exclusive] it locks exactly the page it returns, passing over what
//     others hold: the way to claim work.
//   - Create, Replace and Delete stage writes. A create may be blind; a collision is
//     a conflict, and the replay reports [ErrRecordExists].
//   - Now locks what was read, checks it, and reads the database's clock. Where the
//     time of the commit will do, write [CommitTime]: it costs nothing.
//   - Wake sends a hint with the commit. Hints may be lost; polling guarantees the work.
//
// # Errors
//
// Errors are matched with errors.Is and errors.As, never by text; [Retryable] tells
// which are worth another try. An error of the callback comes back as it is.
// Input is refused before anything is sent, with an [*InputError] that names the
// place and the limit; [DefaultLimits] lists the limits.
//
// # Operator reads
//
// [Operator] answers people's questions about runs: one run, lists with filters and
// keyset cursors, histories, counts. Drivers keep what these need in step with the
// records, in the same commit. [PlanRuns], [PlanEvents] and [PlanCounts] say what a read
// costs, and which are refused because only a look at every run could answer them.
package storage
