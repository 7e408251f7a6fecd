package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// process names a process for good: ids are used again, an id together with
// the time at which its process started is not.
type process struct {
	PID   int
	Start string
}

// inspect returns the identity of a running process and the base name of its
// program. ok is false if there is no such process, or only its exit status.
func inspect(pid int) (p process, program string, ok bool) {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return parseStat(pid, stat)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		return process{}, "", false
	}
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "state=,lstart=,comm=").Output()
	// The start time has five fields: Mon Jan 2 15:04:05 2006.
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 7 || strings.HasPrefix(fields[0], "Z") {
		return process{}, "", false
	}
	return process{PID: pid, Start: strings.Join(fields[1:6], " ")}, filepath.Base(strings.Join(fields[6:], " ")), true
}

// parseStat reads /proc/<pid>/stat of Linux. The program's name may hold any
// character, so the fields are counted from the last parenthesis.
func parseStat(pid int, stat []byte) (p process, program string, ok bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, "", false
	}
	const startTime = 19 // counted from the state, which follows the name
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startTime || fields[0] == "Z" || fields[0] == "X" {
		return process{}, "", false
	}
	return process{PID: pid, Start: fields[startTime]}, string(stat[open+1 : end]), true
}

// alive says whether the process still runs.
func (p process) alive() bool {
	now, _, ok := inspect(p.PID)
	return ok && now == p
}

// arguments returns the command line of a process, or "" if there is none.
func arguments(pid int) string {
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	}
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "args=").Output()
	if err != nil {
		return ""
	}
	return string(out)
}
