package demo

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
)

// startProfile writes a processor profile of this process to dir/name.pprof until
// stop is called, which may be called again. Without a dir it does nothing.
func startProfile(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return sync.OnceValue(func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}), nil
}
