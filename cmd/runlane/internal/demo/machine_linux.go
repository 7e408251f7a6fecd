package demo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peakMemory is the peak resident memory of a process, in bytes; 0: not known.
// (What getrusage says of a child includes what its parent had when it forked.)
func peakMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmHWM:" {
			kB, err := strconv.ParseInt(string(fields[1]), 10, 64)
			if err != nil {
				return 0
			}
			return kB << 10
		}
	}
	return 0
}

// tick is the unit of processor times in /proc: 1/100 s on every architecture
// that Go runs on.
const tick = 10 * time.Millisecond

// processorTime is what a process has used; 0: not known.
func processorTime(pid int) time.Duration {
	used, _ := readTimes(fmt.Sprintf("/proc/%d/stat", pid))
	return used.own
}

// familyTime is what a process, its children, and the children that it has waited
// for have used; 0: not known.
func familyTime(pid int) time.Duration {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	used, ok := readTimes(fmt.Sprintf("/proc/%d/stat", pid))
	if !ok {
		return 0
	}
	total := used.own + used.reaped
	for _, path := range stats {
		if used, ok := readTimes(path); ok && used.parent == pid {
			total += used.own + used.reaped
		}
	}
	return total
}

// times is what /proc says of a process.
type times struct {
	parent      int
	own, reaped time.Duration
}

// readTimes reads a stat file; ok is false if the process has ended.
func readTimes(path string) (t times, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return times{}, false
	}
	// The name, in parentheses, may hold anything. Behind it: the state, the parent,
	// and from the twelfth on the times: own user and system, children's user and system.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return times{}, false
	}
	var n [5]int64
	for i, field := range append(fields[1:2:2], fields[11:15]...) {
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return times{}, false
		}
	}
	return times{
		parent: int(n[0]),
		own:    time.Duration(n[1]+n[2]) * tick,
		reaped: time.Duration(n[3]+n[4]) * tick,
	}, true
}
