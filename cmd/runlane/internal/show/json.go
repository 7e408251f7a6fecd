package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Line is v as JSON on one line. Raw JSON within it keeps its numbers as they are.
func Line(v any) (string, error) { return encode(v, "") }

// Document is v as JSON for reading, too.
func Document(v any) (string, error) { return encode(v, "  ") }

func encode(v any, indent string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return escape(b.String()), nil
}

// escape spells what a terminal might obey as JSON escapes: the encoder does so with
// the first 32 characters only. Such characters lie within strings, where an escape
// means the same.
func escape(text string) string {
	var b bytes.Buffer
	for _, r := range text {
		if r == '\n' || !harmful(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// valid is raw JSON that an encoder takes, or nil.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || !utf8.Valid(raw) {
		return nil
	}
	return raw
}
