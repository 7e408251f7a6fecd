package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Direction is where a message goes.
type Direction uint8

// The directions.
const (
	ToServer Direction = iota + 1
	ToClient
)

func (d Direction) String() string {
	if d == ToServer {
		return "to the server"
	}
	return "to the client"
}

// Message is one message that passed, without its content.
type Message struct {
	Direction Direction
	Type      byte // its first byte: 'B' is Bind to the server, 'Z' is ReadyForQuery to the client
	Bytes     int  // the whole message, type and length included
}

func (m Message) String() string {
	return fmt.Sprintf("%q of %d bytes %s", m.Type, m.Bytes, m.Direction)
}

// The types of messages that this package tells apart.
const (
	typeReady      = 'Z' // to the client
	typeBackendKey = 'K'
	typeTerminate  = 'X' // to the server
)

// exchangeEnds are the types of messages behind which a client waits for an answer.
const exchangeEnds = "SQHXpF"

// The codes in place of a protocol version in the first packet of a connection.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104
)

// maxMessage bounds what is believed to be a length.
const maxMessage = 1 << 30

// readMessage reads a whole message: a type byte, a length that counts itself, a body.
func readMessage(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	return readBytes(r, 1, binary.BigEndian.Uint32(head[1:]))
}

// readPacket reads the first packet of a connection, which has no type byte.
func readPacket(r *bufio.Reader) (packet []byte, code uint32, err error) {
	head, err := r.Peek(8)
	if err != nil {
		return nil, 0, err
	}
	code = binary.BigEndian.Uint32(head[4:])
	packet, err = readBytes(r, 0, binary.BigEndian.Uint32(head))
	return packet, code, err
}

func readBytes(r *bufio.Reader, extra int, length uint32) ([]byte, error) {
	if length < 4 || length > maxMessage {
		return nil, fmt.Errorf("wire: a message says that it is %d bytes long", length)
	}
	whole := make([]byte, extra+int(length))
	_, err := io.ReadFull(r, whole)
	return whole, err
}
