package metamorphic_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

var folderFlag = flag.String("folder", "", "the folder of a difference that TestRerun plays again")

// environments numbers the environments of plays, which share databases with those of
// other processes' runs only by mistake: a database belongs to one test.
var environments atomic.Int64

func freshPrefix() string { return fmt.Sprintf("env%d", environments.Add(1)) }

// play plays a script, as far as the configuration can, in environments of its own.
func (c *configuration) play(ctx context.Context, st store, s script) []string {
	if c.noAppends {
		s = s.withoutAppends()
	}
	return play(ctx, s, st, c.manner, freshPrefix())
}

// compare plays a script in memory and in the configuration. The result is nil if the
// histories are the same.
func (c *configuration) compare(ctx context.Context, st store, s script) *difference {
	plain := configuration{manner: oracle.manner, noAppends: c.noAppends}
	d := &difference{memory: plain.play(ctx, inMemory(), s), other: c.play(ctx, st, s)}
	if slices.Equal(d.memory, d.other) {
		return nil
	}
	return d
}

// TestRerun plays scripts again that had two histories: that of -folder, or all of
// testdata, where those are kept that something was wrong with.
func TestRerun(t *testing.T) {
	folders := []string{*folderFlag}
	if *folderFlag == "" {
		var err error
		if folders, err = filepath.Glob(filepath.Join("testdata", "*")); err != nil || len(folders) == 0 {
			t.Fatal("there is nothing to play again", err)
		}
	}
	dbs := openDatabases(t)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			s, err := readScript(filepath.Join(folder, scriptFile))
			if err != nil {
				t.Fatal(err)
			}
			name, err := os.ReadFile(filepath.Join(folder, configurationFile))
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(configurations(true), func(c configuration) bool { return c.name == strings.TrimSpace(string(name)) })
			if at < 0 {
				t.Fatalf("there is no configuration %q", name)
			}
			c := configurations(true)[at]
			if d := c.compare(t.Context(), c.open(t, dbs), s); d != nil {
				t.Errorf("another history in the configuration %q than in memory:\n%s", c.name, d.excerpt())
			}
		})
	}
}

// TestScriptsSurviveTheirText: what a folder holds is what was played.
func TestScriptsSurviveTheirText(t *testing.T) {
	for seed := range uint64(20) {
		s := draw(seed)
		path := filepath.Join(t.TempDir(), "script.json")
		if err := os.WriteFile(path, []byte(s.text()), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		if again.text() != s.text() || asJSON(again) != asJSON(s) {
			t.Fatalf("seed %d reads as another script than it was", seed)
		}
		one, other := play(context.Background(), s, inMemory(), oracle.manner, "one"), play(context.Background(), again, inMemory(), oracle.manner, "another")
		if !slices.Equal(one, other) {
			t.Fatalf("seed %d has two histories in memory", seed)
		}
	}
}
