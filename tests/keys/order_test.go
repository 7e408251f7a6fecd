// Package keys_test compares the encoding of keys with PostgreSQL: its order
// under COLLATE "C", and the SQL expressions for integers and times.
package keys_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/pgtest"
	"github.com/seed4391e180/runlane/storage/keys"
)

// tupleCount is how many random tuples are ordered, by PostgreSQL and by Go.
const tupleCount = 120_000

// TestOrderInPostgreSQL orders tuples by comparing their elements, without the
// encoding, and expects the order that PostgreSQL gives their texts.
func TestOrderInPostgreSQL(t *testing.T) {
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	ctx := t.Context()
	_, err := pool.Exec(ctx, `CREATE TABLE tuples (n bigint NOT NULL, k text COLLATE "C" NOT NULL)`)
	require.NoError(t, err)

	tuples, texts := makeTuples(t, rand.New(rand.NewPCG(1, 2)))
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"tuples"}, []string{"n", "k"},
		pgx.CopyFromSlice(len(texts), func(i int) ([]any, error) { return []any{int64(i), texts[i]}, nil }))
	require.NoError(t, err)

	want := make([]int64, len(tuples))
	for i := range want {
		want[i] = int64(i)
	}
	slices.SortFunc(want, func(i, j int64) int { return compare(tuples[i], tuples[j]) })

	for name, query := range map[string]string{
		"by the column's collation": `SELECT n, k FROM tuples ORDER BY k, n`,
		"by an explicit collation":  `SELECT n, k FROM tuples ORDER BY k COLLATE "C", n`,
	} {
		rows, err := pool.Query(ctx, query)
		require.NoError(t, err)
		at := 0
		for rows.Next() {
			var n int64
			var k string
			require.NoError(t, rows.Scan(&n, &k))
			require.Equal(t, texts[n], k)
			if want[at] != n {
				t.Fatalf("%s, place %d: PostgreSQL has %q, the order of tuples has %q", name, at, k, texts[want[at]])
			}
			at++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, len(tuples), at)
	}

	// Joined with ":" the same parts are out of order: the test can tell.
	var joined bool
	require.NoError(t, pool.QueryRow(ctx, `SELECT 'a1:b' COLLATE "C" < 'a:z' COLLATE "C"`).Scan(&joined))
	require.True(t, joined)
	require.Negative(t, strings.Compare(must(keys.New().String("a").String("z").Text()), must(keys.New().String("a1").String("b").Text())))
}

// TestPrefixRange asks PostgreSQL for the tuples that share a first element, as
// a range over the text, and expects no neighbour among them.
func TestPrefixRange(t *testing.T) {
	pool := pgtest.New(t, pgtest.Empty()).Pool(t)
	ctx := t.Context()
	_, texts := makeTuples(t, rand.New(rand.NewPCG(3, 4)))
	texts = texts[:5000]
	_, err := pool.Exec(ctx, `CREATE TABLE tuples AS SELECT k COLLATE "C" AS k FROM unnest($1::text[]) k`, texts)
	require.NoError(t, err)

	for _, text := range texts[:100] {
		prefix, err := keys.First(text)
		require.NoError(t, err)
		want := int64(0)
		for _, other := range texts {
			if first, err := keys.First(other); err == nil && first == prefix {
				want++
			}
		}
		// U+10FFFF in UTF-8 is above every tag.
		var got int64
		require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM tuples WHERE k >= $1 AND k < $1 || U&'\+10FFFF'`, prefix).Scan(&got))
		require.Equal(t, want, got, "%q", prefix)
	}
}

// makeTuples makes tupleCount different tuples, most of which share beginnings
// with others.
func makeTuples(t *testing.T, r *rand.Rand) (tuples [][]keys.Element, texts []string) {
	t.Helper()
	seen := make(map[string]bool, tupleCount)
	var recent [][]keys.Element
	for len(tuples) < tupleCount {
		var tuple []keys.Element
		if len(recent) > 0 && r.IntN(3) > 0 {
			from := recent[r.IntN(len(recent))]
			tuple = slices.Clone(from[:r.IntN(len(from)+1)])
		}
		for range r.IntN(4) {
			tuple = append(tuple, randomElement(r))
		}
		if n := len(tuple); n > 0 && tuple[n-1].Kind == keys.KindString && r.IntN(2) == 0 {
			tuple[n-1].Str += randomText(r, 2) // a string that another tuple's string begins with
		}
		text, err := keys.Encode(tuple...)
		require.NoError(t, err)
		if len(tuple) == 0 || seen[text] {
			continue
		}
		seen[text] = true
		tuples, texts = append(tuples, tuple), append(texts, text)
		if len(recent) < 2000 {
			recent = append(recent, tuple)
		} else {
			recent[r.IntN(len(recent))] = tuple
		}
	}
	return tuples, texts
}

func randomElement(r *rand.Rand) keys.Element {
	switch r.IntN(6) {
	case 0:
		return keys.Element{Kind: keys.KindInt, Int: randomInt(r)}
	case 1:
		return keys.Element{Kind: keys.KindTime, Int: randomInt(r)}
	case 2:
		var id uuid.UUID
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 {
			clear(id[:15])
		}
		return keys.Element{Kind: keys.KindUUID, UUID: id}
	}
	return keys.Element{Kind: keys.KindString, Str: randomText(r, 4)}
}

func randomInt(r *rand.Rand) int64 {
	switch r.IntN(4) {
	case 0:
		return int64(r.IntN(7)) - 3
	case 1:
		return []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, 1 << 32, math.MaxInt64 - 1, math.MaxInt64}[r.IntN(6)]
	}
	return int64(r.Uint64()) >> r.IntN(64)
}

// pieces are what sorts around the bytes of the format, what has to be escaped,
// what looks like an encoding, and what is multi-byte.
var pieces = []string{
	"a", "a1", "b", ":", "a:z", "a1:b", "!", "\"", "#", "$", "%", "@", "\x01", "\x02", "\x1f", " ", "\t", "\n", "\"21", "\"01",
	"~", "\x7f", "\u0080", "é", "e\u0301", "世界", "\uFFFD", "\uFFFF", "\U0001F600", "\U0010FFFF", "$a!", "#8000000000000001",
}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		if r.IntN(8) == 0 {
			b.WriteRune(rune(1 + r.IntN(0x2ff)))
			continue
		}
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// compare is the order of tuples that the encoding promises.
func compare(a, b []keys.Element) int {
	return slices.CompareFunc(a, b, func(x, y keys.Element) int {
		rank := func(k keys.Kind) int {
			return slices.Index([]keys.Kind{keys.KindInt, keys.KindString, keys.KindUUID, keys.KindTime}, k)
		}
		return cmp.Or(
			cmp.Compare(rank(x.Kind), rank(y.Kind)),
			cmp.Compare(x.Int, y.Int),
			strings.Compare(x.Str, y.Str),
			slices.Compare(x.UUID[:], y.UUID[:]),
		)
	})
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}
