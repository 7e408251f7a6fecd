package hostile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/storage"
)

// TestTopics: what a hint is about arrives as it was sent, up to 512 bytes, whatever
// its characters are.
func TestTopics(t *testing.T) {
	t.Parallel()
	fit := append([]string{
		strings.Repeat("x", 512), strings.Repeat("é", 256), strings.Repeat("€", 170) + "xy", strings.Repeat("😀", 128),
	}, texts...)
	inEveryMode(t, func(s *store) {
		heard, stop := s.listen()
		defer stop()
		for i := 0; i < len(fit); i += 50 {
			s.must(func(_ context.Context, tx storage.Tx) error {
				for _, topic := range []string{strings.Repeat("x", 513), strings.Repeat("é", 256) + "x", strings.Repeat("😀", 129), strings.Repeat("k", 3000)} {
					s.refused(tx.Wake(topic), storage.ErrTooLarge, "topic")
				}
				for _, topic := range []string{"", "a\x00", "\xff", "\xed\xa0\x80"} {
					s.refused(tx.Wake(topic), storage.ErrInvalidKey, "topic")
				}
				for _, topic := range fit[i:min(i+50, len(fit))] {
					if err := tx.Wake(topic); err != nil {
						return err
					}
				}
				return nil
			})
		}
		await(s.T, "the last hint", func() bool { return len(heard()) >= len(fit) })
		require.ElementsMatch(s, fit, heard())
	})
}

// listen collects the hints that arrive from now on, without those that ask to poll
// everything. It returns once the driver listens.
func (s *store) listen() (heard func() []string, stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	var (
		mu     sync.Mutex
		topics []string
		begun  = make(chan struct{})
		once   sync.Once
		done   = make(chan struct{})
	)
	go func() {
		defer close(done)
		_ = s.Listen(ctx, func(topic string) { // it ends with ctx
			if topic == "" {
				once.Do(func() { close(begun) })
				return
			}
			mu.Lock()
			defer mu.Unlock()
			topics = append(topics, topic)
		})
	}()
	<-begun
	heard = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), topics...)
	}
	return heard, func() {
		cancel()
		<-done
	}
}
