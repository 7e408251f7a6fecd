// Package pgtest gives tests and demos a throwaway PostgreSQL.
//
// A test asks for a migrated database of its own and forgets about it:
//
//	db := pgtest.New(t)    // made from a template, dropped when the test ends
//	pool := db.Pool(t)     // closed when the test ends
//
// # Where the server comes from
//
// If RUNLANE_TEST_DATABASE_URL holds a database URL, the tests create and drop
// their databases on that server; the role needs CREATEDB. Otherwise pgtest
// looks for PostgreSQL's server programs (RUNLANE_PG_BIN, PATH, pg_config, the
// folders distributions use) and starts a private cluster. If there are none,
// the test fails with a sentence that says what to do; it is never skipped.
//
// # One cluster for one go test
//
// The test binaries of one "go test ./..." run as processes of their own. They
// share one cluster, found through a folder whose name is made from the
// process that started them (its id and start time). Each user holds a shared
// lock on a file in that folder, which the kernel drops when the process ends,
// however it ends.
//
// # The watchdog
//
// PostgreSQL is the child of a watchdog, a detached process that runs the same
// executable (see the init function in watchdog.go). It stops the server and
// removes the folder once no user is left, so a test killed with SIGKILL
// leaves nothing behind. It waits for the end of the go command that started
// the tests, so that a package whose test is still being linked finds the
// cluster running; below any other parent it waits two seconds. Should the
// watchdog itself be killed, the next session removes what it left.
//
// # A pooler
//
// [Bounce] puts a PgBouncer of the test's own before a database, in transaction mode
// and with as many connections to the server as the test says. The program is found
// through RUNLANE_PGBOUNCER, PATH or the folders that distributions use.
//
// # Speed and safety
//
// The shared cluster and clusters with Options.Volatile do not wait for the
// disk, and lose their data when the machine fails. Unless TMPDIR is set, they
// lie in /dev/shm if that has 6 GiB to spare, where a database is made in a
// fraction of the time. Other clusters have PostgreSQL's durable defaults and
// lie on the disk. Every cluster listens on 127.0.0.1 with a
// random password, and on a Unix socket that only its owner can reach. A
// server never runs as root: it runs as "postgres" or "nobody" then.
//
// Databases are isolated from each other; roles and server settings are not.
// A test that creates roles picks unique names, and a test that restarts or
// breaks the server asks for its own with [Private].
package pgtest
