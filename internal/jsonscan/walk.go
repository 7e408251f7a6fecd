package jsonscan

import "bytes"

// Kind is the type of a JSON value.
type Kind uint8

// The kinds of values. KindInvalid is what no value begins with.
const (
	KindInvalid Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// KindOf tells the type of a checked value by its first byte.
func KindOf(raw []byte) Kind {
	i := skipSpace(raw, 0)
	if i == len(raw) {
		return KindInvalid
	}
	switch c := raw[i]; c {
	case '{':
		return KindObject
	case '[':
		return KindArray
	case '"':
		return KindString
	case 't', 'f':
		return KindBool
	case 'n':
		return KindNull
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return KindNumber
		}
	}
	return KindInvalid
}

// Member is one member of an object. Its slices are parts of the object's own
// bytes, which stay the caller's, except for a key that is spelt with escapes.
type Member struct {
	// Key is the key with escapes resolved.
	Key []byte
	// Value is the raw value without space around it.
	Value []byte
	// Start and End are where Value stands in the object's bytes.
	Start, End int

	quoted []byte // the key as spelt, with its quotes
	begin  int    // where quoted stands
}

// Object calls fn for each member of the object raw, in the order written,
// until fn returns false. Members with one key are all shown; the last of them
// counts, as in jsonb. It allocates only for keys that are spelt with escapes.
//
// It returns false if raw, which is a checked value, is not an object.
func Object(raw []byte, fn func(m Member) bool) bool {
	return 0 <= members(raw, func(m Member) bool {
		m.Key = m.quoted[1 : len(m.quoted)-1]
		if bytes.IndexByte(m.Key, '\\') >= 0 {
			m.Key = appendUnescaped(make([]byte, 0, len(m.Key)), m.Key)
		}
		return fn(m)
	})
}

// members is Object without keys resolved. It returns where it stopped, at the
// closing brace unless fn ended it, or -1 if raw is not an object.
func members(raw []byte, fn func(m Member) bool) int {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return -1
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return i
	}
	for i < len(raw) {
		m := Member{begin: i}
		end := skipValue(raw, i)
		if end < 0 || raw[i] != '"' {
			return -1
		}
		m.quoted = raw[i:end]
		i = skipSpace(raw, end)
		if i == len(raw) || raw[i] != ':' {
			return -1
		}
		m.Start = skipSpace(raw, i+1)
		m.End = skipValue(raw, m.Start)
		if m.End < 0 {
			return -1
		}
		m.Value = raw[m.Start:m.End]
		if !fn(m) {
			return m.End
		}
		i = skipSpace(raw, m.End)
		if i == len(raw) {
			return -1
		}
		if raw[i] != ',' {
			if raw[i] == '}' {
				return i
			}
			return -1
		}
		i = skipSpace(raw, i+1)
	}
	return -1
}

// Array calls fn for each element of the array raw, with its index, until fn
// returns false. It does not allocate.
//
// It returns false if raw, which is a checked value, is not an array.
func Array(raw []byte, fn func(i int, value []byte) bool) bool {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return false
	}
	i = skipSpace(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return true
	}
	for n := 0; i < len(raw); n++ {
		end := skipValue(raw, i)
		if end < 0 {
			return false
		}
		if !fn(n, raw[i:end]) {
			return true
		}
		i = skipSpace(raw, end)
		if i == len(raw) || raw[i] != ',' {
			return i < len(raw) && raw[i] == ']'
		}
		i = skipSpace(raw, i+1)
	}
	return false
}

// Found is where [Field] found a member.
type Found struct {
	// Value is the raw value without space around it.
	Value []byte
	// Start and End are where Value stands in the object's bytes.
	Start, End int
	// Duplicate tells that other members have the same key; this is the last.
	Duplicate bool
}

// Field finds the member that counts under name in the object raw: the last of
// that name, as in jsonb, however its key is spelt. It does not allocate. It
// returns false if there is none, or if raw is not an object.
func Field(raw []byte, name string) (found Found, ok bool) {
	members(raw, func(m Member) bool {
		if isKey(m.quoted, name) {
			found = Found{Value: m.Value, Start: m.Start, End: m.End, Duplicate: ok}
			ok = true
		}
		return true
	})
	return found, ok
}

// isKey tells whether a key as spelt, with its quotes, stands for name.
func isKey(quoted []byte, name string) bool {
	content := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content) == name
	}
	if len(content) < len(name) { // an escape is never shorter than its character
		return false
	}
	var room [64]byte
	return string(appendUnescaped(room[:0], content)) == name
}

// skipValue returns the end of the value at i, or -1. Of a checked document it
// is exactly that; of anything else it is some place in it.
func skipValue(doc []byte, i int) int {
	if i >= len(doc) {
		return -1
	}
	switch doc[i] {
	case '"':
		return skipString(doc, i)
	case '{', '[':
		return skipContainer(doc, i)
	}
	start := i
	for i < len(doc) {
		switch doc[i] {
		case ' ', '\n', '\r', '\t', ',', ':', ']', '}':
			if i == start {
				return -1
			}
			return i
		}
		i++
	}
	return i
}

func skipContainer(doc []byte, i int) int {
	for depth := 0; i < len(doc); {
		switch doc[i] {
		case '"':
			if i = skipString(doc, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// skipString returns the end of the string whose opening quote is at i, or -1.
func skipString(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}
