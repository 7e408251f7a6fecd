package lane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/seed4391e180/runlane/storage"
)

// topic is what wakes the workers of a queue. Names hold no ":", so two queues
// share no topic; two names of full length are too long to be spelt out.
func (l *Lane) topic(queue string) string {
	topic := "q:" + l.env + ":" + queue
	if len(topic) <= storage.DefaultLimits().MaxTopic {
		return topic
	}
	sum := sha256.Sum256([]byte(topic))
	return "q:" + hex.EncodeToString(sum[:])
}

// hint stages a wake. Beyond the number that a transaction may send it does
// nothing: a hint may be lost, the work is found by polling.
func hint(tx storage.Tx, topic string) error {
	if err := tx.Wake(topic); !errors.Is(err, storage.ErrTooMany) {
		return err
	}
	return nil
}

// listen passes wakes on to the claimer, and to whoever looks into requests to
// cancel, until ctx ends. Without a listener the
// worker polls and is none the worse for it, so a failure is only logged.
func (w *worker) listen(ctx context.Context) {
	byTopic := map[string][]*partition{"": w.parts}
	for _, p := range w.parts {
		byTopic[p.topic] = append(byTopic[p.topic], p)
	}
	for failures := 1; ctx.Err() == nil; failures++ {
		err := w.lane.store.Listen(ctx, func(topic string) {
			if parts := byTopic[topic]; len(parts) > 0 {
				w.askAgain(parts, time.Now())
				w.nudge()
			} else {
				w.heardCancel(topic)
			}
		})
		if ctx.Err() != nil || errors.Is(err, storage.ErrClosed) {
			return
		}
		w.lane.log.Warn("listening for wakes failed", "worker", w.cfg.Name, "error", err)
		pause(ctx, w.retryPause(failures))
	}
}
