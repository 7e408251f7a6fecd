package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/seed4391e180/runlane/run"
)

// progress shows how far the work is: on a terminal one line that is updated in
// place, otherwise a line every second.
type progress struct {
	out      io.Writer
	terminal bool
	runs     int
	began    time.Time
	shown    time.Time // when the last line was written; of no account on a terminal
	dirty    bool      // the terminal's line holds something
}

const lineInterval = time.Second

func newProgress(out io.Writer, terminal bool, runs int) *progress {
	now := time.Now()
	return &progress{out: out, terminal: terminal, runs: runs, began: now, shown: now}
}

// show shows the runs by status, unless it did so a moment ago. onlyLost says that
// all runs but those with a lost lease have ended.
func (p *progress) show(s statuses, onlyLost bool) {
	line := p.line(s)
	if onlyLost {
		line += ", lost leases run out"
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
		p.dirty = true
		return
	}
	if time.Since(p.shown) >= lineInterval {
		p.shown = p.shown.Add(lineInterval)
		fmt.Fprintln(p.out, line)
	}
}

// say writes a line of its own.
func (p *progress) say(text string) {
	p.clear()
	fmt.Fprintf(p.out, "%s  %s\n", p.clock(), text)
}

// end writes the last line.
func (p *progress) end(s statuses) error {
	p.clear()
	_, err := fmt.Fprintln(p.out, p.line(s))
	return err
}

// clear takes back the terminal's line.
func (p *progress) clear() {
	if p.dirty {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.dirty = false
	}
}

// line fits into 80 columns.
func (p *progress) line(s statuses) string {
	ended := s.ended()
	text := fmt.Sprintf("%s  triggered %s, running %s, ended %s (%s)", p.clock(), count(s.total()), count(s[run.StatusRunning]), count(ended), percent(ended, p.runs))
	if n := s[run.StatusRetrying]; n > 0 {
		text += ", retrying " + count(n)
	}
	return text
}

func (p *progress) clock() string { return fmt.Sprintf("%6s", seconds(time.Since(p.began))) }
