package keys_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage/keys"
)

func reason(t *testing.T, err error) keys.Reason {
	t.Helper()
	var e *keys.Error
	require.ErrorAs(t, err, &e)
	return e.Reason
}

// TestDecodeRefuses lists texts that mean something to a lenient reader, and
// texts that mean nothing at all.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		text   string
		reason keys.Reason
		offset int
	}{
		{"a", keys.ReasonMalformed, 0},
		{"!", keys.ReasonMalformed, 0},
		{"$a", keys.ReasonMalformed, 2},
		{"$", keys.ReasonMalformed, 1},
		{"$a!b", keys.ReasonMalformed, 3},
		{"$a b!", keys.ReasonNotCanon, 2},
		{"$a\x1fb!", keys.ReasonNotCanon, 2},
		{"$a\x01b!", keys.ReasonNotCanon, 2},
		{"$a\x00b!", keys.ReasonNUL, 2},
		{`$"00!`, keys.ReasonNUL, 1},
		{`$"23!`, keys.ReasonNotCanon, 1},
		{`$"61!`, keys.ReasonNotCanon, 1},
		{`$"1F!`, keys.ReasonNotCanon, 3},
		{`$"A0!`, keys.ReasonNotCanon, 2},
		{`$"0g!`, keys.ReasonMalformed, 3},
		{`$"0`, keys.ReasonMalformed, 3},
		{`$"`, keys.ReasonMalformed, 2},
		{"$a\xffb!", keys.ReasonInvalidUTF8, 2},
		{"$\xed\xa0\x80!", keys.ReasonInvalidUTF8, 1},
		{"#800000000000000", keys.ReasonMalformed, 16},
		{"#800000000000000A", keys.ReasonNotCanon, 16},
		{"#800000000000000g", keys.ReasonMalformed, 16},
		{"@-000000000000001", keys.ReasonMalformed, 1},
		{"%018f4e2a-7c1b-7def-8a90-1234567890a", keys.ReasonMalformed, 36},
		{"%018F4e2a-7c1b-7def-8a90-1234567890ab", keys.ReasonNotCanon, 4},
		{"%018f4e2a07c1b-7def-8a90-1234567890ab", keys.ReasonMalformed, 9},
		{"\x01", keys.ReasonMark, 0},
		{"\x02", keys.ReasonMark, 0},
		{"$a!\x01", keys.ReasonMark, 3},
		{"$a!#8000000000000000$b", keys.ReasonMalformed, 22},
	} {
		_, err := keys.Decode(c.text)
		require.Equal(t, c.reason, reason(t, err), "%q", c.text)
		var e *keys.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.offset, e.Offset, "%q", c.text)
		require.Equal(t, err, keys.Check(c.text), "Check says what Decode says, %q", c.text)
	}
}

func TestMarks(t *testing.T) {
	text, err := keys.New().String("q").CommitTime().Text()
	require.NoError(t, err)
	require.Equal(t, "$q!\x01", text)
	later, err := keys.New().CommitTimeLater().Text()
	require.NoError(t, err)
	require.Equal(t, keys.MarkCommitTimeLater, later)

	encoded, err := keys.Encode(keys.Element{Kind: keys.KindCommitTime}, keys.Element{Kind: keys.KindCommitTimeLater})
	require.NoError(t, err)
	require.Equal(t, keys.MarkCommitTime+keys.MarkCommitTimeLater, encoded)

	marked, err := keys.CheckSort(text)
	require.NoError(t, err)
	require.True(t, marked)
	marked, err = keys.CheckSort("$q!")
	require.NoError(t, err)
	require.False(t, marked)
	_, err = keys.CheckSort("\x03")
	require.Equal(t, keys.ReasonMalformed, reason(t, err))

	_, err = keys.First("\x01")
	require.Equal(t, keys.ReasonMark, reason(t, err))
	first, err := keys.First(text)
	require.NoError(t, err)
	require.Equal(t, "$q!", first)

	// A mark where the inline room ends goes to the spill like all else.
	long := strings.Repeat("x", 110)
	text, err = keys.New().String(long).CommitTime().Text()
	require.NoError(t, err)
	require.Equal(t, "$"+long+"!\x01", text)
}

func TestEmpty(t *testing.T) {
	text, err := keys.New().Text()
	require.NoError(t, err)
	require.Empty(t, text)
	elems, err := keys.Decode("")
	require.NoError(t, err)
	require.Empty(t, elems)
	_, err = keys.First("")
	require.Equal(t, keys.ReasonEmpty, reason(t, err))
	_, _, err = keys.Next("")
	require.Equal(t, keys.ReasonEmpty, reason(t, err))
}

func TestEncodeRefuses(t *testing.T) {
	for _, s := range []string{"a\x00", "\xff", "\xed\xa0\x80", "ok\xc3"} {
		_, err := keys.String(s)
		require.Error(t, err)
		tuple := keys.New().Int(1).String(s)
		_, built := tuple.String("fine").Int(2).UUID(uuid.UUID{}).Time(time.Now()).CommitTime().Text()
		require.Equal(t, err, built, "the first error sticks")
		dst, appended := keys.Append([]byte("x"), keys.Element{Kind: keys.KindInt}, keys.Element{Kind: keys.KindString, Str: s})
		require.Equal(t, err, appended)
		require.Equal(t, "x", string(dst), "dst is as it was")
	}
	_, err := keys.Encode(keys.Element{})
	require.Equal(t, keys.ReasonKind, reason(t, err))
}

