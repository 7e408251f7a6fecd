// Package document prints what a command found, for people or for programs.
package document

import (
	"encoding/json"
	"io"

	"github.com/spf13/pflag"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
)

// Format is how a command prints its results: the value of --output.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

var _ pflag.Value = (*Format)(nil)

// String is the format's name.
func (f *Format) String() string { return string(*f) }

// Type is what the help calls the flag's value.
func (*Format) Type() string { return "text|json" }

// Set takes a format by its name.
func (f *Format) Set(name string) error {
	switch Format(name) {
	case Text, JSON:
		*f = Format(name)
		return nil
	}
	return usage.Errorf("it is text or json")
}

// Write prints v as one JSON document, indented, with a line end.
func Write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
