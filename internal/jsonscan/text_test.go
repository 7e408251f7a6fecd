package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func TestAppendString(t *testing.T) {
	for s, want := range map[string]string{
		"":                         `""`,
		"a/b<&>":                   `"a/b<&>"`,
		"\"\\\b\f\n\r\t":           `"\"\\\b\f\n\r\t"`,
		"\x01\x02\x1f\x7f":         "\"\\u0001\\u0002\\u001f\x7f\"",
		"é世\U0001F600\u2028\uFFFD": "\"é世\U0001F600\u2028\uFFFD\"",
	} {
		require.Equal(t, want, string(jsonscan.AppendString(nil, s)))
		require.Equal(t, "x"+want, string(jsonscan.AppendString([]byte("x"), s)))
	}
	// What CheckString refuses stays refused.
	for _, s := range []string{"a\x00", "\xff", "\xed\xa0\x80"} {
		require.Error(t, jsonscan.CheckString(s))
		_, err := jsonscan.Check(jsonscan.AppendString(nil, s), jsonscan.Limits{})
		require.Error(t, err)
	}
}

func TestCheckString(t *testing.T) {
	require.NoError(t, jsonscan.CheckString("é\x01\uFFFD"))
	require.Equal(t, jsonscan.Error{Offset: 2, Reason: jsonscan.ReasonNUL}, *refused(t, jsonscan.CheckString("é\x00")))
	require.Equal(t, jsonscan.Error{Offset: 5, Reason: jsonscan.ReasonInvalidUTF8}, *refused(t, jsonscan.CheckString("é\uFFFD\xff")))
}

// TestStrings: what is written is read back, by us and by encoding/json.
func TestStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ToValidUTF8(strings.ReplaceAll(rapid.String().Draw(t, "s"), "\x00", ""), "")
		raw := jsonscan.AppendString(nil, s)
		back, err := jsonscan.UnquoteString(raw)
		require.NoError(t, err)
		require.Equal(t, s, back)
		var std string
		require.NoError(t, json.Unmarshal(raw, &std))
		require.Equal(t, s, std)

		escaped, err := json.Marshal(s) // other escapes, the same string
		require.NoError(t, err)
		back, err = jsonscan.UnquoteString(escaped)
		require.NoError(t, err)
		require.Equal(t, s, back)
	})
}

func TestUnquoteString(t *testing.T) {
	s, err := jsonscan.UnquoteString([]byte(" \"a\\/\\ud83d\\uDE00\\u00e9\" "))
	require.NoError(t, err)
	require.Equal(t, "a/\U0001F600é", s)
	for raw, want := range map[string]jsonscan.Reason{
		"": jsonscan.ReasonNotString, "1": jsonscan.ReasonNotString, `"a" 1`: jsonscan.ReasonNotString,
		`"`: jsonscan.ReasonSyntax, `"\`: jsonscan.ReasonSyntax, `"\u0000"`: jsonscan.ReasonNUL,
		`"\ud800"`: jsonscan.ReasonSurrogate, "\"\xff\"": jsonscan.ReasonInvalidUTF8, "\"\x01\"": jsonscan.ReasonControl,
	} {
		_, err := jsonscan.UnquoteString([]byte(raw))
		require.Equal(t, want, refused(t, err).Reason, "%q", raw)
	}
}