func TestTimes(t *testing.T) {
	zone := time.FixedZone("far", 14*3600)
	for _, c := range []struct {
		at     time.Time
		micros int64
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(0, 999), 0},
		{time.Unix(0, 1000), 1},
		{time.Unix(0, -1), -1}, // floor, not toward zero
		{time.Unix(-1, 999_999_999), -1},
		{time.Date(2025, 3, 4, 5, 6, 7, 891234999, zone), time.Date(2025, 3, 4, 5, 6, 7, 891234000, zone).UnixMicro()},
		{time.UnixMicro(math.MaxInt64), math.MaxInt64},
		{time.UnixMicro(math.MinInt64), math.MinInt64},
		{time.UnixMicro(math.MaxInt64).Add(999), math.MaxInt64},
		{time.Time{}, time.Time{}.UnixMicro()},
	} {
		text, err := keys.EncodeTime(c.at)
		require.NoError(t, err)
		back, err := keys.DecodeTime(text)
		require.NoError(t, err)
		require.Equal(t, time.UnixMicro(c.micros).UTC(), back)
		require.Equal(t, time.UTC, back.Location())
	}
	for _, at := range []time.Time{
		time.UnixMicro(math.MaxInt64).Add(time.Microsecond),
		time.UnixMicro(math.MinInt64).Add(-1),
		time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0),
		time.Unix(9223372036855, 0), time.Unix(-9223372036856, 0),
	} {
		_, err := keys.EncodeTime(at)
		require.Equal(t, keys.ReasonTimeRange, reason(t, err), "%v", at)
		_, err = keys.New().Time(at).Int(1).Text()
		require.Equal(t, keys.ReasonTimeRange, reason(t, err))
	}
	_, err := keys.New().String("\x00").Time(time.Unix(math.MaxInt64, 0)).Text()
	require.Equal(t, keys.ReasonNUL, reason(t, err), "the first error sticks")
}

func TestSingles(t *testing.T) {
	id := uuid.MustParse("018f4e2a-7c1b-7def-8a90-1234567890ab")
	s, err := keys.String("a b")
	require.NoError(t, err)
	require.Equal(t, `$a"20b!`, s)
	back, err := keys.DecodeString(s)
	require.NoError(t, err)
	require.Equal(t, "a b", back)
	n, err := keys.DecodeInt(keys.EncodeInt(-7))
	require.NoError(t, err)
	require.EqualValues(t, -7, n)
	gotID, err := keys.DecodeUUID(keys.EncodeUUID(id))
	require.NoError(t, err)
	require.Equal(t, id, gotID)

	_, err = keys.DecodeInt(s)
	require.Equal(t, keys.ReasonWrongKind, reason(t, err))
	_, err = keys.DecodeTime(keys.EncodeInt(1))
	require.Equal(t, keys.ReasonWrongKind, reason(t, err))
	_, err = keys.DecodeString(s + s)
	require.Equal(t, keys.ReasonWrongKind, reason(t, err))
	_, err = keys.DecodeUUID("%")
	require.Equal(t, keys.ReasonMalformed, reason(t, err))
}

func TestNames(t *testing.T) {
	long := strings.Repeat("é", 127) + "x"
	for _, ok := range []string{"a", "order-123", "é", " ", "\x01", long} {
		require.NoError(t, keys.CheckText("key", ok))
		require.NoError(t, keys.CheckName("queue name", ok))
	}
	require.NoError(t, keys.CheckText("key", "order:123"))
	for value, want := range map[string]keys.Reason{
		"": keys.ReasonEmpty, long + "x": keys.ReasonTooLong, "a\x00": keys.ReasonNUL,
		"a\xff": keys.ReasonInvalidUTF8,
	} {
		require.Equal(t, want, reason(t, keys.CheckText("key", value)))
		require.Equal(t, want, reason(t, keys.CheckName("queue name", value)))
	}
	err := keys.CheckName("queue name", "a:b")
	require.Equal(t, keys.ReasonColon, reason(t, err))
	require.EqualError(t, err, `keys: queue name contains ":" (at byte 1)`)
	require.EqualError(t, keys.Check("x"), "keys: value is not the encoding of a tuple")
}

// TestAllocations holds the promises that doc comments make.
func TestAllocations(t *testing.T) {
	id := uuid.MustParse("018f4e2a-7c1b-7def-8a90-1234567890ab")
	text, err := keys.New().String("prod").UUID(id).Text()
	require.NoError(t, err)
	dst := make([]byte, 0, 64)
	for name, c := range map[string]struct {
		want float64
		do   func()
	}{
		"Tuple":  {1, func() { _, _ = keys.New().String("prod").UUID(id).Int(7).Text() }},
		"Append": {0, func() { _, _ = keys.Append(dst, keys.Element{Kind: keys.KindUUID, UUID: id}) }},
		"Check":  {0, func() { _ = keys.Check(text) }},
		"First":  {0, func() { _, _ = keys.First(text) }},
		"Next":   {0, func() { _, _, _ = keys.Next(text) }},
	} {
		require.Equal(t, c.want, testing.AllocsPerRun(100, c.do), name)
	}
}
