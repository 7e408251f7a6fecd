package jsonscan_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func refused(t *testing.T, err error) *jsonscan.Error {
	t.Helper()
	var e *jsonscan.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestCheckAccepts(t *testing.T) {
	for _, doc := range []string{
		"0", "-0", "0.0", "1e2", "1E+2", "-1.5e-3", "true", "false", "null", `""`, "[]", "{}", " [ ] ", "\t{\r\n}\n",
		`{"a":1,"a":2}`, `{"":{"":[]}}`, `[1, "x", null, {"a": [true]}]`, `"\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00"`,
		"\"\x7f\u00e9\u4e16\U0010FFFF\uFFFF\uFFFD\"", `"\u0001"`, "9007199254740993", strings.Repeat("[", 512) + strings.Repeat("]", 512),
	} {
		info, err := jsonscan.Check([]byte(doc), jsonscan.Limits{})
		require.NoError(t, err, doc)
		require.Zero(t, info)
		require.True(t, json.Valid([]byte(doc)))
	}
}

func TestCheckRefuses(t *testing.T) {
	deep := strings.Repeat("[", 513) + strings.Repeat("]", 513)
	for _, c := range []struct {
		doc, path string
		offset    int
		reason    jsonscan.Reason
	}{
		{"", "", 0, jsonscan.ReasonSyntax},
		{"  ", "", 2, jsonscan.ReasonSyntax},
		{"\xef\xbb\xbf1", "", 0, jsonscan.ReasonSyntax},
		{"tru", "", 0, jsonscan.ReasonSyntax},
		{"truex", "", 4, jsonscan.ReasonSyntax},
		{"1 2", "", 2, jsonscan.ReasonSyntax},
		{"01", "", 1, jsonscan.ReasonSyntax},
		{"-", "", 1, jsonscan.ReasonSyntax},
		{"+1", "", 0, jsonscan.ReasonSyntax},
		{".5", "", 0, jsonscan.ReasonSyntax},
		{"1.", "", 2, jsonscan.ReasonSyntax},
		{"1e", "", 2, jsonscan.ReasonSyntax},
		{"1e+", "", 3, jsonscan.ReasonSyntax},
		{"NaN", "", 0, jsonscan.ReasonSyntax},
		{"'a'", "", 0, jsonscan.ReasonSyntax},
		{"[1,]", "[1]", 3, jsonscan.ReasonSyntax},
		{"[1 2]", "[0]", 3, jsonscan.ReasonSyntax},
		{"[", "[0]", 1, jsonscan.ReasonSyntax},
		{"[1", "[0]", 2, jsonscan.ReasonSyntax},
		{`{"a":1,}`, "", 7, jsonscan.ReasonSyntax},
		{`{"a" 1}`, "a", 5, jsonscan.ReasonSyntax},
		{`{a:1}`, "", 1, jsonscan.ReasonSyntax},
		{`{"a":1]`, "a", 6, jsonscan.ReasonSyntax},
		{`{"a":1`, "a", 6, jsonscan.ReasonSyntax},
		{`{"a":"b`, "a", 7, jsonscan.ReasonSyntax},
		{`{"a":"\x"}`, "a", 6, jsonscan.ReasonSyntax},
		{`{"a":"\`, "a", 6, jsonscan.ReasonSyntax},
		{`"\u12g4"`, "", 1, jsonscan.ReasonSyntax},
		{`"\u12`, "", 1, jsonscan.ReasonSyntax},
		{"{\"value\":{\"items\":[0,1,2,{\"name\":\"a\tb\"}]}}", "value.items[3].name", 35, jsonscan.ReasonControl},
		{"[\"\x01\"]", "[0]", 2, jsonscan.ReasonControl},
		{"[\"\x00\"]", "[0]", 2, jsonscan.ReasonControl},
		{`{"value":{"odd key":["\u0000"]}}`, `value["odd key"][0]`, 22, jsonscan.ReasonNUL},
		{`{"a":{"\u0000":1}}`, "a", 7, jsonscan.ReasonNUL},
		{`{"":[1],"b":"\ud800"}`, "b", 13, jsonscan.ReasonSurrogate},
		{`{"":["\udc00"]}`, `[""][0]`, 6, jsonscan.ReasonSurrogate},
		{`"\ud800\ud800"`, "", 1, jsonscan.ReasonSurrogate},
		{`"\ud800\n"`, "", 1, jsonscan.ReasonSurrogate},
		{`"\ud83d\u12"`, "", 1, jsonscan.ReasonSurrogate},
		{"{\"a\":\"\xff\"}", "a", 6, jsonscan.ReasonInvalidUTF8},
		{"{\"\xc3\":1}", "", 2, jsonscan.ReasonInvalidUTF8},
		{"\"\xed\xa0\x80\"", "", 1, jsonscan.ReasonInvalidUTF8},
		{"\"\xc0\x80\"", "", 1, jsonscan.ReasonInvalidUTF8},
		{"\"\xf4\x90\x80\x80\"", "", 1, jsonscan.ReasonInvalidUTF8},
		{`{"n":[1,1e131072]}`, "n[1]", 8, jsonscan.ReasonNumber},
		{deep, strings.Repeat("[0]", 16) + "…" + strings.Repeat("[0]", 8), 512, jsonscan.ReasonDepth},
		{`{"pay\u006coad":1e999999}`, "payload", 16, jsonscan.ReasonNumber},
		{`{"` + strings.Repeat("é", 50) + `":1e999999}`, `["` + strings.Repeat("é", 32) + `…"]`, 104, jsonscan.ReasonNumber},
		{`{"` + strings.Repeat("k", 70) + `":{"b":01}}`, strings.Repeat("k", 64) + "….b", 80, jsonscan.ReasonSyntax},
	} {
		_, err := jsonscan.Check([]byte(c.doc), jsonscan.Limits{})
		e := refused(t, err)
		require.Equal(t, jsonscan.Error{Path: c.path, Offset: c.offset, Reason: c.reason}, *e, "%q", c.doc)
	}
	_, err := jsonscan.Check([]byte(`{"a":[01]}`), jsonscan.Limits{})
	require.EqualError(t, err, "json: a[0] is not valid JSON (at byte 7)")
	_, err = jsonscan.Check(nil, jsonscan.Limits{})
	require.EqualError(t, err, "json: document is not valid JSON (at byte 0)")
}

// TestNumberRange holds the bounds that PostgreSQL 15 was seen to have; the
// live suite compares them with the server at hand.
func TestNumberRange(t *testing.T) {
	for _, c := range []struct {
		number string
		ok     bool
	}{
		{"1e131071", true}, {"9.99e131071", true}, {"1e131072", false}, {"10e131070", true}, {"10e131071", false},
		{"0.1e131072", true}, {"0.1e131073", false}, {"0.01e131073", true}, {"1e400", true}, {"-1e131072", false},
		{"1e-16383", true}, {"1e-16384", false}, {"1.0e-16383", false}, {"15e-16384", false}, {"0e-16383", true}, {"0e-16384", false},
		{"0e999999", true}, {"0e536870912", true}, {"0e1073741822", true}, {"0e1073741823", false}, {"0e1073741824", false},
		{"0e2147483648", false}, {"0e99999999999999999999", false}, {"0e-999999", false}, {"1e99999999999999999999", false},
		{"1e-99999999999999999999", false}, {"1e000000000000000000000000000002", true},
		{"1" + strings.Repeat("0", 131071), true}, {"1" + strings.Repeat("0", 131072), false},
		{"0." + strings.Repeat("0", 16383), true}, {"0." + strings.Repeat("0", 16384), false},
		{"0." + strings.Repeat("0", 16384) + "e1", true},
		{strings.Repeat("9", 131072) + "." + strings.Repeat("9", 16383), true},
		{strings.Repeat("9", 131072) + "." + strings.Repeat("9", 16384), false},
		{"1" + strings.Repeat("0", 140000) + "e-10000", true},
	} {
		_, err := jsonscan.Check([]byte(c.number), jsonscan.Limits{})
		if c.ok {
			require.NoError(t, err, "%.40s", c.number)
			continue
		}
		require.Equal(t, jsonscan.ReasonNumber, refused(t, err).Reason, "%.40s", c.number)
	}
}

// TestHugeExponentsAreCheap: a document full of absurd exponents costs no more
// than its bytes.
func TestHugeExponentsAreCheap(t *testing.T) {
	zeros := "[" + strings.Repeat("0e1073741822,", 70000) + "0]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := jsonscan.Check([]byte(zeros), jsonscan.Limits{})
	require.NoError(t, err)
	out, err := jsonscan.Canonical([]byte(zeros))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Len(t, out, 2*70001+1)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32*len(zeros)), "bytes allocated")
}

