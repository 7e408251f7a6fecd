//go:build !linux

package pgtest

func memoryBase() (string, bool) { return "", false }
