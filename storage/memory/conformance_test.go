package memory_test

import (
	"testing"

	"github.com/seed4391e180/runlane/storage"
	"github.com/seed4391e180/runlane/storage/memory"
	"github.com/seed4391e180/runlane/storage/storagetest"
)

func TestConformance(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Driver { return memory.New(memory.Config{}) })
}
