package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/keys"
	"github.com/seed4391e180/runlane/storage/postgres"
)

func checkVacuum(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	rows, err := query(ctx, tx, "vacuum", e.Schema, tables())
	if err != nil {
		return Finding{}, err
	}
	var (
		name       string
		live, dead int64
		ago        *float64 // nil if it was never vacuumed
		enabled    bool
		threshold  float64
		most       int64
		late, off  []string
		names      []string
		all        = map[string]any{}
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &live, &dead, &ago, &enabled, &threshold}, func() error {
		figures := map[string]any{"live": live, "dead": dead}
		since := "never vacuumed"
		if ago != nil {
			figures["vacuumed_seconds_ago"] = math.Round(*ago)
			since = fmt.Sprintf("vacuumed %s ago", seconds(*ago).Round(time.Second))
		}
		all[name], most = figures, max(most, dead)
		if float64(dead) > 2*threshold+float64(e.DeadRows) {
			late = append(late, fmt.Sprintf("%s has %d dead rows and %d live ones, %s", name, dead, live, since))
			names = append(names, quote(e.Schema, name))
		}
		if !enabled {
			off = append(off, name)
		}
		return nil
	})
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Status: OK, Message: fmt.Sprintf("at most %s in a table", counted(most, "dead row")), Figures: map[string]any{"tables": all}}
	switch {
	case len(late) > 0:
		f.Status, f.Message = Warn, strings.Join(firstOf(late), "; ")
		f.Mend = "see what the check snapshots says, then VACUUM (ANALYZE) " + strings.Join(names, ", ") + "; claims read dead entries of indexes before live ones"
	case len(off) > 0:
		f.Status, f.Message = Warn, "autovacuum is turned off for "+list(off)
		f.Mend = "ALTER TABLE … RESET (autovacuum_enabled)"
	}
	return f, nil
}

// holder is what keeps dead rows from being removed.
type holder struct {
	kind, name, words string
	age               int64    // in transactions
	seconds           *float64 // nil if it is not known
}

func (h holder) String() string {
	s := h.kind + " " + h.name
	if h.words != "" {
		s += " (" + h.words + ")"
	}
	if h.seconds != nil {
		s += " for " + seconds(*h.seconds).Round(time.Second).String()
	}
	return s + ", " + counted(h.age, "transaction") + " back"
}

func readHolders(ctx context.Context, tx pgx.Tx) (holders []holder, hidden int, err error) {
	rows, err := query(ctx, tx, "snapshots")
	if err != nil {
		return nil, 0, err
	}
	var (
		h   holder
		age *int64
	)
	_, err = pgx.ForEachRow(rows, []any{&h.kind, &h.name, &h.words, &age, &h.seconds}, func() error {
		if h.kind == "hidden" {
			hidden++
			return nil
		}
		if age != nil {
			h.age = *age
			holders = append(holders, h)
		}
		return nil
	})
	return holders, hidden, err
}

// ends says how to get rid of a holder.
func (h holder) ends() string {
	switch h.kind {
	case "session":
		return "SELECT pg_terminate_backend(" + h.name + ")"
	case "prepared transaction":
		return "ROLLBACK PREPARED '" + strings.ReplaceAll(h.name, "'", "''") + "'"
	}
	return "SELECT pg_drop_replication_slot('" + h.name + "')"
}

func checkSnapshots(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	holders, hidden, err := readHolders(ctx, tx)
	if err != nil {
		return Finding{}, err
	}
	var (
		old, ends    []string
		oldest, back float64
	)
	for _, h := range holders {
		back = max(back, float64(h.age))
		if h.seconds != nil {
			oldest = max(oldest, *h.seconds)
		}
		if h.seconds != nil && seconds(*h.seconds) > e.OldSnapshot || h.seconds == nil && h.age > e.OldSlot {
			old, ends = append(old, h.String()), append(ends, h.ends())
		}
	}
	f := Finding{Status: OK, Message: fmt.Sprintf("the oldest is %s old", seconds(oldest).Round(time.Millisecond)),
		Figures: map[string]any{"holders": len(holders), "oldest_seconds": oldest, "transactions_back": back, "hidden_sessions": hidden}}
	if len(holders) == 0 {
		f.Message = "nothing holds one"
	}
	switch {
	case len(old) > 0:
		f.Status, f.Message = Warn, "dead rows stay because of "+strings.Join(firstOf(old), "; ")
		f.Mend = "end the transaction where it began, or: " + strings.Join(firstOf(ends), "; ")
	case hidden > 0:
		f.Status, f.Message = Unknown, fmt.Sprintf("%s of others cannot be seen by the role %q", counted(int64(hidden), "session"), e.self)
		f.Mend = "GRANT pg_read_all_stats TO " + quote(e.self)
	}
	return f, nil
}

