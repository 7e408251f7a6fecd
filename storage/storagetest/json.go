package storagetest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sameJSON requires that two texts hold the same JSON value. Numbers are compared
// exactly, whatever their spelling.
func sameJSON(t interface {
	require.TestingT
	Helper()
}, want string, got []byte) {
	t.Helper()
	w, err := decodeJSON([]byte(want))
	require.NoError(t, err, "the test's own document")
	g, err := decodeJSON(got)
	require.NoError(t, err, "what was read is not JSON: %s", got)
	assert.Equal(t, w, g)
}

func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exact(v), nil
}

// exact replaces the numbers of a value by fractions, which have one spelling.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return v.String()
		}
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// sameValue is sameJSON as a question. Texts that differ in nothing but space need no
// decoding, which takes seconds for the largest.
func sameValue(want string, got []byte) bool {
	if sameButSpace([]byte(want), got) {
		return true
	}
	w, err := decodeJSON([]byte(want))
	if err != nil {
		return false
	}
	g, err := decodeJSON(got)
	return err == nil && reflect.DeepEqual(w, g)
}

func sameButSpace(want, got []byte) bool {
	var w, g bytes.Buffer
	return json.Compact(&w, want) == nil && json.Compact(&g, got) == nil && bytes.Equal(w.Bytes(), g.Bytes())
}
