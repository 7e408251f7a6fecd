package keys_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/storage/keys"
)

// Pieces that strings are made of: what sorts around the bytes of the format,
// what has to be escaped, what looks like an encoding, what is multi-byte.
var pieces = []string{
	"", "a", "b", "a1", ":", "a:z", "!", "\"", "#", "$", "%", "@", "\x01", "\x02", "\x1f", " ", "\"21", "\"01",
	"~", "\x7f", "\u0080", "é", "世界", "\U0001F600", "\U0010FFFF", "\uFFFD", "\u2028", "#8000000000000001", "$a!",
}

func genElement() *rapid.Generator[keys.Element] {
	ints := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4).Draw(t, "pieces"), "")
	})
	return rapid.Custom(func(t *rapid.T) keys.Element {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return keys.Element{Kind: keys.KindInt, Int: ints.Draw(t, "int")}
		case 1:
			return keys.Element{Kind: keys.KindTime, Int: ints.Draw(t, "micros")}
		case 2:
			var id uuid.UUID
			copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
			return keys.Element{Kind: keys.KindUUID, UUID: id}
		case 3:
			s := strings.ReplaceAll(rapid.String().Draw(t, "any string"), "\x00", "")
			return keys.Element{Kind: keys.KindString, Str: s}
		default:
			return keys.Element{Kind: keys.KindString, Str: text.Draw(t, "string")}
		}
	})
}

func genTuple() *rapid.Generator[[]keys.Element] {
	return rapid.SliceOfN(genElement(), 0, 5)
}

// genPair gives two tuples that often share a beginning.
func genPair(t *rapid.T) (a, b []keys.Element) {
	shared := rapid.SliceOfN(genElement(), 0, 2).Draw(t, "shared")
	a = append(a, shared...)
	b = append(b, shared...)
	return append(a, genTuple().Draw(t, "a")...), append(b, genTuple().Draw(t, "b")...)
}

func mustEncode(t require.TestingT, elems []keys.Element) string {
	text, err := keys.Encode(elems...)
	require.NoError(t, err)
	return text
}

// TestOrder is order preservation and injectivity at once: the sign of the
// comparison agrees, and so equal texts mean equal tuples.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genPair(t)
		got, want := strings.Compare(mustEncode(t, a), mustEncode(t, b)), compare(a, b)
		require.Equal(t, sign(want), got, "%q and %q", mustEncode(t, a), mustEncode(t, b))
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elems := genTuple().Draw(t, "tuple")
		text := mustEncode(t, elems)
		decoded, err := keys.Decode(text)
		require.NoError(t, err)
		require.ElementsMatch(t, elems, decoded)
		require.NoError(t, keys.Check(text))
		require.NotContains(t, text, keys.MarkCommitTime)
		require.NotContains(t, text, keys.MarkCommitTimeLater)

		built, err := build(elems).Text()
		require.NoError(t, err)
		require.Equal(t, text, built)
	})
}

// TestSelfDelimiting: joining texts is joining tuples, and First and Next take
// the joint apart again.
func TestSelfDelimiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, rest := genElement().Draw(t, "first"), genTuple().Draw(t, "rest")
		head, tail := mustEncode(t, []keys.Element{first}), mustEncode(t, rest)
		require.Equal(t, head+tail, mustEncode(t, append([]keys.Element{first}, rest...)))

		prefix, err := keys.First(head + tail)
		require.NoError(t, err)
		require.Equal(t, head, prefix)

		e, after, err := keys.Next(head + tail)
		require.NoError(t, err)
		require.Equal(t, first, e)
		require.Equal(t, tail, after)
	})
}

// TestPrefixRange: the tuples that begin with an element are exactly those
// between its text and the next text after all its extensions.
func TestPrefixRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genPair(t)
		if len(a) == 0 || len(b) == 0 {
			return
		}
		text, prefix := mustEncode(t, b), mustEncode(t, a[:1])
		require.Equal(t, a[0] == b[0], strings.HasPrefix(text, prefix))
	})
}

// TestFork: a Tuple is a value; extending it twice gives two tuples.
func TestFork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := genTuple().Draw(t, "shared")
		x, y := genTuple().Draw(t, "x"), genTuple().Draw(t, "y")
		base := build(shared)
		left, right := base, base
		for i := range max(len(x), len(y)) {
			if i < len(x) {
				left = extend(left, x[i])
			}
			if i < len(y) {
				right = extend(right, y[i])
			}
		}
		for _, c := range []struct {
			tuple keys.Tuple
			want  []keys.Element
		}{{base, shared}, {left, join(shared, x)}, {right, join(shared, y)}} {
			text, err := c.tuple.Text()
			require.NoError(t, err)
			require.Equal(t, mustEncode(t, c.want), text)
		}
	})
}

func extend(tuple keys.Tuple, e keys.Element) keys.Tuple {
	switch e.Kind {
	case keys.KindInt:
		return tuple.Int(e.Int)
	case keys.KindString:
		return tuple.String(e.Str)
	case keys.KindUUID:
		return tuple.UUID(e.UUID)
	}
	return tuple.Time(e.Time())
}

func join(a, b []keys.Element) []keys.Element {
	return append(append([]keys.Element(nil), a...), b...)
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
