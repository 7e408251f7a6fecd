package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{})
		stop := w.work(WorkerConfig{PollInterval: 1000 * time.Hour})
		time.Sleep(time.Minute)
		begin := time.Now()
		res := trigger(w, task, number{1})
		many, err := task.TriggerMany(context.Background(), make([]Item[number], 3))
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range append(many, res) {
			w.ended(res.RunID)
		}
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		stop()
	})
}

func TestPollFindsWhatNoWakeAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.store.deaf = true
		task := Define(w.lane, "double", double, TaskOptions{})
		stop := w.work(WorkerConfig{})
		for range 5 {
			time.Sleep(time.Minute)
			begin := time.Now()
			w.ended(trigger(w, task, number{1}).RunID)
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		}
		stop()
	})
}

func TestTriggerManySendsOneWake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		task := Define(w.lane, "double", double, TaskOptions{Queue: "q"})
		topics := map[string]int{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.memory.Listen(ctx, func(topic string) { topics[topic]++ })
		}()
		synctest.Wait()
		if _, err := task.TriggerMany(context.Background(), make([]Item[number], 100)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-done
		if topics["q:test:q"] != 1 {
			t.Errorf("%v", topics)
		}
	})
}
