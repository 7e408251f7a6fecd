package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// rule says which values of a setting are worth a change.
type rule struct {
	setting string
	bad     func(value string, amount float64) bool // amount in ms or bytes, if there is a unit
	status  Status
	reason  string
	mend    string // where it is changed is added
	first   string // what the session that changes it has to do before
	local   bool   // a role or database can have a value of its own
}

// Nothing is said about tcp_keepalives_* and jit, which the driver sets for its
// transactions, nor about lock_timeout and idle_in_transaction_session_timeout,
// which it does as well.
var (
	durability = []rule{
		{setting: "fsync", bad: isOff, status: Fail, reason: "a crash of the machine can destroy the database", mend: "fsync = on"},
		{setting: "full_page_writes", bad: isOff, status: Fail, reason: "a crash in the middle of a page can destroy it", mend: "full_page_writes = on"},
		{setting: "synchronous_commit", bad: isOff, status: Warn, local: true,
			reason: "a crash loses runs whose Trigger has returned", mend: "synchronous_commit = on"},
	}
	autovacuum = []rule{
		{setting: "autovacuum", bad: isOff, status: Warn, reason: "dead rows pile up and claims slow down", mend: "autovacuum = on"},
		{setting: "track_counts", bad: isOff, status: Warn, reason: "autovacuum does not know where it is needed", mend: "track_counts = on"},
	}
	isolation = []rule{
		{setting: "default_transaction_isolation", bad: isNot("read committed"), status: Fail, local: true,
			reason: "the driver refuses to write", mend: "default_transaction_isolation = 'read committed'"},
		{setting: "default_transaction_read_only", bad: isOn, status: Fail, local: true,
			reason: "nothing can be written", mend: "default_transaction_read_only = off", first: "SET default_transaction_read_only = off; "},
	}
	timeouts = []rule{
		{setting: "statement_timeout", bad: below(time.Second), status: Warn, local: true,
			reason: "reads of operators are cut off; transactions of the driver bring a timeout of their own", mend: "statement_timeout = '30s'"},
		{setting: "transaction_timeout", bad: below(10 * time.Second), status: Warn, local: true,
			reason: "transactions of the driver are cut off before their own timeout", mend: "transaction_timeout = '60s'"},
		{setting: "idle_session_timeout", bad: below(time.Minute), status: Warn, local: true,
			reason: "the listener is silent for 30 s at a time and loses its session, and hints with it", mend: "idle_session_timeout = 0"},
	}
	checkpoints = []rule{
		{setting: "max_wal_size", bad: lessThan(1 << 30), status: Warn,
			reason: "checkpoints come often, and after each one whole pages are logged again", mend: "max_wal_size = '4GB'"},
		{setting: "checkpoint_timeout", bad: lessThan(float64((5 * time.Minute).Milliseconds())), status: Warn,
			reason: "checkpoints come often, and after each one whole pages are logged again", mend: "checkpoint_timeout = '15min'"},
	}
)

func isOff(value string, _ float64) bool { return oneOf(value, "off", "false", "no", "0", "f", "n") }
func isOn(value string, _ float64) bool  { return oneOf(value, "on", "true", "yes", "1", "t", "y") }

func oneOf(value string, words ...string) bool {
	for _, w := range words {
		if strings.EqualFold(value, w) {
			return true
		}
	}
	return false
}

func isNot(want string) func(string, float64) bool {
	return func(value string, _ float64) bool { return !strings.EqualFold(value, want) }
}

func lessThan(least float64) func(string, float64) bool {
	return func(_ string, amount float64) bool { return amount < least }
}

// below is a timeout that is set, and too short.
func below(least time.Duration) func(string, float64) bool {
	return func(_ string, amount float64) bool { return amount > 0 && amount < float64(least.Milliseconds()) }
}

func settingsCheck(rules []rule) func(context.Context, *examination, pgx.Tx) (Finding, error) {
	return func(ctx context.Context, e *examination, tx pgx.Tx) (Finding, error) {
		values, units, err := readSettings(ctx, e, tx, rules)
		if err != nil {
			return Finding{}, err
		}
		f := Finding{Status: OK, Figures: map[string]any{}}
		var good, bad, mends []string
		for _, r := range rules {
			value, ok := values[r.setting]
			if !ok {
				continue // this server does not have it
			}
			shown := spelt(value, units[r.setting])
			f.Figures[r.setting] = shown
			if !r.bad(value, amount(value, units[r.setting])) {
				good = append(good, r.setting+" is "+shown)
				continue
			}
			if severity[r.status] > severity[f.Status] {
				f.Status = r.status
			}
			bad = append(bad, fmt.Sprintf("%s is %s: %s", r.setting, shown, r.reason))
			mends = append(mends, r.change(e))
		}
		f.Message, f.Mend = strings.Join(good, ", "), strings.Join(mends, " ")
		if len(bad) > 0 {
			f.Message = strings.Join(bad, "; ")
		}
		return f, nil
	}
}

// change is the statement that mends a setting.
func (r rule) change(e *examination) string {
	if r.local {
		return r.first + "ALTER ROLE " + quote(e.Role) + " IN DATABASE " + quote(e.database) + " SET " + r.mend + ";"
	}
	return "ALTER SYSTEM SET " + r.mend + "; SELECT pg_reload_conf();"
}

func readSettings(ctx context.Context, e *examination, tx pgx.Tx, rules []rule) (values, units map[string]string, err error) {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.setting
	}
	rows, err := query(ctx, tx, "settings", names, e.Role)
	if err != nil {
		return nil, nil, err
	}
	values, units = map[string]string{}, map[string]string{}
	var name, unit, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &unit, &value}, func() error {
		values[name], units[name] = value, unit
		return nil
	})
	return values, units, err
}

// scales are the units of settings, times in milliseconds and sizes in bytes.
var scales = map[string]float64{
	"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
	"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40,
}

// amount is a value in milliseconds or bytes; the unit is that of a number without
// one. A value that is no number is 0.
func amount(value, unit string) float64 {
	value = strings.TrimSpace(value)
	digits := len(value) - len(strings.TrimLeft(value, "+-.0123456789"))
	n, err := strconv.ParseFloat(value[:digits], 64)
	if err != nil {
		return 0
	}
	if own := strings.TrimSpace(value[digits:]); own != "" {
		unit = own
	}
	if scale, ok := scales[unit]; ok {
		return n * scale
	}
	return n
}

// spelt is a value with its unit.
func spelt(value, unit string) string {
	if _, err := strconv.ParseFloat(value, 64); err != nil || value == "0" || unit == "" {
		return value
	}
	switch n := amount(value, unit); {
	case strings.HasSuffix(unit, "B"):
		return strconv.FormatFloat(n/(1<<20), 'f', -1, 64) + "MB"
	default:
		return time.Duration(n * float64(time.Millisecond)).String()
	}
}