func checkNotifications(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	var usage float64
	if err := queryRow(ctx, tx, "notifications").Scan(&usage); err != nil {
		return Finding{}, err
	}
	percent := math.Round(usage*10000) / 100
	f := Finding{Status: OK, Message: fmt.Sprintf("the queue is %g %% full", percent), Figures: map[string]any{"usage": usage}}
	if usage >= e.QueueUsage {
		f.Status = Warn
		f.Mend = "some session listens and does not end its transaction: end the oldest one that is \"idle in transaction\" (pg_stat_activity). Once the queue is full, hints are not sent and polling remains"
	}
	return f, nil
}

func checkLocks(ctx context.Context, _ *examination, tx pgx.Tx) (Finding, error) {
	var capacity, held int64
	if err := queryRow(ctx, tx, "locks").Scan(&capacity, &held); err != nil {
		return Finding{}, err
	}
	const budget = postgres.DefaultMaxHeldLocks
	f := Finding{Status: OK, Message: fmt.Sprintf("%d of %d are held; a driver holds up to %d", held, capacity, budget),
		Figures: map[string]any{"capacity": capacity, "held": held, "budget": budget}}
	const raise = "raise max_locks_per_transaction (needs a restart), or call Driver.Check as the program begins, or set Config.MaxHeldLocks"
	switch {
	case capacity < budget:
		f.Status, f.Mend = Fail, raise
		f.Message += ", which is more than there are"
	case held > capacity*3/4:
		f.Status, f.Mend = Warn, "raise max_locks_per_transaction (needs a restart), or lower Config.MaxHeldLocks of each process"
		f.Message += ": little is left"
	case capacity < 2*budget:
		f.Status, f.Mend = Warn, raise
		f.Message += ", which leaves less than that for all others"
	}
	return f, nil
}

// maxPartitions bounds how many queues and priorities are looked at.
const maxPartitions = 1000

func checkRuns(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
	statement := strings.ReplaceAll(text("runs"), "{runs}", quote(e.Schema, postgres.TableName(storage.Runs)))
	var (
		partition, sort, id string
		partitions          int
		now                 time.Time
	)
	err := tx.QueryRow(ctx, statement, pgx.QueryExecModeExec, maxPartitions).Scan(&partition, &sort, &id, &partitions, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return Finding{Status: OK, Message: "none waits for a worker", Figures: map[string]any{"queues": 0}}, nil
	}
	if err != nil {
		return Finding{}, err
	}
	if plain, err := keys.DecodeString(id); err == nil {
		id = plain
	}
	f := Finding{Status: OK, Figures: map[string]any{"queues": partitions, "run": id}}
	where, due, ok := place(partition, sort)
	if !ok {
		f.Status, f.Message = Unknown, fmt.Sprintf("the run %q has a due time that this version cannot read", id)
		f.Mend = "use the version of runlane that wrote it"
		return f, nil
	}
	for name, value := range where {
		f.Figures[name] = value
	}
	late := now.Sub(due).Round(time.Millisecond)
	f.Figures["late_seconds"] = late.Seconds()
	f.Message = fmt.Sprintf("run %q of the queue %q in %q", id, where["queue"], where["environment"])
	switch {
	case late > e.Late:
		f.Status, f.Message = Warn, f.Message+fmt.Sprintf(" has been due for %s", late)
		f.Mend = "start workers for this queue and environment, or more of them"
	case late >= 0:
		f.Message += fmt.Sprintf(" has been due for %s", late)
	default:
		f.Message = fmt.Sprintf("the next is due in %s", -late)
	}
	if partitions == maxPartitions {
		f.Message += fmt.Sprintf(", of the first %d queues and priorities", maxPartitions)
	}
	return f, nil
}

// place reads an entry of the index of due runs.
func place(partition, sort string) (where map[string]any, due time.Time, ok bool) {
	p, err := keys.Decode(partition)
	if err != nil || len(p) != 3 || p[0].Kind != keys.KindString || p[1].Kind != keys.KindString {
		return nil, time.Time{}, false
	}
	s, err := keys.Decode(sort)
	if err != nil || len(s) == 0 || s[0].Kind != keys.KindTime {
		return nil, time.Time{}, false
	}
	return map[string]any{"environment": p[0].Str, "queue": p[1].Str, "priority": p[2].Int}, s[0].Time(), true
}
