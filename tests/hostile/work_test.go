package hostile_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/seed4391e180/runlane/lane"
)

// work starts a worker; stop ends it.
func (s *store) work(l *lane.Lane, cfg lane.WorkerConfig) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- l.Work(ctx, cfg) }()
	return func() {
		s.Helper()
		cancel()
		require.NoError(s, <-done)
	}
}
