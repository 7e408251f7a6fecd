package jsonscan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func TestKindOf(t *testing.T) {
	for raw, want := range map[string]jsonscan.Kind{
		" null": jsonscan.KindNull, "true": jsonscan.KindBool, "false": jsonscan.KindBool, "-1": jsonscan.KindNumber, "0": jsonscan.KindNumber,
		`"a"`: jsonscan.KindString, jsonscan.MarkCommitTime: jsonscan.KindString, "\n[]": jsonscan.KindArray, "{}": jsonscan.KindObject,
		"": jsonscan.KindInvalid, " ": jsonscan.KindInvalid, "x": jsonscan.KindInvalid,
	} {
		require.Equal(t, want, jsonscan.KindOf([]byte(raw)), "%q", raw)
	}
}

func TestObject(t *testing.T) {
	type member struct{ key, value string }
	collect := func(raw string, most int) (all []member, ok bool) {
		ok = jsonscan.Object([]byte(raw), func(m jsonscan.Member) bool {
			require.Equal(t, string(m.Value), raw[m.Start:m.End])
			all = append(all, member{string(m.Key), string(m.Value)})
			return len(all) < most
		})
		return all, ok
	}
	all, ok := collect(" { \"a\" : 1 , \"pay\\u006coad\":{\"x\":[1,\"}\"]} ,\"\":\"\\\"\", \"a\":\"\x01\" } ", 99)
	require.True(t, ok)
	require.Equal(t, []member{{"a", "1"}, {"payload", `{"x":[1,"}"]}`}, {"", `"\""`}, {"a", "\"\x01\""}}, all)

	all, ok = collect(`{"a":1,"b":2}`, 1)
	require.True(t, ok)
	require.Equal(t, []member{{"a", "1"}}, all)

	all, ok = collect(` { } `, 99)
	require.True(t, ok)
	require.Empty(t, all)

	for _, raw := range []string{"", "[]", "1", "{", `{"a"`, `{"a"1}`, `{"a":`, `{"a":1`, `{"a":1 2}`, `{1:2}`, `{"a":1,`, `{"a`} {
		_, ok = collect(raw, 99)
		require.False(t, ok, raw)
	}
}

func TestArray(t *testing.T) {
	collect := func(raw string, most int) (all []string, ok bool) {
		ok = jsonscan.Array([]byte(raw), func(i int, value []byte) bool {
			require.Len(t, all, i)
			all = append(all, string(value))
			return len(all) < most
		})
		return all, ok
	}
	all, ok := collect(` [ 1 ,[2,"]"], {"a":[]} ,null ] `, 99)
	require.True(t, ok)
	require.Equal(t, []string{"1", `[2,"]"]`, `{"a":[]}`, "null"}, all)
	all, ok = collect(`[1,2]`, 1)
	require.True(t, ok)
	require.Equal(t, []string{"1"}, all)
	all, ok = collect(`[ ]`, 99)
	require.True(t, ok)
	require.Empty(t, all)
	for _, raw := range []string{"", "{}", "[", "[1", "[1 2]", "[1,", "[,1]"} {
		_, ok = collect(raw, 99)
		require.False(t, ok, raw)
	}
}

func TestField(t *testing.T) {
	raw := []byte(` {"a": 1, "pay\u006coad" : {"p":1}, "b":2, "a":[3] }`)
	found, ok := jsonscan.Field(raw, "a")
	require.True(t, ok)
	require.Equal(t, "[3]", string(found.Value))
	require.Equal(t, "[3]", string(raw[found.Start:found.End]))
	require.True(t, found.Duplicate)

	found, ok = jsonscan.Field(raw, "payload")
	require.True(t, ok)
	require.Equal(t, `{"p":1}`, string(found.Value))
	require.False(t, found.Duplicate)

	for _, name := range []string{"c", "", "pay", "p", `pay\u006coad`} {
		_, ok = jsonscan.Field(raw, name)
		require.False(t, ok, name)
	}
	_, ok = jsonscan.Field([]byte("[1]"), "a")
	require.False(t, ok)
}

func TestWalkAllocates(t *testing.T) {
	doc := sample(4 << 10)
	total := 0
	require.Zero(t, testing.AllocsPerRun(50, func() {
		jsonscan.Object(doc, func(m jsonscan.Member) bool { total += len(m.Key) + len(m.Value); return true })
		found, _ := jsonscan.Field(doc, "value")
		jsonscan.Array(found.Value, func(i int, value []byte) bool { total += i + len(value); return true })
	}))
	doc = []byte(`{"pay\u006coad":1}`)
	require.Zero(t, testing.AllocsPerRun(50, func() { _, _ = jsonscan.Field(doc, "payload") }))
}
