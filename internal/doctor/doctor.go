// Package doctor examines a database that runlane uses, or is to use: the server, the
// schema, the rights of the application's role, and what slows runs down before
// anybody notices.
//
// Each check makes a few bounded reads under a timeout, in a read-only transaction of
// its own. (Those for a pooler and for the migrations look after their transactions
// themselves.) A check that lacks a right is [Unknown] and names the grant; the others
// go on. Nothing is changed.
package doctor

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/postgres"
)

// Status is the outcome of a check.
type Status string

// The outcomes, from the best to the worst.
const (
	OK      Status = "ok"
	Unknown Status = "unknown" // the check could not be made; Mend says what it needs
	Warn    Status = "warn"    // runlane works, but not as well or as safely as it could
	Fail    Status = "fail"    // runlane does not work, or loses what it promised to keep
)

var severity = map[Status]int{OK: 0, Unknown: 1, Warn: 2, Fail: 3}

// Finding is what one check found.
type Finding struct {
	Name    string         `json:"name"` // of the check, one of Names
	Status  Status         `json:"status"`
	Message string         `json:"message"`
	Mend    string         `json:"mend,omitempty"`    // what to do; empty if there is nothing to do
	Figures map[string]any `json:"figures,omitempty"` // numbers and texts by name; docs/deploy.md lists them
}

