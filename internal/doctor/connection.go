package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func checkConnection(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	if err := tx.QueryRow(ctx, "SELECT current_user::text, current_database()::text", pgx.QueryExecModeExec).Scan(&e.self, &e.database); err != nil {
		return Finding{}, err
	}
	if e.Role == "" {
		e.Role = e.self
	}
	return Finding{Status: OK, Message: fmt.Sprintf("role %q, database %q", e.self, e.database),
		Figures: map[string]any{"role": e.self, "database": e.database}}, nil
}

// checkPooler looks whether the session that the protocol names is the one that
// answers, and whether one session answers two connections.
func checkPooler(ctx context.Context, e *examination) (Finding, error) {
	a, err := e.pool.Acquire(ctx)
	if err != nil {
		return Finding{}, err
	}
	defer a.Release()
	pids, err := sessions(ctx, a)
	if err != nil {
		return Finding{}, err
	}
	behind := pids[0] != a.Conn().PgConn().PID()
	shared := pids[0] != pids[1]
	if behind && !shared && e.pool.Config().MaxConns > 1 {
		b, err := e.pool.Acquire(ctx)
		if err != nil {
			return Finding{}, err
		}
		defer b.Release()
		others, err := sessions(ctx, b)
		if err != nil {
			return Finding{}, err
		}
		shared = others[0] != others[1] || others[0] == pids[0]
	}
	switch {
	case shared:
		return Finding{Status: Warn, Message: "a pooler in transaction mode is in between",
			Mend: "migrate over a direct connection, and give the driver the server's own URL as Config.ListenURL, or hints are lost"}, nil
	case behind:
		return Finding{Status: OK, Message: "a pooler is in between, and it seems to keep one session for a connection"}, nil
	}
	return Finding{Status: OK, Message: "none is in between"}, nil
}

// sessions asks twice, in two transactions, which session answers.
func sessions(ctx context.Context, conn *pgxpool.Conn) (pids [2]uint32, err error) {
	for i := range pids {
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&pids[i]); err != nil {
			return pids, err
		}
	}
	return pids, nil
}

// trips is how often the clock is asked. The quickest trip says most.
const trips = 5

func checkClock(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	var best, ahead time.Duration
	for i := range trips {
		var server time.Time
		before := e.Now()
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()", pgx.QueryExecModeExec).Scan(&server); err != nil {
			return Finding{}, err
		}
		after := e.Now()
		if trip := after.Sub(before); i == 0 || trip < best {
			best, ahead = trip, server.Sub(before.Add(trip/2))
		}
	}
	uncertain := best / 2
	f := Finding{Status: OK, Figures: map[string]any{"server_ahead_ms": millis(ahead), "uncertainty_ms": millis(uncertain), "round_trip_ms": millis(best)}}
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	f.Message = fmt.Sprintf("the server's is %s %s this machine's, give or take %s", ahead.Abs().Round(10*time.Microsecond), word, uncertain.Round(10*time.Microsecond))
	if ahead.Abs()-uncertain > e.ClockDifference {
		f.Status = Warn
		f.Mend = "synchronize both clocks (NTP); runs are timed by the server's, so a due time that the application computes is off by as much"
	}
	return f, nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
