package lane

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/codec"
)

// Limits on what one run carries, in bytes of JSON with numbers written out. Together with everything else
// that a run's document holds they stay below the limit of the store, so that
// whatever happens to a run can be written down.
const (
	MaxPayload  = 512 << 10
	MaxResult   = 256 << 10
	MaxMetadata = 32 << 10
)

// marshal turns a payload or a result into JSON that a store accepts. Where
// package json would replace invalid UTF-8 in silence, it is refused. Errors of
// its own are *storage.InputError.
func marshal(v any, limit int) (json.RawMessage, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if size := codec.PrintedSize(doc); size > limit {
		return nil, &storage.InputError{Kind: storage.ErrTooLarge, Reason: fmt.Sprintf("has %d bytes of JSON", size), Limit: limit}
	}
	// Package json writes an invalid byte as the escape and a genuine U+FFFD as
	// itself, so most values need no second look.
	if bytes.Contains(doc, []byte(`\ufffd`)) {
		if path, bad := invalidText(reflect.ValueOf(v), ""); bad {
			return nil, &storage.InputError{Kind: storage.ErrInvalidDocument, Field: path, Reason: "is not valid UTF-8"}
		}
	}
	return doc, nil
}

// invalidText finds a string within v that is not valid UTF-8. It looks where
// package json looks; v has been marshalled, so it is finite.
func invalidText(v reflect.Value, path string) (string, bool) {
	if v.IsValid() && v.CanInterface() {
		switch v.Interface().(type) {
		case json.Marshaler, encoding.TextMarshaler:
			return "", false // it says itself what its JSON is
		}
	}
	switch v.Kind() {
	case reflect.String:
		return path, !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return invalidText(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false // base64, or numbers
		}
		for i := range v.Len() {
			if at, bad := invalidText(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); bad {
				return at, true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if _, bad := invalidText(it.Key(), path); bad {
				return path + ": a key", true
			}
			if at, bad := invalidText(it.Value(), fmt.Sprintf("%s[%q]", path, it.Key())); bad {
				return at, true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" {
				if at, bad := invalidText(v.Field(i), path+"."+f.Name); bad {
					return at, true
				}
			}
		}
	}
	return "", false
}

// storable makes of any text one that a document can hold, of at most limit bytes.
func storable(s string, limit int) string {
	// Cleaning can make a text longer; cutting it first keeps a huge one cheap.
	return truncate(codec.CleanText(truncate(s, limit)), limit)
}

// truncate cuts s to at most limit bytes without cutting a character in two.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit])
}
