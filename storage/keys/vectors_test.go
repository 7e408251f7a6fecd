package keys_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage/keys"
)

// vector is one row of the table in KEYS.md.
type vector struct {
	notation string
	elems    []keys.Element
	text     string
}

// TestGoldenVectors holds the code to the document, in both directions.
func TestGoldenVectors(t *testing.T) {
	vectors := readVectors(t)
	require.Greater(t, len(vectors), 30)
	for i, v := range vectors {
		text, err := keys.Encode(v.elems...)
		require.NoError(t, err, v.notation)
		require.Equal(t, v.text, text, v.notation)

		built, err := build(v.elems).Text()
		require.NoError(t, err, v.notation)
		require.Equal(t, v.text, built, v.notation)

		elems, err := keys.Decode(v.text)
		require.NoError(t, err, v.notation)
		require.Equal(t, v.elems, elems, v.notation)

		if i > 0 {
			require.Less(t, vectors[i-1].text, v.text, "the table is in order")
			require.Negative(t, compare(vectors[i-1].elems, v.elems), "the tuples are in the order of their texts")
		}
	}
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile("KEYS.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(data), "## Golden vectors")
	require.True(t, found)

	var vectors []vector
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		notation, text := code(cells[1]), code(cells[2])
		elems, err := parseTuple(notation)
		require.NoError(t, err, notation)
		vectors = append(vectors, vector{notation, elems, text})
	}
	return vectors
}

// code returns what stands between the backticks of a table cell.
func code(cell string) string { return strings.Trim(strings.TrimSpace(cell), "`") }

// parseTuple reads the notation of KEYS.md: kind, space, value, joined by ", ".
func parseTuple(notation string) (elems []keys.Element, err error) {
	for rest := notation; rest != ""; {
		kind, after, found := strings.Cut(rest, " ")
		if !found {
			return nil, fmt.Errorf("%q: no value", rest)
		}
		value, next, _ := strings.Cut(after, ", ")
		if kind == "string" {
			if value, err = strconv.QuotedPrefix(after); err != nil {
				return nil, err
			}
			next = strings.TrimPrefix(after[len(value):], ", ")
		}
		e, err := parseElement(kind, value)
		if err != nil {
			return nil, err
		}
		elems, rest = append(elems, e), next
	}
	return elems, nil
}

func parseElement(kind, value string) (e keys.Element, err error) {
	switch kind {
	case "int":
		e.Kind = keys.KindInt
		e.Int, err = strconv.ParseInt(value, 10, 64)
	case "micros": // a time that RFC 3339 cannot write
		e.Kind = keys.KindTime
		e.Int, err = strconv.ParseInt(value, 10, 64)
	case "time":
		var at time.Time
		e.Kind = keys.KindTime
		at, err = time.Parse(time.RFC3339Nano, value)
		e.Int = at.UnixMicro()
	case "uuid":
		e.Kind = keys.KindUUID
		e.UUID, err = uuid.Parse(value)
	case "string":
		e.Kind = keys.KindString
		e.Str, err = strconv.Unquote(value)
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	return e, err
}

// build makes the tuple with the builder instead of Encode.
func build(elems []keys.Element) keys.Tuple {
	tuple := keys.New()
	for _, e := range elems {
		switch e.Kind {
		case keys.KindInt:
			tuple = tuple.Int(e.Int)
		case keys.KindString:
			tuple = tuple.String(e.Str)
		case keys.KindUUID:
			tuple = tuple.UUID(e.UUID)
		case keys.KindTime:
			tuple = tuple.Time(e.Time())
		case keys.KindCommitTime:
			tuple = tuple.CommitTime()
		case keys.KindCommitTimeLater:
			tuple = tuple.CommitTimeLater()
		}
	}
	return tuple
}

// compare is the order of tuples, told without the encoding.
func compare(a, b []keys.Element) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if order := compareElement(a[i], b[i]); order != 0 {
			return order
		}
	}
	return len(a) - len(b)
}

func compareElement(a, b keys.Element) int {
	if a.Kind != b.Kind {
		rank := map[keys.Kind]int{keys.KindInt: 1, keys.KindString: 2, keys.KindUUID: 3, keys.KindTime: 4}
		return rank[a.Kind] - rank[b.Kind]
	}
	switch a.Kind {
	case keys.KindString:
		return strings.Compare(a.Str, b.Str)
	case keys.KindUUID:
		return strings.Compare(string(a.UUID[:]), string(b.UUID[:]))
	}
	switch {
	case a.Int < b.Int:
		return -1
	case a.Int > b.Int:
		return 1
	}
	return 0
}
