// Command bench compares runlane with its peers, on one private PostgreSQL with
// default durability. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/seed4391e180/runlane/bench/lab"
	"github.com/seed4391e180/runlane/bench/report"
	"github.com/seed4391e180/runlane/bench/rows"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	short := flag.Bool("short", false, "a few minutes instead of half an hour; for finding out whether all of it works")
	only := flag.String("rows", ".", "only the comparisons whose name matches this expression")
	folder := flag.String("out", "results", "the folder for latest.json, table.md and chart.svg")
	pool := flag.Int("pool", 0, "the size of runlane's pool; 0 is pgx's default")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	began := time.Now()
	l, err := lab.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	b := &rows.Bench{Lab: l, Short: *short, OwnPool: *pool, Log: os.Stderr}
	lines, failed := compare(ctx, b, chosen)
	h := header(b, time.Since(began))
	if len(lines) > 0 {
		fmt.Print("\n", report.Table(h, lines))
		failed = errors.Join(failed, report.Write(*folder, h, lines))
		fmt.Printf("\nwritten to %s\n", filepath.Join(*folder, "latest.json"))
	}
	return failed
}

func choose(expression string) ([]rows.Row, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	var chosen []rows.Row
	for _, r := range rows.All {
		if match.MatchString(r.Name) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no comparison matches %q", expression)
	}
	return chosen, nil
}

// compare makes the comparisons. One that cannot be made does not keep the others from
// being made, and is an error at the end.
func compare(ctx context.Context, b *rows.Bench, chosen []rows.Row) (lines []*report.Row, failed error) {
	for _, r := range chosen {
		began := time.Now()
		fmt.Fprintf(b.Log, "== %s\n", r.Name)
		found, err := r.Run(ctx, b)
		for _, f := range found {
			err = errors.Join(err, f.Check())
		}
		if err = errors.Join(err, b.Lab.Clear(context.WithoutCancel(ctx))); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s could not be measured: %w", r.Name, err))
			fmt.Fprintf(b.Log, "   FAILED: %v\n", err)
			continue
		}
		for _, f := range found {
			fmt.Fprintln(b.Log, "  ", f)
		}
		fmt.Fprintf(b.Log, "   in %v\n", time.Since(began).Round(time.Second))
		lines = append(lines, found...)
	}
	return lines, failed
}

func header(b *rows.Bench, took time.Duration) report.Header {
	h := report.Header{
		Form: "full", Server: b.Lab.Server, Took: took.Round(time.Second).String(),
		Machine: fmt.Sprintf("%d processors, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
	}
	if b.Short {
		h.Form = "short"
	}
	var peers []string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/riverqueue/river", "github.com/dbos-inc/dbos-transact-golang", "github.com/jackc/pgx/v5":
				peers = append(peers, dep.Path+" "+dep.Version)
			}
		}
	}
	h.Peers = strings.Join(peers, ", ")
	return h
}
