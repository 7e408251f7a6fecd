package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection: a client's end, a server's end, and a pump in each
// direction.
type link struct {
	faults  *Faults
	client  net.Conn
	server  net.Conn
	backend atomic.Uint32
	started atomic.Bool // the startup is over

	mu     sync.Mutex
	shot   *Shot   // what ended the forwarding on this link
	pauses []*Shot // what interrupted it
	closed bool
}

// take makes s the end of the link's forwarding, unless there is one already or s
// does not end it.
func (l *link) take(s *Shot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shot != nil {
		return false
	}
	s.link = l
	switch s.fault.Action {
	case Replace:
	case Pause:
		l.pauses = append(l.pauses, s)
		if l.closed {
			s.Release()
		}
	default:
		l.shot = s
	}
	return true
}

// struck reports whether nothing is forwarded any more.
func (l *link) struck() bool { return l.ending() != nil }

func (l *link) ending() *Shot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shot
}

// part closes the ends that the fault closes.
func (l *link) part(s *Shot) {
	switch s.fault.Action {
	case Cut:
		l.close()
	case HalfOpen, Hold:
		_ = l.client.Close()
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.pauses {
		s.Release()
	}
}

// run forwards until both directions have ended.
func (l *link) run() {
	defer l.faults.forget(l)
	toServer := pump{link: l, direction: ToServer, in: bufio.NewReader(l.client), out: bufio.NewWriter(l.server)}
	toClient := pump{link: l, direction: ToClient, in: bufio.NewReader(l.server), out: bufio.NewWriter(l.client)}
	if !toServer.startup() {
		l.close()
		return
	}
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		toClient.run()
		// The server has gone, or nobody listens: either way the client learns it, except
		// behind a stalled connection.
		if s := l.ending(); s == nil || s.fault.Action != Stall {
			_ = l.client.Close()
		}
	}()
	toServer.run()
	if !l.struck() {
		_ = l.server.Close()
	}
	<-answers
}

// pump forwards one direction.
type pump struct {
	link      *link
	direction Direction
	in        *bufio.Reader
	out       *bufio.Writer
}

// startup forwards the first packet; false ends the connection.
func (p *pump) startup() bool {
	for {
		packet, code, err := readPacket(p.in)
		switch {
		case err != nil:
			return false
		case code == codeTLS || code == codeGSS:
			if _, err := p.link.client.Write([]byte{'N'}); err != nil {
				return false
			}
			continue
		case code == codeCancel && p.link.faults.cancel():
			return false
		}
		_, err = p.link.server.Write(packet)
		return err == nil
	}
}

// run forwards message after message until either end fails or a fault ends it.
// From the server it then still reads, so that the server can go on talking.
func (p *pump) run() {
	for {
		message, err := readMessage(p.in)
		if err != nil {
			break
		}
		if p.link.struck() || !p.forward(message) {
			p.note(message)
			break
		}
	}
	if p.direction == ToClient {
		p.drain()
	} else if s := p.link.ending(); s != nil && s.fault.Action == Stall {
		_, _ = io.Copy(io.Discard, p.in)
	}
}

// drain reads what the server says to nobody.
func (p *pump) drain() {
	for {
		message, err := readMessage(p.in)
		if err != nil {
			if s := p.link.ending(); s != nil {
				s.answer()
			}
			return
		}
		p.note(message)
	}
}

// note tells the fault that the server has answered behind it.
func (p *pump) note(message []byte) {
	if s := p.link.ending(); s != nil && p.direction == ToClient && message[0] == typeReady {
		s.answer()
	}
}

// forward passes a message on; false ends the pump.
func (p *pump) forward(message []byte) bool {
	if p.link.started.Load() {
		if s := p.link.faults.count(p.link, p.direction, message); s != nil {
			return p.strike(s, message)
		}
	} else if p.direction == ToClient {
		switch message[0] {
		case typeBackendKey:
			p.link.backend.Store(binary.BigEndian.Uint32(message[5:]))
		case typeReady:
			p.link.started.Store(true)
		}
	}
	return p.write(message)
}

func (p *pump) write(bytes []byte) bool {
	if _, err := p.out.Write(bytes); err != nil {
		return false
	}
	return p.in.Buffered() > 0 || p.out.Flush() == nil
}

// strike does what the fault says before message; false ends the pump.
func (p *pump) strike(s *Shot, message []byte) bool {
	if s.fault.Action == Replace {
		ok := p.write(s.fault.With(message))
		s.strike()
		return ok
	}
	pass := min(s.fault.Byte, len(message))
	_, _ = p.out.Write(message[:pass])
	_ = p.out.Flush() // if it fails, so does everything that follows
	var exchange []byte
	if p.direction == ToServer {
		exchange = p.exchange(message[0])
	}
	if s.fault.Action == Pause {
		s.strike()
		s.await()
		// What was read ahead is counted when it passes, as if it were read now.
		p.in = bufio.NewReader(io.MultiReader(bytes.NewReader(exchange), p.in))
		_, err := p.out.Write(message[pass:])
		return err == nil && p.out.Flush() == nil
	}
	s.held = slices.Concat(message[pass:], exchange)
	s.strike() // first, so that whoever sees the effect sees this as well
	p.link.part(s)
	return false
}

// exchange reads what the client writes until it waits for an answer.
func (p *pump) exchange(last byte) (rest []byte) {
	for !strings.ContainsRune(exchangeEnds, rune(last)) {
		message, err := readMessage(p.in)
		if err != nil {
			return rest
		}
		last = message[0]
		rest = append(rest, message...)
	}
	return rest
}

// await waits until a pause is over.
func (s *Shot) await() {
	if s.fault.Delay == 0 {
		<-s.released
		return
	}
	timer := time.NewTimer(s.fault.Delay)
	defer timer.Stop()
	select {
	case <-s.released:
	case <-timer.C:
	}
}