// Options say what to examine and from where on to complain. The zero value is
// ready to use.
type Options struct {
	// Schema holds the tables. Default: postgres.DefaultSchema.
	Schema string
	// Role is the one that the application connects as. Its rights and settings are
	// examined. Default: the role of the pool.
	Role string
	// Timeout bounds each check. Default: 5 s.
	Timeout time.Duration
	// Late is how late a run may be. Default: 5 min.
	Late time.Duration
	// OldSnapshot is how long a transaction may last. Default: 5 min.
	OldSnapshot time.Duration
	// OldSlot is how many transactions back a replication slot may reach. Default: 1,000,000.
	OldSlot int64
	// DeadRows is how many dead rows a table may have beyond twice of what autovacuum
	// lets be. Default: 10,000.
	DeadRows int64
	// QueueUsage is how full the notification queue may be. Default: 0.25.
	QueueUsage float64
	// ClockDifference is how far this machine's clock may be from the server's. Default: 1 s.
	ClockDifference time.Duration
	// Now is this machine's clock. Default: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, postgres.DefaultSchema)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Late = cmp.Or(o.Late, 5*time.Minute)
	o.OldSnapshot = cmp.Or(o.OldSnapshot, 5*time.Minute)
	o.OldSlot = cmp.Or(o.OldSlot, 1_000_000)
	o.DeadRows = cmp.Or(o.DeadRows, 10_000)
	o.QueueUsage = cmp.Or(o.QueueUsage, 0.25)
	o.ClockDifference = cmp.Or(o.ClockDifference, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// check is one examination. A check with alone set looks after its connections
// itself; the others get a transaction.
type check struct {
	name  string
	look  func(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error)
	alone func(ctx context.Context, e *examination) (Finding, error)
}

var checks = []check{
	{name: "connection", look: checkConnection},
	{name: "pooler", alone: checkPooler},
	{name: "server", look: checkServer},
	{name: "encoding", look: checkEncoding},
	{name: "migrations", alone: checkMigrations},
	{name: "objects", look: checkObjects},
	{name: "grants", look: checkGrants},
	{name: "indexes", look: checkIndexes},
	{name: "vacuum", look: checkVacuum},
	{name: "snapshots", look: checkSnapshots},
	{name: "notifications", look: checkNotifications},
	{name: "locks", look: checkLocks},
	{name: "clock", look: checkClock},
	{name: "runs", look: checkRuns},
	{name: "durability", look: settingsCheck(durability)},
	{name: "autovacuum", look: settingsCheck(autovacuum)},
	{name: "isolation", look: settingsCheck(isolation)},
	{name: "timeouts", look: settingsCheck(timeouts)},
	{name: "checkpoints", look: settingsCheck(checkpoints)},
}

// Names are the names of all checks, in the order of the findings.
func Names() []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}

// examination is what the checks of one Examine share.
type examination struct {
	Options
	pool *pgxpool.Pool

	self, database string // the role of the pool and its database, known after the first check
}

// Examine makes all checks, in order, and returns a finding for each. If the database
// cannot be reached, the finding "connection" says so and is the only one. Two
// connections let it recognize a pooler in transaction mode, one is enough for the
// rest; any exec mode will do. Once ctx has ended it returns ctx.Err().
func Examine(ctx context.Context, pool *pgxpool.Pool, o Options) ([]Finding, error) {
	e := &examination{Options: o.withDefaults(), pool: pool}
	var findings []Finding
	for _, c := range checks {
		f, err := e.make(ctx, c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			f = e.failed(c.name, err)
		}
		f.Name = c.name
		findings = append(findings, f)
		if c.name == "connection" && f.Status == Fail {
			break
		}
	}
	return findings, nil
}

// Worst is the worst status of the findings, OK if there are none.
func Worst(findings []Finding) Status {
	worst := OK
	for _, f := range findings {
		if severity[f.Status] > severity[worst] {
			worst = f.Status
		}
	}
	return worst
}

func (e *examination) make(ctx context.Context, c check) (f Finding, err error) {
	// The server's timeout comes first, unless the server does not answer.
	ctx, cancel := context.WithTimeout(ctx, e.Timeout+e.Timeout/2)
	defer cancel()
	if c.alone != nil {
		return c.alone(ctx, e)
	}
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return Finding{}, err
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Finding{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // a connection that is lost here is not given to the next check
	}()
	timeout := strconv.FormatInt(max(e.Timeout.Milliseconds(), 1), 10)
	if _, err := tx.Exec(ctx, text("begin"), pgx.QueryExecModeExec, timeout, timeout); err != nil {
		return Finding{}, err
	}
	return c.look(ctx, e, tx)
}

// failed is the finding of a check that could not be made.
func (e *examination) failed(name string, err error) Finding {
	if name == "connection" {
		return Finding{Status: Fail, Message: "the database cannot be reached: " + err.Error(),
			Mend: "give the URL of a server that runs and lets this role in (--url, or PGHOST and its like)"}
	}
	var pg *pgconn.PgError
	errors.As(err, &pg)
	switch {
	case errors.Is(err, context.DeadlineExceeded), pg != nil && (pg.Code == "57014" || pg.Code == "55P03"):
		return Finding{Status: Unknown, Message: fmt.Sprintf("there was no answer within %s", e.Timeout),
			Mend: "ask again when the server has less to do, or with more time (--timeout)"}
	case pg != nil && pg.Code == "42501":
		return Finding{Status: Unknown, Message: fmt.Sprintf("the role %q lacks a right: %s", e.self, pg.Message),
			Mend: "grant it, or examine the database as the role that owns the schema"}
	case pg != nil && (pg.Code == "42P01" || pg.Code == "3F000" || pg.Code == "42703"):
		return Finding{Status: Unknown, Message: "what it reads is missing: " + pg.Message, Mend: "mend what the checks before it found"}
	}
	return Finding{Status: Unknown, Message: "the check could not be made: " + err.Error()}
}

//go:embed sql/*.sql
var files embed.FS

// text is the statement of a file.
func text(name string) string {
	data, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the file is named where it is used
	}
	return string(data)
}

// query sends the statement of a file in a mode that works through every pooler.
func query(ctx context.Context, tx pgx.Tx, name string, args ...any) (pgx.Rows, error) {
	return tx.Query(ctx, text(name), append([]any{pgx.QueryExecModeExec}, args...)...)
}

func queryRow(ctx context.Context, tx pgx.Tx, name string, args ...any) pgx.Row {
	return tx.QueryRow(ctx, text(name), append([]any{pgx.QueryExecModeExec}, args...)...)
}

func tables() []string {
	var names []string
	for _, c := range storage.Collections() {
		names = append(names, postgres.TableName(c))
	}
	return names
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

// counted is "1 run" or "2 runs".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list joins the first few and counts the rest.
func list(items []string) string {
	const most = 5
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
