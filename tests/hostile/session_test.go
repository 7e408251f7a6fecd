package hostile_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// TestSessionSettings sets what changes how a session spells and reads values, as
// ALTER ROLE and ALTER DATABASE can do behind the program's back. A driver gives right
// answers under such a setting, or it refuses it before it writes anything. What one
// process stored, every other finds.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	settings := []struct{ name, value string }{
		{"client_encoding", "LATIN1"}, {"DateStyle", "SQL, DMY"}, {"DateStyle", "German"}, {"DateStyle", "ISO, DMY"},
		{"IntervalStyle", "sql_standard"}, {"extra_float_digits", "0"}, {"array_nulls", "off"},
		{"standard_conforming_strings", "off"}, {"backslash_quote", "off"}, {"transform_null_equals", "on"},
	}
	plain := newPostgres(t, nil)
	for i, setting := range settings {
		for _, m := range modes {
			switch m.mode {
			case pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
				continue // as QueryExecModeCacheStatement
			case pgx.QueryExecModeExec:
				if i > 3 {
					continue // what decides how parameters are spelt shows in the simple protocol
				}
			}
			t.Run(setting.name+"="+setting.value+" "+m.name, func(t *testing.T) {
				d := openOn(t, plain.db, func(c *pgxpool.Config) {
					c.ConnConfig.RuntimeParams[setting.name] = setting.value
					c.ConnConfig.DefaultQueryExecMode = m.mode
				})
				(&store{t, d, plain.db, plain.sq}).answersAs(plain, show("%d %s", i, m.name))
			})
		}
	}
}

// answersAs stores a run under hostile names and requires that this driver and the
// other read it alike, or that this one refuses to work.
func (s *store) answersAs(other *store, environment string) {
	s.Helper()
	const text = `é€😀 \ ' NULL {} "`
	_, runRec, eventRec := newRun(s.T, environment, text, asJSON(s.T, text))
	commit, err := s.transact(creates(runRec, eventRec))
	if err != nil {
		require.ErrorIs(s, err, storage.ErrConfiguration)
		require.Empty(s, other.listRuns(storage.RunFilter{Environment: environment}), "it was written all the same")
		_, _, err = s.GetRun(s.Context(), environment, text)
		require.ErrorIs(s, err, storage.ErrConfiguration)
		return
	}
	for _, reader := range []*store{s, {s.T, other.Driver, other.db, other.sq}} {
		r := reader.getRun(environment, text)
		require.Equal(s, commit.Time, r.Created)
		require.JSONEq(s, string(asJSON(s.T, text)), string(r.Payload))
		items := reader.listRuns(storage.RunFilter{Environment: environment})
		require.Equal(s, []string{text}, idsOf(items))
		require.Equal(s, commit.Time, items[0].Created)
		events := reader.listEvents(storage.EventFilter{Environment: environment, RunID: text})
		require.Len(s, events, 1)
		require.Equal(s, commit.Time, events[0].At)
	}
}
