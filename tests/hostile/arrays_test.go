package hostile_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
)

// TestArrayParameters holds what the driver's statements take for granted of pgx and
// PostgreSQL: whatever the texts are, an array of them arrives as it was sent, in every
// mode, also where the array is spelt as text within the statement.
func TestArrayParameters(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	hostile := append([]string{
		"", "NULL", "null", "nUlL", `"NULL"`, `\N`, "{", "}", "{}", "{{}}", `{"`, `"}`, ",", ",,", `","`, `\"`, `"\`, `\\"`, `'`, `''`, `\'`, `E'`,
		" NULL", "NULL ", " ", "\t", "\v", "\f", "\r", "\n", "\u0085", "\u00a0", "\u2028", "\ufeff", " {a} ", "[0:1]={a,b}", "a\tb", "\x01", "\x1f", "\x7f",
		"$1", "$$", "-- ", "/*", "*/", ";", strings.Repeat(`\"`, 5000), strings.Repeat("😀", 5000),
	}, texts...)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			config := db.Config(t)
			config.ConnConfig.DefaultQueryExecMode = m.mode
			conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
			require.NoError(t, err)
			defer conn.Close(t.Context())
			column := func(sql string, args ...any) []string {
				rows, err := conn.Query(t.Context(), sql, args...)
				require.NoError(t, err)
				got, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				return got
			}
			one := func(sql string, args ...any) (value any) {
				require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&value))
				return value
			}
			const unnest = "SELECT u.x FROM unnest($1::text[]) WITH ORDINALITY AS u(x, place) ORDER BY place"
			require.Equal(t, hostile, column(unnest, hostile), "all at once")
			for _, text := range hostile {
				require.Equal(t, true, one(
					"SELECT $1::text = ANY ($2::text[]) AND NOT $1::text <> ALL ($2::text[]) AND NOT $1::text || '!' = ANY ($2::text[]) AND ($2::text[])[2] = $1 AND cardinality($2::text[]) = 3",
					text, []string{"", text, ""}), "%q", text)
			}
			// None, and no array: an array without elements compares with nothing, no
			// array compares as unknown.
			require.Equal(t, true, one("SELECT 'a' <> ALL ($1::text[])", []string{}))
			require.Nil(t, one("SELECT 'a' <> ALL ($1::text[])", []string(nil)))
			require.EqualValues(t, 0, one("SELECT cardinality($1::text[])", []string{}))
			require.Nil(t, one("SELECT cardinality($1::text[])", []string(nil)))
			require.EqualValues(t, 3, one("SELECT count(*) FROM unnest($1::text[]) AS u(x) WHERE x IS NOT NULL", []string{"NULL", "", "null"}))
			null, text := (*string)(nil), "NULL"
			require.EqualValues(t, 1, one("SELECT count(*) FROM unnest($1::text[]) AS u(x) WHERE x IS NULL", []*string{null, &text}))

			// Rowsets of several arrays, as commits have them.
			numbers := []int64{math.MinInt64, -1, 0, 1 << 31, 1<<53 + 1, math.MaxInt64}
			flags := []bool{true, false, true, true, false, false}
			var want []string
			for i, n := range numbers {
				want = append(want, fmt.Sprintf("%d %v %s", n, flags[i], hostile[i]))
			}
			require.Equal(t, want, column(
				"SELECT u.n || ' ' || u.f || ' ' || u.x FROM unnest($1::bigint[], $2::boolean[], $3::text[]) WITH ORDINALITY AS u(n, f, x, place) ORDER BY place",
				numbers, flags, hostile[:len(numbers)]))
		})
	}
}
