package jsonscan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ raw, out, value string }{
		{`{"p":1}`, `{}`, "1"},
		{` { "p" : 1 } `, ` { } `, "1"},
		{`{"p":1,"a":2}`, `{"a":2}`, "1"},
		{`{ "p":1 , "a":2 }`, `{ "a":2 }`, "1"},
		{`{"a":2,"p":1}`, `{"a":2}`, "1"},
		{`{ "a":2 , "p":1 }`, `{ "a":2}`, "1"},
		{`{"a":2, "p":1, "b":3}`, `{"a":2, "b":3}`, "1"},
		{`{"p":1,"p":2}`, `{}`, "2"},
		{`{"p":1,"p":2,"a":3,"p":4}`, `{"a":3}`, "4"},
		{`{"a":0,"p":1,"p":2,"b":3}`, `{"a":0,"b":3}`, "2"},
		{`{"a":0,"p":1,"b":3,"\u0070":{"x":"}"},"c":5}`, `{"a":0,"b":3,"c":5}`, `{"x":"}"}`},
	} {
		out, value, ok := jsonscan.Cut([]byte("x"), []byte(c.raw), "p")
		require.True(t, ok)
		require.Equal(t, "x"+c.out, string(out), c.raw)
		require.Equal(t, c.value, string(value), c.raw)
	}
	for _, raw := range []string{`{}`, `{"a":1}`, `[1]`, `1`, ``, `{"p":1`, `{"a":{"p":1}}`, `{"p":1,`, `{"a":1,"p":2 3}`} {
		out, value, ok := jsonscan.Cut([]byte("x"), []byte(raw), "p")
		require.False(t, ok)
		require.Nil(t, value)
		require.Equal(t, "x"+raw, string(out))
	}
}

func TestInsert(t *testing.T) {
	for _, c := range []struct{ raw, out string }{
		{`{}`, `{"p\"":[1]}`},
		{` { } `, ` { "p\"":[1]} `},
		{`{"a":1}`, `{"a":1,"p\"":[1]}`},
		{`{"a":{} }  `, `{"a":{} ,"p\"":[1]}  `},
	} {
		out, ok := jsonscan.Insert([]byte("x"), []byte(c.raw), `p"`, []byte("[1]"))
		require.True(t, ok)
		require.Equal(t, "x"+c.out, string(out))
		found, ok := jsonscan.Field(out[1:], `p"`)
		require.True(t, ok)
		require.Equal(t, "[1]", string(found.Value))
	}
	for _, raw := range []string{"[]", "1", "", "{", `{"a":1`} {
		out, ok := jsonscan.Insert([]byte("x"), []byte(raw), "p", []byte("1"))
		require.False(t, ok)
		require.Equal(t, "x", string(out))
	}
}

// TestCutInsert: what is cut out and put back is the same value, and what is
// left holds no trace of it.
func TestCutInsert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := genObject(t, 3)
		name := rapid.SampledFrom([]string{"a", "p", "payload", "é", ""}).Draw(t, "name")
		want, err := jsonscan.Canonical(raw)
		require.NoError(t, err, "%q", raw)

		rest, value, ok := jsonscan.Cut(nil, raw, name)
		found, had := jsonscan.Field(raw, name)
		require.Equal(t, had, ok)
		if !ok {
			require.Equal(t, raw, rest)
			return
		}
		require.Equal(t, found.Value, value)
		_, err = jsonscan.Check(rest, jsonscan.Limits{})
		require.NoError(t, err, "%q", rest)
		_, still := jsonscan.Field(rest, name)
		require.False(t, still)

		back, ok := jsonscan.Insert(nil, rest, name, value)
		require.True(t, ok)
		got, err := jsonscan.Canonical(back)
		require.NoError(t, err, "%q", back)
		require.Equal(t, string(want), string(got))
	})
}
