package grammar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/policy/internal/grammar"
)

// TestDeepTexts holds that no text ends the process: the parser is recursive C.
func TestDeepTexts(t *testing.T) {
	chains := map[string]struct{ start, link, end string }{
		"operators":        {"SELECT 1", "+1", ""},
		"unary operators":  {"SELECT ", "- ", "1"},
		"NOT":              {"SELECT ", "NOT ", "true"},
		"casts":            {"SELECT 1", "::int", ""},
		"arms":             {"SELECT 1", " UNION SELECT 1", ""},
		"arms with commas": {"SELECT 1, 2", " UNION SELECT 1, 2 WHERE a AND b", ""},
		"joins":            {"SELECT 1 FROM a", " CROSS JOIN b", ""},
		"named joins":      {"SELECT 1 FROM a", " JOIN b ON true AND true", ""},
		"subscripts":       {"SELECT a", "[1]", ""},
		"conditions":       {"SELECT a", " AND a", ""},
		"alternatives":     {"SELECT a", " OR a", ""},
		"tests":            {"SELECT a", " IS NULL", ""},
		"collations":       {"SELECT a", ` COLLATE "C"`, ""},
		"zones":            {"SELECT a", " AT TIME ZONE 'utc'", ""},
		"lists":            {"INSERT INTO t VALUES (1)", ",(1)", ""},
		"quoted operators": {"SELECT a", " OPERATOR(pg_catalog.+) 1", ""},
		"fields":           {"SELECT (a)", ".b", ""},
		"statements":       {"SELECT 1", "; SELECT 1", ""},
	}
	for name, c := range chains {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{900, 40_000} {
				_, err := grammar.Parse(c.start + strings.Repeat(c.link, n) + c.end)
				if err != nil {
					var e *grammar.Error
					require.ErrorAs(t, err, &e)
					assert.Contains(t, err.Error(), "PostgreSQL 17")
				}
			}
		})
	}
	for name, pair := range map[string][2]string{"parentheses": {"(", ")"}, "CASE": {"CASE WHEN true THEN ", " END"}, "subqueries": {"(SELECT ", ")"}, "calls": {"f(", ")"}} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{900, 40_000} {
				_, err := grammar.Parse("SELECT " + strings.Repeat(pair[0], n) + "1" + strings.Repeat(pair[1], n))
				if n > 1000 {
					require.Error(t, err)
				}
			}
		})
	}
}

// TestDeepBodies holds the same for PL/pgSQL.
func TestDeepBodies(t *testing.T) {
	for name, pair := range map[string][2]string{
		"operators": {"PERFORM 1", "+1"}, "IF": {"", "IF true THEN "}, "blocks": {"", "BEGIN "}, "loops": {"", "LOOP "}, "arms": {"PERFORM 1", " UNION SELECT 1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{300, 40_000} {
				body := pair[0] + strings.Repeat(pair[1], n)
				for _, quotes := range [][2]string{{"$x$", "$x$"}, {"'", "'"}} {
					_, err := grammar.ParsePLpgSQL("DO " + quotes[0] + " BEGIN " + body + "; END " + quotes[1])
					if n > 1000 {
						require.ErrorContains(t, err, "nested")
					}
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for sql, offset := range map[string]int{
		"SELECT 1 +":                  10,
		"SELECT E'\u00e4' || , 2":     16, // in bytes
		"SELECT 1; SELECT 'x' FROM ,": 26,
		"SELECT \x00":                 -1,
	} {
		_, err := grammar.Parse(sql)
		var e *grammar.Error
		require.True(t, errors.As(err, &e), sql)
		assert.Equal(t, offset, e.Offset, sql)
	}
	_, err := grammar.ParsePLpgSQL("DO $$ BEGIN LOOP END $$")
	require.ErrorContains(t, err, "PostgreSQL 17")
}
