// Package txn is the attempt engine of replayable transactions: it keeps the read
// set and the staged writes of an attempt, decides when the read set is sealed,
// turns what the callback did into a [Plan], and replays attempts that became
// stale. It knows no SQL: a [Store] does the input and output, so everything here
// is tested without a database.
//
// An attempt reads optimistically and remembers the version, or the absence, of
// everything it read. Nothing is locked before the attempt is sealed, by Now or by
// its commit; then one step locks the union of read and written keys and checks
// that what was read still holds. This is optimistic concurrency control with
// backward validation (Kung and Robinson, 1981), with the locks of the validation
// phase held to the end of the database transaction. A second attempt first takes
// the locks of the first one, so that it cannot be overtaken again by the same
// writers.
package txn
