package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ doc, canonical, printed string }{
		{" null ", "null", "null"},
		{"[ 1 , true,false ]", "[1,true,false]", "[1, true, false]"},
		{"{ }", "{}", "{}"},
		{`{"bb":1,"a":2,"":3,"c":4}`, `{"":3,"a":2,"c":4,"bb":1}`, `{"": 3, "a": 2, "c": 4, "bb": 1}`},
		{`{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`, `{"a": 3, "b": 2}`},
		{`{"a":{"y":1,"x":2},"\u0061":{"z":[{"k":1,"k":0}]}}`, `{"a":{"z":[{"k":0}]}}`, `{"a": {"z": [{"k": 0}]}}`},
		{`{"é":1,"zz":2,"b":3}`, `{"b":3,"zz":2,"é":1}`, `{"b": 3, "zz": 2, "é": 1}`},
		{`"\/\u00e9\ud83d\ude00\u001F\u007f\b\"\\"`, "\"/é\U0001F600\\u001f\x7f\\b\\\"\\\\\"", "\"/é\U0001F600\\u001f\x7f\\b\\\"\\\\\""},
		{"{\"b\":\"\x01\",\"a\":\"\\u0001\"}", "{\"a\":\"\\u0001\",\"b\":\"\x01\"}", "{\"a\": \"\\u0001\", \"b\": \"\x01\"}"},
	} {
		out, err := jsonscan.Canonical([]byte(c.doc))
		require.NoError(t, err, c.doc)
		require.Equal(t, c.canonical, string(out), c.doc)
		out, err = jsonscan.Printed([]byte(c.doc))
		require.NoError(t, err, c.doc)
		require.Equal(t, c.printed, string(out), c.doc)
	}
	_, err := jsonscan.Canonical([]byte(`{"a":1e999999}`))
	require.Equal(t, jsonscan.Error{Path: "a", Offset: 5, Reason: jsonscan.ReasonNumber}, *refused(t, err))
	_, err = jsonscan.Canonical([]byte("[" + strings.Repeat("1e131071,", 200) + "1]"))
	require.Equal(t, jsonscan.ReasonExpansion, refused(t, err).Reason)
	large := `"` + strings.Repeat("a", 2<<20) + `"`
	out, err := jsonscan.Canonical([]byte(large))
	require.NoError(t, err)
	require.Equal(t, large, string(out))
}

// TestCanonicalNumbers lists what PostgreSQL prints.
func TestCanonicalNumbers(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "-0": "0", "-0.0": "0.0", "0e5": "0", "0.0e5": "0", "0.00e1": "0.0", "0.000e2": "0.0", "0.0e-2": "0.000", "-0e-3": "0.000",
		"1e2": "100", "1E+2": "100", "1e-3": "0.001", "1E-3": "0.001", "-1E-3": "-0.001", "0.1000": "0.1000", "1.50e1": "15.0", "1.5e+1": "15",
		"12.5e-1": "1.25", "100e-2": "1.00", "1.0e2": "100", "123.456e1": "1234.56", "123.456e4": "1234560", "0.001e2": "0.1", "0.001e3": "1",
		"0.001e5": "100", "-12.34": "-12.34", "9007199254740993": "9007199254740993", "0e1073741822": "0",
		"1e131071": "1" + strings.Repeat("0", 131071), "1e-16383": "0." + strings.Repeat("0", 16382) + "1",
	} {
		out, err := jsonscan.Canonical([]byte(number))
		require.NoError(t, err, number)
		require.Equal(t, want, string(out), number)
	}
}

// TestNumbersKeepTheirValue compares with exact rational arithmetic.
func TestNumbersKeepTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := genNumber(t)
		out, err := jsonscan.Canonical([]byte(number))
		require.NoError(t, err)
		want, ok := new(big.Rat).SetString(number)
		require.True(t, ok)
		got, ok := new(big.Rat).SetString(string(out))
		require.True(t, ok, "%s", out)
		require.Zero(t, want.Cmp(got), "%s and %s", number, out)
		again, err := jsonscan.Canonical(out)
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

// TestCanonicalKeepsTheValue compares with encoding/json, which keeps the last
// of duplicate keys too.
func TestCanonicalKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := genObject(t, 4)
		out, err := jsonscan.Canonical(doc)
		require.NoError(t, err, "%q", doc)
		require.Equal(t, decode(t, doc), decode(t, out))

		again, err := jsonscan.Canonical(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		printed, err := jsonscan.Printed(doc)
		require.NoError(t, err)
		again, err = jsonscan.Canonical(printed)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
	})
}

// decode decodes with numbers as canonical text, so that values compare.
func decode(t *rapid.T, doc []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	require.NoError(t, d.Decode(&value))
	return canonicalNumbers(t, value)
}

func canonicalNumbers(t *rapid.T, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = canonicalNumbers(t, v[k])
		}
	case []any:
		for i := range v {
			v[i] = canonicalNumbers(t, v[i])
		}
	case json.Number:
		out, err := jsonscan.Canonical([]byte(v))
		require.NoError(t, err)
		return json.Number(out)
	}
	return value
}

// TestCanonicalIsLinear: nesting and disorder do not make it read twice.
func TestCanonicalIsLinear(t *testing.T) {
	var doc []byte
	for range 500 {
		doc = append(doc, `{"b":1,"a":`...)
	}
	doc = jsonscan.AppendString(doc, strings.Repeat("x", 500_000))
	doc = append(doc, strings.Repeat("}", 500)...)
	start := time.Now()
	_, err := jsonscan.Canonical(doc)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 5*time.Second)
}
