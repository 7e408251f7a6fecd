// Package postgres keeps durable runs in PostgreSQL: it is the storage.Driver for
// production.
//
//	d, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Config{})
//
// [Open] makes a pool of its own, [New] takes yours. Neither does any input or
// output. The tables must be there: see package migrations. [Driver.Check] asks
// whether the database is fit, and its answer names the mend.
//
// Transactions run under READ COMMITTED with optimistic reads; a commit without
// earlier locks is one pipeline and one round trip. How and why is told in
// ARCHITECTURE.md; the SQL is in package rawsql.
//
// The driver works in all of pgx's query exec modes and with any schema name and
// search_path. It needs one connection at a time per running transaction, and never
// a second one while it holds one. Listen uses a connection of its own.
package postgres
