// Package demo works a tree of source files with durable runs, kills a worker in
// the middle, and proves that nothing was lost.
//
// The process of [Run] starts a private PostgreSQL and two worker processes (see
// [Worker]), triggers one run for each file and watches. It talks with its
// workers over their standard input and output; a worker whose input ends knows
// that the demo is gone, however it went, and ends as well.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Options say what to do. Dir may be empty, Out is required.
type Options struct {
	Dir      string    // the tree; "": the sources of the installed Go
	Keep     bool      // leave the server running
	Profile  string    // folder for processor profiles; "": none
	Out      io.Writer // where the demo speaks
	Terminal bool      // Out is a terminal, where a line can be updated in place
}

const (
	environment = "demo"
	taskName    = "digest"

	lease           = 2 * time.Second
	recoverInterval = 500 * time.Millisecond
)

// The names of the workers, as they stand in leases.
const (
	victimName   = "A"
	survivorName = "B"
)

// Run is the whole demo. It returns nil if everything that it shows holds.
func Run(ctx context.Context, o Options) (err error) {
	root, err := sourceTree(ctx, o.Dir)
	if err != nil {
		return err
	}
	files, err := list(root)
	if err != nil {
		return err
	}
	p, err := newPlan(root, len(files))
	if err != nil {
		return err
	}
	stopProfile, err := startProfile(o.Profile, "demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	fmt.Fprintf(o.Out, "%s Go files in %s\n", count(len(files)), root)
	db, err := startDatabase(ctx, o.Keep)
	if err != nil {
		return err
	}
	kept := false
	defer func() { err = errors.Join(err, db.close(kept)) }()
	fmt.Fprintln(o.Out, db.describe())

	s := &show{options: o, plan: p, files: files, db: db}
	if err := s.play(ctx); err != nil {
		return err
	}
	err = s.prove(ctx)
	// What does not hold is worth a look as well; an interruption is none.
	if kept = o.Keep && ctx.Err() == nil; kept {
		db.explain(o.Out)
	}
	return err
}
