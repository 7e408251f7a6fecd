package memory

import (
	"context"
	"sync"

	"github.com/seed4391e180/runlane/storage"
)

// maxPending is how many hints a listener may be behind before they are dropped
// and it is told to poll everything.
const maxPending = 1024

// wakes hands the hints of commits to the listeners.
type wakes struct {
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

// listener is one call of Listen. Its fields other than signal are used under the
// mutex of its wakes.
type listener struct {
	pending []string
	lost    bool          // hints may have been missed
	signal  chan struct{} // holds a token while there is something to take
}

// Listen implements [storage.Listener].
func (d *Driver) Listen(ctx context.Context, hint func(topic string)) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.running.Done()
	l := d.wakes.add()
	defer d.wakes.remove(l)
	for {
		topics, lost := d.wakes.take(l)
		if lost {
			hint("")
		}
		for _, topic := range topics {
			if err := ctx.Err(); err != nil {
				return err
			}
			hint(topic)
		}
		select {
		case <-l.signal:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.closing:
			return storage.ErrClosed
		}
	}
}

func (w *wakes) add() *listener {
	l := &listener{lost: true, signal: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == nil {
		w.listeners = map[*listener]struct{}{}
	}
	w.listeners[l] = struct{}{}
	return l
}

func (w *wakes) remove(l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.listeners, l)
}

func (w *wakes) take(l *listener) (topics []string, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topics, lost = l.pending, l.lost
	l.pending, l.lost = nil, false
	return topics, lost
}

// send offers the topics to every listener and waits for none of them.
func (w *wakes) send(topics []string) {
	if len(topics) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.listeners {
		if len(l.pending)+len(topics) > maxPending {
			l.pending, l.lost = nil, true
		} else {
			l.pending = append(l.pending, topics...)
		}
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
}
