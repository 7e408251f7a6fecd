package keys_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage/keys"
)

// FuzzDecode: any text gives elements or a typed error, what is accepted is
// canonical, and the functions that read agree with one another.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "$prod!", "$a\"01b!", "#7fffffffffffffff", "@8000000000000000", "\x01", "\x02", "$q!\x01", "\x010",
		"%018f4e2a-7c1b-7def-8a90-1234567890ab", "$a!#8000000000000001$b!", "$\"00!", "$\"23!", "$\xff!", "$",
		"#800000000000000A", "@", "%018F4e2a-7c1b-7def-8a90-1234567890ab", "$世界!@8000000000000000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		elems, err := keys.Decode(text)
		require.Equal(t, err, keys.Check(text))
		marked, sortErr := keys.CheckSort(text)
		if err != nil {
			reason(t, err)
			require.True(t, sortErr != nil || marked)
			return
		}
		require.NoError(t, sortErr)
		require.False(t, marked)
		back, err := keys.Encode(elems...)
		require.NoError(t, err)
		require.Equal(t, text, back)
		if text != "" {
			first, err := keys.First(text)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(text, first))
		}
	})
}

// FuzzOrder: two tuples and their texts compare alike.
func FuzzOrder(f *testing.F) {
	for _, seed := range [][2]string{
		{"\x00a1\xffb", "\x00a\xffz"},
		{"\x01\xff\xff", "\x01\x00"},
		{"\x00a\xff\x00b", "\x00a\x01\xff"},
		{"\x02abcdefghijklmnop", "\x03abcdefgh"},
		{"\x00世", "\x00世\xff\x00!"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		left, right := tupleFrom(a), tupleFrom(b)
		got := strings.Compare(mustEncode(t, left), mustEncode(t, right))
		require.Equal(t, sign(compare(left, right)), got)
	})
}

// tupleFrom reads a tuple out of fuzzed bytes: a byte for the kind, then the
// value; strings run to the next 0xff, which UTF-8 never holds.
func tupleFrom(data []byte) (elems []keys.Element) {
	take := func(n int) []byte {
		chunk := make([]byte, n)
		data = data[copy(chunk, data):]
		return chunk
	}
	for len(data) > 0 {
		kind := data[0]
		data = data[1:]
		switch kind % 4 {
		case 0:
			value, rest, _ := strings.Cut(string(data), "\xff")
			data = []byte(rest)
			value = strings.ToValidUTF8(strings.ReplaceAll(value, "\x00", "\x01"), "?")
			elems = append(elems, keys.Element{Kind: keys.KindString, Str: value})
		case 1:
			elems = append(elems, keys.Element{Kind: keys.KindInt, Int: int64(binary.BigEndian.Uint64(take(8)) + math.MaxInt64)})
		case 2:
			elems = append(elems, keys.Element{Kind: keys.KindUUID, UUID: uuid.UUID(take(16))})
		case 3:
			elems = append(elems, keys.Element{Kind: keys.KindTime, Int: int64(binary.BigEndian.Uint64(take(8)))})
		}
	}
	return elems
}
