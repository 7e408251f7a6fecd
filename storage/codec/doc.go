// Package codec turns runs, events and the small records around them into
// documents and back, and names every record and index partition.
//
// A document is a versioned envelope:
//
//	{"codec": "run", "v": 1, "value": {…}}
//
// Encoding is strict: what it accepts is complete and legal, and a refusal is a
// [*storage.InputError] that names the field. Decoding is total and never an
// error: it says that a document is [Canonical], a [Tombstone] or [Opaque], and
// only what is canonical is ever interpreted. Both directions apply the same
// rules, so a canonical document can always be encoded again.
//
// # What makes a document opaque
//
// Anything that version 1 does not write: another codec or version, a member that
// version 1 does not know (a reader that ignored it would lose it by writing the
// run back), a member that occurs twice or has another type, a value outside its
// set or range, a run that no history of events leads to (a lease without a
// worker, a due time on a run that has ended), an identity that is not the one in
// the record's key. Order, space and the spelling of strings and numbers do not
// matter: a database may change them.
//
// # Times
//
// Times are UTC, in the years 1970 to 9999, floored to microseconds, in the format
// [storage.TimeFormat]. A time relative to the commit (see [run.AtCommit]) becomes
// the mark [storage.CommitTime] or [storage.CommitTimeLater]; a record has one
// Later, so its relative times have at most one distance other than zero.
package codec
