package cursor

import (
	"encoding/base64"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/run"
	"github.com/seed4391e180/runlane/storage"
)

var positions = []Position{
	{}, {At: 1, ID: "a"}, {At: math.MaxInt64, ID: "018f0000-0000-7000-8000-000000000000"},
	{ID: strings.Repeat("ü", 512)}, {At: 1_700_000_000_123_456, ID: "$x!\n"},
}

// TestImpossiblePositions: a cursor with a right checksum may still be of no page.
func TestImpossiblePositions(t *testing.T) {
	s := Runs(storage.RunFilter{Environment: "e"})
	for _, p := range []Position{{At: -1, ID: "a"}, {At: math.MinInt64, ID: "a"}, {At: 1, ID: "a\x00"}, {At: 1, ID: "\xff"}} {
		_, err := s.Decode(s.Encode(p))
		refused(t, err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, s := range []Scope{Runs(storage.RunFilter{Environment: "e"}), Events(storage.EventFilter{Environment: "e"})} {
		for _, p := range positions {
			text := s.Encode(p)
			require.Regexp(t, `^[A-Za-z0-9_-]+$`, text)
			got, err := s.Decode(text)
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	}
}

// TestFormat pins the text of one cursor: cursors outlive the program that made them.
func TestFormat(t *testing.T) {
	text := Runs(storage.RunFilter{Environment: "prod", Statuses: []run.Status{run.StatusQueued}}).Encode(Position{At: 1_700_000_000_123_456, ID: "run-1"})
	require.Equal(t, "AXKEtlf2M4hKtAAGCiQYICJAcnVuLTEqRyfwlAc2iA", text)
}

// TestEveryFieldBinds changes every field of both filters, found by reflection so
// that no field added later is forgotten.
func TestEveryFieldBinds(t *testing.T) {
	free := map[string]bool{"Limit": true, "Cursor": true, "Full": true}
	position := Position{At: 1, ID: "x"}
	check := func(t *testing.T, filter any, scope func(any) Scope) {
		base := scope(filter)
		v := reflect.ValueOf(filter)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			changed := reflect.New(v.Type()).Elem()
			changed.Set(v)
			for _, value := range others(t, changed.Field(i)) {
				changed.Field(i).Set(value)
				_, err := scope(changed.Interface()).Decode(base.Encode(position))
				if free[name] {
					require.NoError(t, err, name)
				} else {
					refused(t, err)
				}
			}
		}
	}
	check(t, storage.RunFilter{Environment: "e"}, func(f any) Scope { return Runs(f.(storage.RunFilter)) })
	check(t, storage.EventFilter{Environment: "e"}, func(f any) Scope { return Events(f.(storage.EventFilter)) })
}

// others returns values that differ from the field's.
func others(t *testing.T, field reflect.Value) []reflect.Value {
	moment := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
	if _, ok := field.Interface().(storage.TimeRange); ok {
		return []reflect.Value{
			reflect.ValueOf(storage.TimeRange{From: moment}),
			reflect.ValueOf(storage.TimeRange{Until: moment}),
			reflect.ValueOf(storage.TimeRange{From: moment, Until: moment}),
		}
	}
	switch field.Kind() {
	case reflect.String:
		return []reflect.Value{reflect.ValueOf("other").Convert(field.Type())}
	case reflect.Slice:
		one := reflect.MakeSlice(field.Type(), 1, 1)
		one.Index(0).SetString("other")
		return []reflect.Value{one}
	case reflect.Uint8:
		return []reflect.Value{reflect.ValueOf(uint8(1)).Convert(field.Type())}
	case reflect.Int:
		return []reflect.Value{reflect.ValueOf(7)}
	case reflect.Bool:
		return []reflect.Value{reflect.ValueOf(true)}
	}
	t.Fatalf("a field of type %s needs an answer here", field.Type())
	return nil
}

// TestFieldsDoNotRunTogether moves a value from one field to its neighbour.
func TestFieldsDoNotRunTogether(t *testing.T) {
	moment := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
	pairs := [][2]storage.RunFilter{
		{{Created: storage.TimeRange{From: moment}}, {Created: storage.TimeRange{From: moment.Add(1)}}},
		{{Created: storage.TimeRange{From: moment}}, {Created: storage.TimeRange{Until: moment}}},
		{{Tasks: []string{"a", "b"}}, {Tasks: []string{"ab"}}},
		{{Tasks: []string{"a"}}, {Queues: []string{"a"}}},
		{{Tasks: []string{"a"}, Queues: []string{"b"}}, {Tasks: []string{"a", "b"}}},
		{{SourceRun: "a"}, {Schedule: "a"}},
		{{IdempotencyKey: "ab"}, {IdempotencyKey: "a", SingletonKey: "b"}},
	}
	for _, p := range pairs {
		_, err := Runs(p[1]).Decode(Runs(p[0]).Encode(Position{}))
		refused(t, err)
	}
	_, err := Events(storage.EventFilter{Environment: "e"}).Decode(Runs(storage.RunFilter{Environment: "e"}).Encode(Position{}))
	refused(t, err)
	_, err = Scope{kind: kindEvents}.Decode(Scope{kind: kindRuns}.Encode(Position{}))
	refused(t, err)
}

// TestSameFilter spells one filter in two ways.
func TestSameFilter(t *testing.T) {
	moment := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := storage.RunFilter{Environment: "e", Tasks: []string{"x", "y"}, Queues: nil, Created: storage.TimeRange{From: moment}, Limit: 1}
	b := storage.RunFilter{Environment: "e", Tasks: []string{"y", "x", "y"}, Queues: []string{}, Created: storage.TimeRange{From: moment.In(time.FixedZone("half", 19800))}, Limit: 2, Full: true}
	_, err := Runs(b).Decode(Runs(a).Encode(Position{}))
	require.NoError(t, err)
	require.Equal(t, []string{"y", "x", "y"}, b.Tasks, "the caller's slice was sorted")
}

func TestEveryFlippedBit(t *testing.T) {
	s := Runs(storage.RunFilter{Environment: "e"})
	for _, p := range positions {
		text := s.Encode(p)
		for i := range len(text) * 8 {
			flipped := []byte(text)
			flipped[i/8] ^= 1 << (i % 8)
			_, err := s.Decode(string(flipped))
			refused(t, err)
		}
	}
}

func TestNotACursor(t *testing.T) {
	s := Runs(storage.RunFilter{})
	good := s.Encode(Position{At: 1, ID: "abc"})
	for _, text := range []string{
		"", "x", "====", " " + good, good + "\n", good[:10] + "\r\n" + good[10:], good + "=", good[:len(good)-1],
		s.Encode(Position{ID: strings.Repeat("x", maxText)}), good + "A", strings.Repeat("A", 100), strings.Repeat("A", 10_000), "\x00", "ü", good + good,
	} {
		_, err := s.Decode(text)
		refused(t, err)
	}
}

// TestOtherVersion has a valid checksum and a version that nobody knows yet.
func TestOtherVersion(t *testing.T) {
	s := Runs(storage.RunFilter{})
	raw, err := base64.RawURLEncoding.DecodeString(s.Encode(Position{At: 1, ID: "abc"}))
	require.NoError(t, err)
	body := raw[:len(raw)-sumSize]
	body[0]++
	sum := checksum(body)
	_, err = s.Decode(base64.RawURLEncoding.EncodeToString(append(body, sum[:]...)))
	refused(t, err)
}

func FuzzDecode(f *testing.F) {
	s := Runs(storage.RunFilter{Environment: "e"})
	for _, p := range positions {
		f.Add(s.Encode(p), 0)
	}
	f.Fuzz(func(t *testing.T, text string, bit int) {
		p, err := s.Decode(text)
		if err != nil {
			refused(t, err)
			return
		}
		require.Equal(t, text, s.Encode(p), "a second spelling")
		flipped := []byte(text)
		bit = int(uint(bit) % uint(len(text)*8))
		flipped[bit/8] ^= 1 << (bit % 8)
		_, err = s.Decode(string(flipped))
		refused(t, err)
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("e", "task", "id", int64(1), int64(0))
	f.Fuzz(func(t *testing.T, environment, task, id string, at, from int64) {
		if len(id) > 1024 {
			return // longer than any key
		}
		s := Runs(storage.RunFilter{Environment: environment, Tasks: []string{task}, Created: storage.TimeRange{From: time.UnixMicro(from)}})
		p := Position{At: at, ID: id}
		got, err := s.Decode(s.Encode(p))
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, storage.ErrInvalidCursor)
	var input *storage.InputError
	require.True(t, errors.As(err, &input))
	require.Equal(t, storage.ErrInvalidCursor, input.Kind)
}
