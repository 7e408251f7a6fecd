// Package wire stands between a client and PostgreSQL, for tests: it counts round
// trips, since a test must not believe the driver's own counters, and it breaks
// connections where a test says.
package wire

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Counter counts the ReadyForQuery messages that a pool's connections receive. The
// server sends one for each Sync, so their number is the number of round trips.
type Counter struct{ ready atomic.Int64 }

// Count makes every connection of the pool count. The connections must not be
// encrypted.
func Count(config *pgxpool.Config) *Counter {
	c := &Counter{}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: conn, counter: c}, nil
	}
	return c
}

// Ready is the number of messages so far.
func (c *Counter) Ready() int { return int(c.ready.Load()) }

// countingConn follows the framing of the backend's messages: a type byte, then a
// length that counts itself.
type countingConn struct {
	net.Conn
	counter *Counter
	header  [5]byte
	have    int    // bytes of the header so far
	body    uint32 // bytes of the body still to come
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for data := p[:n]; len(data) > 0; {
		if c.body > 0 {
			skip := min(int(c.body), len(data))
			c.body -= uint32(skip)
			data = data[skip:]
			continue
		}
		taken := copy(c.header[c.have:], data)
		c.have += taken
		data = data[taken:]
		if c.have == len(c.header) {
			c.have = 0
			c.body = binary.BigEndian.Uint32(c.header[1:]) - 4
			if c.header[0] == 'Z' {
				c.counter.ready.Add(1)
			}
		}
	}
	return n, err
}
