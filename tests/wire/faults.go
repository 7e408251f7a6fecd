package wire

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Faults stands between a client and PostgreSQL and breaks their connections where
// a test says: between two messages, or within one. It follows the framing of the
// protocol in both directions. Connections must not be encrypted; a request for
// encryption is refused in the server's name.
//
// Messages are counted from the end of a connection's startup, over all connections,
// each direction for itself. Terminate is not counted, nor is anything on a connection
// that was struck.
type Faults struct {
	dial pgconn.DialFunc

	mu      sync.Mutex
	links   map[*link]bool
	queue   []*Shot // the first one is due next
	seen    int     // messages that count for the first of queue
	tape    []Message
	refuse  bool
	refused int
	lose    bool
	closed  bool
	cancels int
}

// Action is what happens to a connection.
type Action uint8

// The actions. To the client, what was not forwarded yet is always lost. To the
// server, the client is taken to have written its whole exchange before it notices
// anything, as a kernel would have buffered it.
const (
	// Cut closes both sides.
	Cut Action = iota + 1
	// HalfOpen closes the client's side. The server hears nothing more, not even that
	// the client has gone, until Shot.Drop; what it says is lost.
	HalfOpen
	// Hold is HalfOpen, but what the client had written is kept for Shot.Deliver.
	Hold
	// Stall closes neither side and forwards nothing more in either direction. The
	// server does not hear of it when the client gives up.
	Stall
	// Pause keeps back this direction until Shot.Release, or until Fault.Delay has
	// passed if there is one. The other direction goes on.
	Pause
	// Replace forwards what Fault.With makes of the message, and goes on.
	Replace
)

func (a Action) String() string {
	names := [...]string{"no action", "cut", "half-open", "hold", "stall", "pause", "replace"}
	return names[a]
}

// Fault says what happens where.
type Fault struct {
	Action    Action
	Direction Direction
	Message   int                         // how many messages of this direction pass before, from 0
	Match     func(message []byte) bool   // if set, only messages of which it is true are counted
	Byte      int                         // how many bytes of the next one still pass; all of it if it is shorter
	Delay     time.Duration               // Pause only
	With      func(message []byte) []byte // Replace only
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s behind %d messages %s", f.Action, f.Message, f.Direction)
	if f.Byte > 0 {
		s += fmt.Sprintf(" and %d bytes", f.Byte)
	}
	return s
}

// Inject puts Faults between a pool and its server. Close it when the pool is closed.
func Inject(config *pgxpool.Config) *Faults {
	f := &Faults{dial: config.ConnConfig.DialFunc, links: make(map[*link]bool)}
	config.ConnConfig.DialFunc = f.connect
	return f
}

// Arm makes the fault happen, once, and returns what can be done about it. Its count
// begins now, or behind the message at which the fault armed before it has struck.
func (f *Faults) Arm(fault Fault) *Shot {
	s := newShot(fault)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		f.seen = 0
	}
	f.queue = append(f.queue, s)
	return s
}

// Rewind forgets armed faults and recorded messages.
func (f *Faults) Rewind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.tape, f.seen = nil, nil, 0
}

// Messages returns the messages that were counted since Rewind.
func (f *Faults) Messages() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Message(nil), f.tape...)
}

// Since returns those of Messages that followed the fault. It waits for it to strike.
func (f *Faults) Since(s *Shot) []Message {
	<-s.struck
	messages := f.Messages()
	return messages[min(s.place, len(messages)):]
}

// Strike does an action, Cut, HalfOpen or Stall, to every connection that is open now.
func (f *Faults) Strike(action Action) []*Shot {
	f.mu.Lock()
	links := make([]*link, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	f.mu.Unlock()
	var shots []*Shot
	for _, l := range links {
		s := newShot(Fault{Action: action})
		if l.take(s) {
			l.part(s)
			s.strike()
			shots = append(shots, s)
		}
	}
	return shots
}

// Refuse makes new connections fail, or lets them be made again. Open ones stay.
func (f *Faults) Refuse(refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// Refused is how many connections were refused.
func (f *Faults) Refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// LoseCancels makes requests to cancel a statement vanish: a network that loses a
// connection would not carry them either.
func (f *Faults) LoseCancels(lose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = lose
}

// Cancels is the number of requests to cancel a statement, lost or not.
func (f *Faults) Cancels() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels
}

// Close closes every connection on both sides.
func (f *Faults) Close() {
	f.mu.Lock()
	f.closed = true
	links := f.links
	f.links = nil
	f.mu.Unlock()
	for l := range links {
		l.close()
	}
}

// connect is the dial function of the client.
func (f *Faults) connect(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	refuse := f.refuse || f.closed
	if refuse {
		f.refused++
	}
	f.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	server, err := f.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := socketPair(ctx)
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	l := &link{faults: f, client: ours, server: server}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		l.close()
		_ = theirs.Close()
		return nil, net.ErrClosed
	}
	f.links[l] = true
	go l.run()
	return &clientConn{Conn: theirs, server: server}, nil
}

// socketPair makes two connected sockets, so that the client's side has a kernel's
// buffers, deadlines and resets.
func socketPair(ctx context.Context) (dialled, accepted net.Conn, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = listener.Close() }()
	var dialer net.Dialer
	if dialled, err = dialer.DialContext(ctx, "tcp", listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	if accepted, err = listener.Accept(); err != nil {
		_ = dialled.Close()
		return nil, nil, err
	}
	return dialled, accepted, nil
}

// clientConn is the client's end. It has the server's address, to which a client
// sends its requests to cancel.
type clientConn struct {
	net.Conn
	server net.Conn
}

func (c *clientConn) RemoteAddr() net.Addr { return c.server.RemoteAddr() }

// cancel notes a request to cancel and says whether it is lost.
func (f *Faults) cancel() (lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancels++
	return f.lose
}

// count counts a message of a link and returns the fault that strikes before it.
func (f *Faults) count(l *link, d Direction, message []byte) *Shot {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d == ToServer && message[0] == typeTerminate || l.struck() {
		return nil
	}
	var due *Shot
	if f.counts(d, message) {
		if f.seen == f.queue[0].fault.Message && l.take(f.queue[0]) {
			due = f.queue[0]
			due.place = len(f.tape)
			f.queue, f.seen = f.queue[1:], 0
			if due.fault.Action != Replace && due.fault.Action != Pause {
				return due
			}
		} else {
			f.seen++
		}
	}
	f.tape = append(f.tape, Message{Direction: d, Type: message[0], Bytes: len(message)})
	return due
}

// counts reports whether a message counts for the fault that is due next.
func (f *Faults) counts(d Direction, message []byte) bool {
	if len(f.queue) == 0 || f.queue[0].fault.Direction != d {
		return false
	}
	match := f.queue[0].fault.Match
	return match == nil || match(message)
}

func (f *Faults) forget(l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, l)
}
