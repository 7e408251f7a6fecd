package jsonscan

import (
	"strings"
	"unicode/utf8"
)

// plain tells the bytes of a string that stand for themselves and are ASCII.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// scanString checks the string whose opening quote is at pos and returns its
// end. If reason is set, end is where it went wrong.
func scanString(doc []byte, pos int) (end int, reason Reason) {
	for i := pos + 1; i < len(doc); {
		c := doc[i]
		switch {
		case plain[c]:
			i++
		case c == '"':
			return i + 1, ""
		case c == '\\':
			_, size, reason := scanEscape(doc, i)
			if reason != "" {
				return i, reason
			}
			i += size
		case c < ' ':
			return i, ReasonControl
		default:
			_, size := utf8.DecodeRune(doc[i:])
			if size == 1 {
				return i, ReasonInvalidUTF8
			}
			i += size
		}
	}
	return len(doc), ReasonSyntax
}

// scanEscape reads the escape at i: the character and how many bytes spell it,
// two escapes for a surrogate pair.
func scanEscape(doc []byte, i int) (r rune, size int, reason Reason) {
	if i+1 >= len(doc) {
		return 0, 0, ReasonSyntax
	}
	switch c := doc[i+1]; c {
	case '"', '\\', '/':
		return rune(c), 2, ""
	case 'b':
		return '\b', 2, ""
	case 'f':
		return '\f', 2, ""
	case 'n':
		return '\n', 2, ""
	case 'r':
		return '\r', 2, ""
	case 't':
		return '\t', 2, ""
	case 'u':
		return scanUnicode(doc, i)
	}
	return 0, 0, ReasonSyntax
}

func scanUnicode(doc []byte, i int) (r rune, size int, reason Reason) {
	const (
		highFirst, lowFirst, lowLast = 0xd800, 0xdc00, 0xdfff
		pairFirst                    = 0x10000
	)
	r = hex4(doc, i+2)
	switch {
	case r < 0:
		return 0, 0, ReasonSyntax
	case r == 0:
		return 0, 0, ReasonNUL
	case r < highFirst || r > lowLast:
		return r, 6, ""
	case r >= lowFirst || i+7 >= len(doc) || doc[i+6] != '\\' || doc[i+7] != 'u':
		return 0, 0, ReasonSurrogate
	}
	low := hex4(doc, i+8)
	if low < lowFirst || low > lowLast {
		return 0, 0, ReasonSurrogate
	}
	return (r-highFirst)<<10 + (low - lowFirst) + pairFirst, 12, ""
}

// hex4 reads four hexadecimal digits of either case, or returns -1.
func hex4(doc []byte, i int) (r rune) {
	if i+4 > len(doc) {
		return -1
	}
	for _, c := range doc[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends the content of a checked string, the bytes between
// its quotes, with escapes resolved.
func appendUnescaped(dst, content []byte) []byte {
	from := 0
	for i := 0; i < len(content); {
		if content[i] != '\\' {
			i++
			continue
		}
		dst = append(dst, content[from:i]...)
		r, size, reason := scanEscape(content, i)
		if reason != "" { // not a checked string: keep the bytes
			r, size = '\\', 1
		}
		dst = utf8.AppendRune(dst, r)
		i += size
		from = i
	}
	return append(dst, content[from:]...)
}

// CheckString tells whether s can be a string or a key of a document: valid
// UTF-8 without NUL. The error is an [*Error].
func CheckString(s string) error {
	if at := strings.IndexByte(s, 0); at >= 0 {
		return &Error{Offset: at, Reason: ReasonNUL}
	}
	if utf8.ValidString(s) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRuneInString(s[at:])
		if r == utf8.RuneError && size <= 1 {
			return &Error{Offset: at, Reason: ReasonInvalidUTF8}
		}
		at += size
	}
}

// AppendString appends s as a JSON string, spelt as jsonb prints it: only the
// quote, the backslash and control characters are escaped. S is to have passed
// [CheckString]; if it has not, the result is a string that [Check] refuses,
// never one that silently says something else.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	const digits = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(dst, s[from:]...)
}

// UnquoteString returns the string that raw, a JSON string with its quotes and
// perhaps with space around it, stands for. Anything else, a mark among it, is
// an [*Error].
func UnquoteString(raw []byte) (string, error) {
	start := skipSpace(raw, 0)
	if start == len(raw) || raw[start] != '"' {
		return "", &Error{Offset: start, Reason: ReasonNotString}
	}
	end, reason := scanString(raw, start)
	if reason != "" {
		return "", &Error{Offset: end, Reason: reason}
	}
	if after := skipSpace(raw, end); after != len(raw) {
		return "", &Error{Offset: after, Reason: ReasonNotString}
	}
	content := raw[start+1 : end-1]
	for _, c := range content {
		if c == '\\' {
			return string(appendUnescaped(make([]byte, 0, len(content)), content)), nil
		}
	}
	return string(content), nil
}