func TestLimits(t *testing.T) {
	check := func(doc string, limits jsonscan.Limits) jsonscan.Reason {
		_, err := jsonscan.Check([]byte(doc), limits)
		if err == nil {
			return ""
		}
		return refused(t, err).Reason
	}
	require.Equal(t, jsonscan.Reason(""), check(`"abc"`, jsonscan.Limits{MaxBytes: 5}))
	require.Equal(t, jsonscan.ReasonSize, check(`"abcd"`, jsonscan.Limits{MaxBytes: 5}))
	require.Equal(t, jsonscan.Reason(""), check(`"`+strings.Repeat("a", 1<<20-2)+`"`, jsonscan.Limits{}))
	require.Equal(t, jsonscan.ReasonSize, check(`"`+strings.Repeat("a", 1<<20-1)+`"`, jsonscan.Limits{}))
	require.Equal(t, jsonscan.Reason(""), check(`[{"a":[]}]`, jsonscan.Limits{MaxDepth: 3}))
	require.Equal(t, jsonscan.ReasonDepth, check(`[{"a":[[]]}]`, jsonscan.Limits{MaxDepth: 3}))
	require.Equal(t, jsonscan.Reason(""), check(`[[],[],[],{}]`, jsonscan.Limits{MaxDepth: 2}))

	// 1e131071 is 8 bytes here and 131,072 bytes when it is read back.
	require.Equal(t, jsonscan.Reason(""), check("["+strings.Repeat("1e131071,", 7)+"1e131071]", jsonscan.Limits{}))
	require.Equal(t, jsonscan.ReasonExpansion, check("["+strings.Repeat("1e131071,", 8)+"1e131071]", jsonscan.Limits{}))
}

