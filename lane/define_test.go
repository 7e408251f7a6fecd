package lane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
)

func TestNewRefuses(t *testing.T) {
	store := memory.New(memory.Config{})
	defer store.Close()
	for _, env := range []string{"", "a:b", "a\x00", "\xff", strings.Repeat("x", 256)} {
		if _, err := New(store, Config{Environment: env}); err == nil {
			t.Errorf("environment %q is accepted", env)
		}
	}
	if _, err := New(nil, Config{Environment: "e"}); err == nil {
		t.Error("no store is accepted")
	}
}

func TestDefinePanicsOnWhatCannotRun(t *testing.T) {
	store := memory.New(memory.Config{})
	defer store.Close()
	l, err := New(store, Config{Environment: "e"})
	if err != nil {
		t.Fatal(err)
	}
	Define(l, "taken", double, TaskOptions{})
	for _, c := range []struct {
		name string
		opts TaskOptions
	}{
		{"", TaskOptions{}}, {"a:b", TaskOptions{}}, {"taken", TaskOptions{}}, {strings.Repeat("x", 256), TaskOptions{}},
		{"a", TaskOptions{Queue: "a:b"}}, {"a", TaskOptions{MaxAttempts: -2}}, {"a", TaskOptions{Backoff: Backoff{Initial: 1}}},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, fmt.Sprintf("lane: Define(%q): ", c.name)) {
					t.Errorf("%q, %+v: %s", c.name, c.opts, text)
				}
			}()
			Define(l, c.name, double, c.opts)
		}()
	}
	if task := Define(l, "a", double, TaskOptions{}); task.Name() != "a" || task.Queue() != DefaultQueue {
		t.Errorf("%q in %q", task.Name(), task.Queue())
	}
}

func TestWorkRefuses(t *testing.T) {
	store := memory.New(memory.Config{})
	defer store.Close()
	l, err := New(store, Config{Environment: "e"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Work(t.Context(), WorkerConfig{}); err == nil {
		t.Error("no queue is accepted")
	}
	Define[int, int](l, "elsewhere", nil, TaskOptions{})
	if err := l.Work(t.Context(), WorkerConfig{}); err == nil {
		t.Error("a task without a handler makes a queue")
	}
	for _, cfg := range []WorkerConfig{
		{Queues: []string{"a:b"}}, {Queues: []string{""}}, {Queues: []string{"q"}, Concurrency: -1}, {Queues: []string{"q"}, Lease: -1},
		{Queues: []string{"q"}, Lease: 10, Heartbeat: 10}, {Queues: []string{"q"}, PollInterval: -1}, {Queues: []string{"q"}, RecoverInterval: -1},
	} {
		if err := l.Work(t.Context(), cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// Two names of full length do not fit into a topic.
func TestTopics(t *testing.T) {
	store := memory.New(memory.Config{})
	defer store.Close()
	l, err := New(store, Config{Environment: strings.Repeat("e", 255)})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("q", 254)
	topics := map[string]bool{}
	for _, queue := range []string{"a", long, long + "a", long + "b"} {
		topic := l.topic(queue)
		if err := storage.DefaultLimits().CheckTopic(topic); err != nil || topics[topic] {
			t.Errorf("topic of %d bytes: %v", len(topic), err)
		}
		topics[topic] = true
	}
}
