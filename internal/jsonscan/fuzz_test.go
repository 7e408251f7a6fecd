package jsonscan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/internal/jsonscan"
)

func addSeeds(f *testing.F) {
	for _, seed := range []string{
		"", " ", "0", "-0.0e-5", "1e131071", "1e131072", "0e1073741823", `"\ud83d\ude00"`, `"\ud83d"`, `"\u0000"`, "\"\x01\"", "\"\x02\"",
		"{\"\x01\":1}", `{"a":1,"\u0061":[{"b":null}],"a":"x"}`, `{"p":1,"a":{"p":2},"p":3}`, " [ 1 , 2 ] ", "[[[[]]]]", "[1,]", `{"a":}`,
		"\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", `{"a":1}x`, `{"a":{}`, `{"p":1`, "tru", "nullx", `"\`, `"a\"b"`, `{"bb":1,"a":2,"a":3}`,
	} {
		f.Add([]byte(seed), "p")
	}
}

// FuzzCheck: Check is total; what it accepts encoding/json accepts; and where
// encoding/json accepts more, the reason is one of those that the package
// documentation names.
func FuzzCheck(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte, _ string) {
		_, err := jsonscan.Check(doc, jsonscan.Limits{})
		valid := json.Valid(doc)
		if err == nil {
			require.True(t, valid, "%q", doc)
		} else {
			e := refused(t, err)
			require.LessOrEqual(t, e.Offset, len(doc))
			switch e.Reason {
			case jsonscan.ReasonSyntax, jsonscan.ReasonControl:
				require.False(t, valid, "%q: %v", doc, err)
			case jsonscan.ReasonNUL, jsonscan.ReasonSurrogate, jsonscan.ReasonInvalidUTF8, jsonscan.ReasonNumber, jsonscan.ReasonDepth, jsonscan.ReasonExpansion:
				// Stricter than encoding/json.
			default:
				t.Fatalf("%q: %v", doc, err)
			}
		}
		info, marked := jsonscan.Check(doc, jsonscan.Limits{Marks: true})
		if err == nil {
			require.NoError(t, marked)
			require.False(t, info.CommitTime || info.Later)
		} else if marked == nil {
			require.True(t, info.CommitTime || info.Later, "marks are all that the option allows")
		}
	})
}

// FuzzWalk: the functions for checked documents do not panic on others, and
// keep their promises on checked ones.
func FuzzWalk(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, doc []byte, name string) {
		jsonscan.KindOf(doc)
		object := jsonscan.Object(doc, func(m jsonscan.Member) bool {
			require.Equal(t, m.Value, doc[m.Start:m.End])
			return true
		})
		array := jsonscan.Array(doc, func(int, []byte) bool { return true })
		found, ok := jsonscan.Field(doc, name)
		rest, value, cut := jsonscan.Cut(nil, doc, name)
		back, inserted := jsonscan.Insert(nil, rest, name, value)
		_, _ = jsonscan.UnquoteString(doc)
		_, err := jsonscan.Check(doc, jsonscan.Limits{Marks: true})
		out, canonicalErr := jsonscan.Canonical(doc)
		if err != nil {
			return
		}
		require.NoError(t, canonicalErr)
		require.Equal(t, jsonscan.KindOf(doc) == jsonscan.KindObject, object)
		require.Equal(t, jsonscan.KindOf(doc) == jsonscan.KindArray, array)
		require.Equal(t, ok, cut)
		require.Equal(t, object, inserted)
		again, err := jsonscan.Canonical(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		if !cut {
			return
		}
		require.Equal(t, found.Value, value)
		again, err = jsonscan.Canonical(back)
		if jsonscan.CheckString(name) == nil {
			require.NoError(t, err, "%q", back)
			require.Equal(t, string(out), string(again))
		}
	})
}
