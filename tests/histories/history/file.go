package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Save writes the history to a file: one line about the run, then one for each
// transaction, so that a person can read it and grep it.
func (h *History) Save(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	run := *h
	run.Transactions = nil
	if err := enc.Encode(run); err != nil {
		return err
	}
	for _, t := range h.Transactions {
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Load reads what Save wrote.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	dec := json.NewDecoder(bufio.NewReader(f))
	h := &History{}
	if err := dec.Decode(h); err != nil {
		return nil, fmt.Errorf("%s: the line about the run: %w", path, err)
	}
	for {
		t := &Transaction{}
		if err := dec.Decode(t); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: transaction %d: %w", path, len(h.Transactions), err)
		}
		h.Transactions = append(h.Transactions, t)
	}
}
