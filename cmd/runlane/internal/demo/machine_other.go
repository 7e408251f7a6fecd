//go:build !linux

package demo

import "time"

// peakMemory is the peak resident memory of a process, in bytes; 0: not known.
func peakMemory(int) int64 { return 0 }

// processorTime is what a process has used; 0: not known.
func processorTime(int) time.Duration { return 0 }

// familyTime is what a process and its children have used; 0: not known.
func familyTime(int) time.Duration { return 0 }
