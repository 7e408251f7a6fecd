// Package cursor makes the page cursors of operator reads.
//
// A cursor is opaque, URL-safe text. It holds where a page ended and is bound to
// what was asked: the environment, every filter, the sort and the direction. How
// many items a page has, and whether they are read in full, may change between
// pages. A cursor that was made for anything else, or that is damaged in a single
// bit, is refused; it never stands for the first page.
//
// It is not a secret, and its checksum is no signature: whoever wants to can make
// one. Nothing may be permitted because of what a cursor says.
package cursor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/seed4391e180/runlane/storage"
)

// Position is the place of the last item of a page: its sort value, and the text
// that tells items with the same sort value apart.
type Position struct {
	At int64 // microseconds since the Unix epoch, or a sequence
	ID string
}

// Scope is a filter that cursors are bound to, reduced to a digest.
type Scope struct {
	kind   byte
	digest [digestSize]byte
}

// The layout: version, kind, digest, at, id, checksum of all before it.
const (
	version    = 1
	digestSize = 8
	sumSize    = 8
	idOffset   = 2 + digestSize + 8
	minSize    = idOffset + sumSize
	// maxText bounds the work on text from outside: an id of MaxKeyPart bytes fits twice.
	maxText = 4096

	kindRuns   = 'r'
	kindEvents = 'e'
)

// Encode makes the cursor that continues behind p.
func (s Scope) Encode(p Position) string {
	raw := make([]byte, 0, minSize+len(p.ID))
	raw = append(raw, version, s.kind)
	raw = append(raw, s.digest[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.At))
	raw = append(raw, p.ID...)
	sum := checksum(raw)
	return base64.RawURLEncoding.EncodeToString(append(raw, sum[:]...))
}

// Decode returns the position of a cursor that Encode made for the same scope.
// Anything else is an *InputError of kind ErrInvalidCursor.
func (s Scope) Decode(text string) (Position, error) {
	if len(text) > maxText {
		return Position{}, invalid("is too long")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder passes over line breaks, so a text that is not ours could mean the same.
	if err != nil || len(raw) < minSize || base64.RawURLEncoding.EncodeToString(raw) != text {
		return Position{}, invalid("is not a cursor")
	}
	body := raw[:len(raw)-sumSize]
	if checksum(body) != [sumSize]byte(raw[len(body):]) {
		return Position{}, invalid("is damaged")
	}
	if body[0] != version {
		return Position{}, invalid("was made by another version")
	}
	if body[1] != s.kind || [digestSize]byte(body[2:]) != s.digest {
		return Position{}, invalid("was made for another filter or order")
	}
	p := Position{
		At: int64(binary.BigEndian.Uint64(body[2+digestSize:])),
		ID: string(body[idOffset:]),
	}
	if p.At < 0 || !utf8.ValidString(p.ID) || strings.IndexByte(p.ID, 0) >= 0 {
		return Position{}, invalid("is at no place that a page can end")
	}
	return p, nil
}

func checksum(body []byte) [sumSize]byte {
	sum := sha256.Sum256(body)
	return [sumSize]byte(sum[:])
}

func invalid(reason string) error {
	return &storage.InputError{Kind: storage.ErrInvalidCursor, Field: "cursor", Reason: reason}
}
