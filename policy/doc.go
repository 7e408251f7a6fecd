// Package policy is the SQL policy gate: it reads the SQL of a project, in files,
// migrations and Go, with PostgreSQL's own grammar, and refuses what coordinates
// or decides in the database behind the application's back: CHECK expressions,
// triggers, LOCK TABLE, advisory locks, SERIALIZABLE, and row locks that outlive
// their statement.
//
// What exists already is listed in a policy file, one line each. The list only
// shrinks: what is not listed fails, a line with nothing behind it fails, and so
// does a line that the base revision does not have.
//
// The command sqlpolicy is this package on the command line; docs/policy.md of the
// repository is its manual.
package policy
