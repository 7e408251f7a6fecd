package json_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// generator writes JSON in spellings that no printer would choose: space
// everywhere, duplicate keys, needless escapes, odd numbers.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) space() string { return pick(g, "", "", "", "", " ", "\n\t", " \r\n ") }

func (g generator) number() string {
	var b strings.Builder
	if g.IntN(3) == 0 {
		b.WriteByte('-')
	}
	switch g.IntN(4) {
	case 0:
		b.WriteByte('0')
	case 1:
		b.WriteString(strconv.FormatUint(g.Uint64(), 10))
	default:
		b.WriteString(strconv.Itoa(g.IntN(2000)))
	}
	if g.IntN(2) == 0 {
		b.WriteString("." + strings.Repeat("0", g.IntN(5)) + strconv.Itoa(g.IntN(2000)) + strings.Repeat("0", g.IntN(5)))
	}
	if g.IntN(2) == 0 {
		b.WriteString(pick(g, "e", "E", "e+", "e-", "E-", "e0", "e-00") + strconv.Itoa(g.IntN(30)))
	}
	return b.String()
}

func (g generator) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range g.IntN(6) {
		switch g.IntN(6) {
		case 0:
			b.WriteString(pick(g, `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`))
		case 1:
			r := pick(g, 1+g.IntN(0x9f), 0xe9, 0x4e16, 0xd7ff, 0xe000, 0xfeff, 0xfffe, 0xffff, 1+g.IntN(0xd7ff))
			fmt.Fprintf(&b, pick(g, `\u%04x`, `\u%04X`), r)
		case 2:
			r := 0x10000 + g.IntN(0x100000)
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b.WriteString(pick(g, "a", "p", "é", "世", "\U0001F600", "\U0010FFFF", "\uFFFF", "\u2028", "\x7f", "{", "}", ",", ":", "[", "]", " ", "null"))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g generator) key() string {
	if g.IntN(4) == 0 {
		return g.text()
	}
	return pick(g, `"a"`, `"\u0061"`, `"b"`, `"bb"`, `"ab"`, `"payload"`, `"pay\u006coad"`, `"é"`, `"\u00E9"`, `""`, `"zz"`, `"A"`)
}

func (g generator) value(depth int) string {
	kind := g.IntN(8)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return pick(g, "null", "true", "false")
	case 1, 2:
		return g.number()
	case 3:
		return g.text()
	case 4, 5, 6:
		members := make([]string, g.IntN(6))
		for i := range members {
			members[i] = g.space() + g.key() + g.space() + ":" + g.space() + g.value(depth-1) + g.space()
		}
		return "{" + g.space() + strings.Join(members, ",") + "}"
	}
	items := make([]string, g.IntN(5))
	for i := range items {
		items[i] = g.space() + g.value(depth-1) + g.space()
	}
	return "[" + g.space() + strings.Join(items, ",") + "]"
}

// fragments are what a mutation puts in: what a lenient parser might take, and
// what a careless one might miss.
var fragments = []string{
	"\x00", "\x01", "\x02", "\x0b", "\x0c", "\x1f", "\x7f", " ", "\t", "\n", "\xa0", "\u00a0", "\u2003", "\ufeff", "\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8",
	"\"", "\"\"", "'", "\\", "\\\"", "\\u", "\\u0000", "\\u00", "\\ud800", "\\udc00", "\\ud83d\\ude00", "\\ude00\\ud83d", "\\x41", "\\a", "\\U0041", "\\u 041", "\\u+041",
	"{", "}", "[", "]", ":", ",", ",,", "{}", "[]", "//", "/**/", "#", "=", ";", "0", "00", "-", "--", "+", ".", ".5", "5.", "e", "E", "e5", "e+", "0x1", "1_000", "1e999999", "1e-99999",
	"true", "True", "nul", "null", "undefined", "NaN", "Infinity", "-Infinity", "\"a\":1", "é", "١", "\u0660",
}

// mutate changes one place of a document.
func (g generator) mutate(doc []byte) []byte {
	at := g.IntN(len(doc) + 1)
	end := at + g.IntN(min(4, len(doc)-at+1))
	put := ""
	switch g.IntN(5) {
	case 0: // delete
		end = max(end, min(at+1, len(doc)))
	case 1: // replace
		put, end = pick(g, fragments...), max(end, min(at+1, len(doc)))
	case 2: // insert
		put, end = pick(g, fragments...), at
	case 3: // copy from elsewhere
		from := g.IntN(len(doc) + 1)
		put = string(doc[from : from+g.IntN(min(6, len(doc)-from+1))])
	case 4: // flip
		if at < len(doc) {
			put, end = string([]byte{doc[at] ^ 1<<g.IntN(8)}), at+1
		}
	}
	return append(append(append([]byte{}, doc[:at]...), put...), doc[end:]...)
}
