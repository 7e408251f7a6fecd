// Package show writes operator reads for people and for programs.
package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text harmless on a terminal: whatever controls one, or changes the
// direction of writing, becomes an escape that can be read.
func Clean(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case harmful(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// harmful are controls, separators of lines, and invisible characters other than the
// joiners that scripts and emoji are written with.
func harmful(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Cf, r) && r != nonJoiner && r != joiner
}
