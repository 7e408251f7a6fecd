package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed4391e180/runlane/lane"
)

// job is the payload of a run: a file, by its path below the tree.
type job struct {
	Path string `json:"path"`
}

// digest is the result of a run.
type digest struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"` // newline characters
}

// defineTask adds the demo's task to a lane. The process that triggers has no handler.
func defineTask(l *lane.Lane, handler lane.Handler[job, digest]) *lane.Task[job, digest] {
	return lane.Define(l, taskName, handler, lane.TaskOptions{Queue: taskName})
}

// handler works on one file of the tree.
func handler(root string, g *gate) lane.Handler[job, digest] {
	return func(ctx context.Context, _ *lane.Attempt, j job) (digest, error) {
		if err := g.pass(ctx); err != nil {
			return digest{}, err
		}
		d, err := digestFile(filepath.Join(root, filepath.FromSlash(j.Path)))
		if err != nil {
			return digest{}, lane.Permanent(err) // the file will not come back
		}
		return d, nil
	}
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// digestFile reads a file piece by piece, so that its size costs no memory.
func digestFile(path string) (d digest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return digest{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	sum := sha256.New()
	for {
		n, err := file.Read(buffer[:])
		sum.Write(buffer[:n]) // never fails
		d.Bytes += int64(n)
		d.Lines += int64(bytes.Count(buffer[:n], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			d.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return d, nil
		}
		if err != nil {
			return digest{}, err
		}
	}
}
