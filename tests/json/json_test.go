// Package json_test compares the JSON scanner with PostgreSQL: what jsonb
// accepts, and what it prints.
package json_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/jsonscan"
	"github.com/seed4391e180/runlane/internal/pgtest"
)

// The number of documents that a run generates.
const (
	wellFormedCount = 30_000
	mutatedCount    = 90_000
	numberCount     = 30_000
)

// newServer returns a database with a function that tries a document: it gives
// what jsonb prints, or null where jsonb refuses. It takes bytes, so that also
// invalid UTF-8 gets there, and checks them as a text parameter is checked.
func newServer(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE FUNCTION try(doc bytea) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN RETURN convert_from(doc, 'UTF8')::jsonb::text; EXCEPTION WHEN OTHERS THEN
			-- Refusals only: a failure of another kind is one of the test.
			IF SQLSTATE IN ('22P02', '22P05', '22021', '22003') THEN RETURN NULL; END IF;
			RAISE;
		END $$`)
	require.NoError(t, err)
	return pool
}

// batch is how many documents go to the server in one statement.
const batch = 2000

// compare sends documents to the server and compares what it does with what
// Check, Printed and Canonical do. It returns how many were accepted.
func compare(t *testing.T, pool *pgxpool.Pool, docs [][]byte) (accepted int) {
	t.Helper()
	for len(docs) > 0 {
		part := docs[:min(batch, len(docs))]
		docs = docs[len(part):]
		rows, err := pool.Query(t.Context(), `SELECT try(doc) FROM unnest($1::bytea[]) WITH ORDINALITY AS d(doc, place) ORDER BY place`, part)
		require.NoError(t, err)
		answers, err := pgx.CollectRows(rows, pgx.RowTo[*string])
		require.NoError(t, err)
		require.Len(t, answers, len(part))
		for i, doc := range part {
			if compareOne(t, doc, answers[i]) {
				accepted++
			}
		}
	}
	return accepted
}

func compareOne(t *testing.T, doc []byte, answer *string) (accepted bool) {
	t.Helper()
	_, err := jsonscan.Check(doc, jsonscan.Limits{})
	var refusal *jsonscan.Error
	if errors.As(err, &refusal) {
		switch refusal.Reason {
		case jsonscan.ReasonSize, jsonscan.ReasonDepth, jsonscan.ReasonExpansion:
			return false // our own limits
		}
	}
	if (err == nil) != (answer != nil) {
		t.Fatalf("%q: Check says %v, PostgreSQL says %s", clip(doc), err, show(answer))
	}
	if err != nil {
		return false
	}
	printed, err := jsonscan.Printed(doc)
	require.NoError(t, err, "%q", clip(doc))
	if string(printed) != *answer {
		t.Fatalf("%q: printed as %q, by PostgreSQL as %q", clip(doc), clip(printed), clip([]byte(*answer)))
	}
	ours, err := jsonscan.Canonical(doc)
	require.NoError(t, err)
	theirs, err := jsonscan.Canonical([]byte(*answer))
	require.NoError(t, err)
	if string(ours) != string(theirs) {
		t.Fatalf("%q: canonically %q, from PostgreSQL %q", clip(doc), clip(ours), clip(theirs))
	}
	return true
}

func clip(doc []byte) []byte { return doc[:min(len(doc), 400)] }

func show(answer *string) string {
	if answer == nil {
		return "no"
	}
	return fmt.Sprintf("%q", clip([]byte(*answer)))
}

// TestWellFormed: what is well-formed is accepted by both and printed alike.
func TestWellFormed(t *testing.T) {
	pool := newServer(t)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	docs := make([][]byte, wellFormedCount)
	for i := range docs {
		docs[i] = []byte(g.space() + g.value(4) + g.space())
	}
	require.Equal(t, len(docs), compare(t, pool, docs))
}

// TestMutated: documents with a few bytes wrong are accepted by both or
// refused by both.
func TestMutated(t *testing.T) {
	pool := newServer(t)
	g := generator{rand.New(rand.NewPCG(3, 4))}
	docs := make([][]byte, mutatedCount)
	for i := range docs {
		docs[i] = []byte(g.space() + g.value(2) + g.space())
		for range 1 + g.IntN(2) {
			docs[i] = g.mutate(docs[i])
		}
	}
	accepted := compare(t, pool, docs)
	require.Greater(t, accepted, len(docs)/20, "the mutations are small enough to be told from noise")
	require.Less(t, accepted, len(docs)*19/20)
	t.Logf("%d of %d accepted", accepted, len(docs))
}

// TestNumbers: numbers around the bounds of numeric.
func TestNumbers(t *testing.T) {
	pool := newServer(t)
	g := generator{rand.New(rand.NewPCG(5, 6))}
	zeros := func(n int) string { return strings.Repeat("0", n) }
	var docs [][]byte
	for _, number := range []string{
		"1e131071", "9.99e131071", "1e131072", "10e131070", "10e131071", "0.1e131072", "0.1e131073", "0.01e131073", "1e400", "-1e131071", "-1e131072",
		"1e-16383", "1e-16384", "1.0e-16382", "1.0e-16383", "15e-16384", "0e-16383", "0e-16384", "0.0e-16383",
		"0e999999", "0e131072", "0e536870911", "0e536870912", "0e1073741821", "0e1073741822", "0e1073741824", "0e2147483647", "0e2147483648",
		"0e-1073741823", "0e9223372036854775807", "0e9223372036854775808", "1e99999999999999999999999", "0e-99999999999999999999999", "0e+0000000000000000000000000002",
		"1e1073741822", "1e-1073741822", "1" + zeros(131071), "1" + zeros(131072), "0." + zeros(16383), "0." + zeros(16384), "0." + zeros(16384) + "e1",
		"0." + zeros(20000) + "1e20000", "0." + zeros(200000) + "1e200000", "1" + zeros(200000) + "e-100000", "1" + zeros(140000) + "e-10000", "1" + zeros(147455) + "e-16383", "1" + zeros(147456) + "e-16384",
		strings.Repeat("9", 131072) + "." + strings.Repeat("9", 16383), strings.Repeat("9", 131072) + "." + strings.Repeat("9", 16384),
		"-0", "-0.0", "-0e5", "-0.00e1", "0.00e1", "0.000e-2", "1e0", "1E+0", "1.0e-0", "9007199254740993", "0.1000", "1e2", "1E-3",
	} {
		docs = append(docs, []byte(number))
	}
	for range numberCount {
		number := g.number()
		if g.IntN(50) == 0 { // these print long
			number = fmt.Sprintf("%de%d", g.IntN(2000), []int{131071, -16383}[g.IntN(2)]+g.IntN(9)-4)
		}
		docs = append(docs, []byte(number))
	}
	compare(t, pool, docs)
}

// TestLargestExponent: from PostgreSQL 16 on the exponent of a zero may be one
// larger than before. Check keeps the bound that all servers share, so that a
// document is good on all of them.
func TestLargestExponent(t *testing.T) {
	pool := newServer(t)
	var version int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version))
	const largest, beyond = "0e1073741822", "0e1073741823"
	require.Equal(t, 1, compare(t, pool, [][]byte{[]byte(largest)}))

	var answer *string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT try($1)", []byte(beyond)).Scan(&answer))
	require.Equal(t, version >= 160000, answer != nil, "PostgreSQL says %s", show(answer))
	_, err := jsonscan.Check([]byte(beyond), jsonscan.Limits{})
	var refusal *jsonscan.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, jsonscan.ReasonNumber, refusal.Reason)
}

// TestParameters: a document that is a parameter of type jsonb, or one of type
// text that is cast, meets the same rules as one that goes through the function.
func TestParameters(t *testing.T) {
	conn, err := newServer(t).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	g := generator{rand.New(rand.NewPCG(7, 8))}
	for range 3000 {
		doc := []byte(g.value(2))
		if g.IntN(2) == 0 {
			doc = g.mutate(doc)
		}
		for _, query := range []string{`SELECT $1::text::jsonb::text`, `SELECT $1::jsonb::text`} {
			// The bytes go as they are: no client library looks into them.
			result := conn.Conn().PgConn().ExecParams(t.Context(), query, [][]byte{doc}, nil, nil, nil).Read()
			var answer *string
			if result.Err == nil {
				text := string(result.Rows[0][0])
				answer = &text
			}
			compareOne(t, doc, answer)
		}
	}
}

// TestDepth: PostgreSQL takes what Check takes at its deepest.
func TestDepth(t *testing.T) {
	pool := newServer(t)
	deepest := []byte(strings.Repeat("[", 512) + strings.Repeat("]", 512))
	objects := []byte(strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512))
	require.Equal(t, 2, compare(t, pool, [][]byte{deepest, objects}))
}

// TestExpansion: a document as large as Check allows, whose numbers grow as much
// as it allows, is stored and read back. Without that bound jsonb would store
// one megabyte of such numbers that it can no longer print: text ends at 1 GB.
func TestExpansion(t *testing.T) {
	pool := newServer(t)
	filler := `,"` + strings.Repeat("x", jsonscan.DefaultMaxBytes-200) + `"]`
	doc := []byte("[" + strings.Repeat("1e131071,", 7) + "1e100" + filler)
	require.Equal(t, 1, compare(t, pool, [][]byte{doc}))

	_, err := jsonscan.Check([]byte("["+strings.Repeat("1e131071,", 9000)+"1]"), jsonscan.Limits{})
	var refusal *jsonscan.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, jsonscan.ReasonExpansion, refusal.Reason)
}