func TestMarks(t *testing.T) {
	marks := jsonscan.Limits{Marks: true}
	for _, c := range []struct {
		doc  string
		info jsonscan.Info
	}{
		{`{"a":1}`, jsonscan.Info{}},
		{"\"\x01\"", jsonscan.Info{CommitTime: true}},
		{"[\"\x02\", 1]", jsonscan.Info{Later: true}},
		{"{\"a\":\"\x01\",\"b\":[{\"c\":\"\x02\"}]}", jsonscan.Info{CommitTime: true, Later: true}},
	} {
		info, err := jsonscan.Check([]byte(c.doc), marks)
		require.NoError(t, err)
		require.Equal(t, c.info, info)
		if c.info != (jsonscan.Info{}) {
			_, err = jsonscan.Check([]byte(c.doc), jsonscan.Limits{})
			require.Equal(t, jsonscan.ReasonControl, refused(t, err).Reason)
		}
	}
	for _, doc := range []string{"{\"\x01\":1}", "\"\x01\x01\"", "\"a\x01\"", "\"\x01a\"", "\"\x03\"", "\"\x00\"", "\"\x01", "{\"a\":{\"\x02\":\"\x01\"}}"} {
		_, err := jsonscan.Check([]byte(doc), marks)
		require.Equal(t, jsonscan.ReasonControl, refused(t, err).Reason, "%q", doc)
	}
}

func TestCheckAllocates(t *testing.T) {
	doc := sample(4 << 10)
	require.Zero(t, testing.AllocsPerRun(50, func() { _, _ = jsonscan.Check(doc, jsonscan.Limits{}) }))
}
