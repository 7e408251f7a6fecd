package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one patch.
type mutant struct {
	name   string
	breaks string // what no longer holds
	kill   string // arguments of go test
	short  bool
	patch  []byte
}

// load reads all patches of a folder, in the order of their names.
func load(dir string) ([]*mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	all := make([]*mutant, 0, len(files))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(file), ".patch"), data)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func parse(name string, data []byte) (*mutant, error) {
	m := &mutant{name: name}
	for line := range bytes.Lines(data) {
		text, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(text, ": ")
		switch key {
		case "break":
			m.breaks = value
		case "kill":
			m.kill = value
		case "short":
			m.short = true
		default:
			return nil, fmt.Errorf("%s: unknown header %q", name, key)
		}
	}
	_, m.patch, _ = bytes.Cut(data, []byte("\n---"))
	m.patch = append([]byte("---"), m.patch...)
	if m.breaks == "" || m.kill == "" || len(m.patch) < 10 {
		return nil, fmt.Errorf("%s: it needs the headers break and kill, and a patch", name)
	}
	return m, nil
}
