package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed4391e180/runlane/internal/txn"
	"github.com/seed4391e180/runlane/storage"
)

// DefaultSchema is where the migrations put the tables unless told otherwise.
const DefaultSchema = "runlane"

// The oldest PostgreSQL that Check accepts, and the newest that the driver is tested with.
const (
	OldestServer = 15
	NewestServer = 18
)

// Config sets a driver up. Its zero value is the default, field by field.
type Config struct {
	// Schema holds the tables. Default: DefaultSchema.
	Schema string
	// MaxTransactionAttempts bounds how often a callback runs. Default: 8.
	MaxTransactionAttempts int
	// LockTimeout bounds the wait for each lock, in the server. Default: 2 s.
	LockTimeout time.Duration
	// StatementTimeout bounds each statement of a transaction that locks or writes,
	// all its lock waits included. Default: 10 s.
	StatementTimeout time.Duration
	// IdleTimeout ends a transaction that the client leaves idle, so that a client
	// which vanished does not hold locks. Default: 10 s.
	IdleTimeout time.Duration
	// AcquireTimeout bounds the wait for a pooled connection. Default: 5 s.
	AcquireTimeout time.Duration
	// CommitTimeout is how long a commit may take to arrive, on the database's clock:
	// one that arrives later fails, and is tried again. It bounds how long the outcome
	// of a commit can stay open whose connection died. Default: 10 s.
	CommitTimeout time.Duration
	// OutcomeTimeout bounds the search for the outcome of a commit whose connection
	// died; then it is storage.ErrCommitUnknown. Default: 30 s.
	OutcomeTimeout time.Duration
	// ListenHeartbeat is how long Listen trusts a silent connection before it asks
	// whether the server is still there. The answer may take as long again, but no more
	// than 10 s. Default: 30 s.
	ListenHeartbeat time.Duration
	// MaxHeldLocks bounds how many advisory locks the driver holds at a time: they
	// share the server's lock table with everybody. Who would exceed it waits, at most
	// for AcquireTimeout. Default: half of the table's capacity once Check has read
	// it, DefaultMaxHeldLocks before.
	MaxHeldLocks int
	// SeparateCommits gives every commit a transaction of its own and every point read a
	// statement of its own. Default: those that come while two are under way wait for one
	// to end and then go together, as one transaction or statement. Each caller gets its
	// own answer, as if it had gone alone.
	SeparateCommits bool
	// Wakes says how Tx.Wake sends its hints. Default: WakeInTransaction.
	Wakes WakeMode
	// ListenURL is the database as Driver.Listen connects to it. A pooler in
	// transaction mode passes no notifications on, so behind one give the URL of the
	// server itself. Default: Listen connects as the pool does.
	ListenURL string
	// Logger gets what the driver cannot return, such as a lost listener. Default:
	// nothing is logged.
	Logger *slog.Logger
}

// WakeMode says how hints are sent.
type WakeMode uint8

// The wake modes.
const (
	// WakeInTransaction sends the hint within the transaction: it is sent if, and
	// only if, the transaction commits. Commits that notify take turns on one lock of
	// the server.
	WakeInTransaction WakeMode = iota
	// WakeCoalesced sends hints after the commit, from the driver, each topic at most
	// once in 10 ms. Commits do not wait for each other; a hint is lost if the process
	// ends in between. Within a joined transaction it is WakeInTransaction.
	WakeCoalesced
	// WakeOff sends no hints; whoever waits finds the work when it polls.
	WakeOff
)

func (c Config) withDefaults() (Config, error) {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.MaxTransactionAttempts == 0 {
		c.MaxTransactionAttempts = txn.DefaultMaxAttempts
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"LockTimeout", &c.LockTimeout, 2 * time.Second},
		{"StatementTimeout", &c.StatementTimeout, 10 * time.Second},
		{"IdleTimeout", &c.IdleTimeout, 10 * time.Second},
		{"AcquireTimeout", &c.AcquireTimeout, 5 * time.Second},
		{"CommitTimeout", &c.CommitTimeout, 10 * time.Second},
		{"OutcomeTimeout", &c.OutcomeTimeout, 30 * time.Second},
		{"ListenHeartbeat", &c.ListenHeartbeat, 30 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < time.Millisecond || *d.value > 24*time.Hour {
			return c, configError(fmt.Sprintf("Config.%s is %v", d.name, *d.value), "give it between 1ms and 24h, or 0 for the default")
		}
	}
	if c.MaxTransactionAttempts < 1 || c.MaxTransactionAttempts > 1000 {
		return c, configError(fmt.Sprintf("Config.MaxTransactionAttempts is %d", c.MaxTransactionAttempts), "give it between 1 and 1000, or 0 for the default")
	}
	if c.MaxHeldLocks < 0 {
		return c, configError(fmt.Sprintf("Config.MaxHeldLocks is %d", c.MaxHeldLocks), "give a positive number, or 0 for the default")
	}
	if c.Wakes > WakeOff {
		return c, configError(fmt.Sprintf("Config.Wakes is %d", c.Wakes), "use one of the wake modes")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// New makes a driver on a pool. It does no input or output and starts nothing;
// Driver.Check asks whether the database is fit. The pool stays the caller's:
// Close does not close it. The driver needs nothing of the pool but connections,
// one is enough.
func New(pool *pgxpool.Pool, c Config) (*Driver, error) {
	if pool == nil {
		return nil, configError("the pool is nil", "pass a *pgxpool.Pool, or use Open")
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	n, err := newNames(c.Schema)
	if err != nil {
		return nil, err
	}
	d := &Driver{pool: pool, config: c, names: n, statements: newStatements(n), channel: channelName(c.Schema)}
	d.block.drawing = make(chan struct{}, 1)
	d.execMode = pool.Config().ConnConfig.DefaultQueryExecMode
	if c.ListenURL != "" {
		if d.listen, err = pgx.ParseConfig(c.ListenURL); err != nil {
			return nil, &storage.ConfigurationError{Problem: "Config.ListenURL cannot be read", Mend: mendURL, Err: err}
		}
	}
	d.closing, d.close = context.WithCancel(context.Background())
	d.engine = txn.Engine{Store: d, MaxAttempts: c.MaxTransactionAttempts}.WithDefaults()
	d.limits = storage.DefaultLimits()
	if !c.SeparateCommits {
		d.commits, d.appends, d.reads = d.newCommits(), d.newAppends(), d.newReads()
	}
	d.budget = newBudget(cmp.Or(c.MaxHeldLocks, DefaultMaxHeldLocks))
	return d, nil
}

const mendURL = "give it as postgres://user:password@host:port/database"

// Open makes a pool from a connection URL, or a keyword/value string, and a driver
// that owns it. Like New it does no input or output: an unreachable server shows
// at the first use.
func Open(ctx context.Context, url string, c Config) (*Driver, error) {
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &storage.ConfigurationError{Problem: "the database URL cannot be read", Mend: mendURL, Err: err}
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, &storage.ConfigurationError{Problem: "the pool cannot be made", Mend: "correct the database URL", Err: err}
	}
	d, err := New(pool, c)
	if err != nil {
		pool.Close()
		return nil, err
	}
	d.ownsPool = true
	return d, nil
}

func configError(problem, mend string) error {
	return &storage.ConfigurationError{Problem: problem, Mend: mend}
}
