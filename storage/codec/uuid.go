package codec

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// appendUUID appends the one spelling of a UUID that documents use.
func appendUUID(dst []byte, id uuid.UUID) []byte {
	var text [36]byte
	hex.Encode(text[0:8], id[0:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:36], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(dst, text[:]...)
}

// parseUUID reads what appendUUID writes, and nothing else.
func parseUUID(s []byte) (uuid.UUID, bool) {
	id, err := uuid.ParseBytes(s)
	if err != nil {
		return uuid.Nil, false
	}
	var room [36]byte
	return id, string(appendUUID(room[:0], id)) == string(s)
}
