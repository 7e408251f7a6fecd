package jsonscan

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A path is for people: one that names every level of a document nested 512
// deep, or a key of a megabyte, helps nobody.
const (
	maxKeyShown  = 64
	maxHeadShown = 16
	maxTailShown = 8
)

// step is one level of a path: a key of an object or a place in an array.
type step struct {
	array bool
	index int
	key   []byte // raw, with quotes; nil before the key is read
}

// pathTo returns the path of the value that holds the byte at offset. The
// document before offset is well-formed.
func pathTo(doc []byte, offset int) string {
	var steps []step
	for i := 0; i < offset && i < len(doc); {
		switch doc[i] {
		case '{':
			steps = append(steps, step{})
		case '[':
			steps = append(steps, step{array: true})
		case '}', ']':
			steps = steps[:max(0, len(steps)-1)]
		case ',':
			if last := len(steps) - 1; last >= 0 {
				steps[last].index++
				steps[last].key = nil
			}
		case '"':
			end := skipString(doc, i)
			if end < 0 || end > offset {
				return formatPath(steps)
			}
			if last := len(steps) - 1; last >= 0 && !steps[last].array && steps[last].key == nil {
				steps[last].key = doc[i:end]
			}
			i = end
			continue
		}
		i++
	}
	return formatPath(steps)
}

func formatPath(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		if len(steps) > maxHeadShown+maxTailShown && i >= maxHeadShown && i < len(steps)-maxTailShown {
			if i == maxHeadShown {
				b.WriteString("…")
			}
			continue
		}
		switch {
		case s.array:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case s.key != nil:
			writeKey(&b, s.key)
		}
	}
	return b.String()
}

func writeKey(b *strings.Builder, raw []byte) {
	key := string(appendUnescaped(nil, raw[1:len(raw)-1]))
	switch {
	case !isIdentifier(key):
		b.WriteString("[" + strconv.Quote(shorten(key)) + "]")
	case b.Len() > 0:
		b.WriteString("." + shorten(key))
	default:
		b.WriteString(shorten(key))
	}
}

func isIdentifier(key string) bool {
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return key != ""
}

func shorten(key string) string {
	if len(key) <= maxKeyShown {
		return key
	}
	cut := maxKeyShown
	for cut > 0 && !utf8.RuneStart(key[cut]) {
		cut--
	}
	return key[:cut] + "…"
}
