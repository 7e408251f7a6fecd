package policy

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"

	"github.com/seed4391e180/runlane/policy/internal/inventory"
)

// atRevision reads the policy file as it is in a revision of Git. A revision without
// one has an empty one.
func atRevision(dir, name, revision string) (*inventory.File, error) {
	if _, err := git(dir, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}"); err != nil {
		return nil, fmt.Errorf("the base %q is no revision here (git: %w); a shallow clone must fetch it first", revision, err)
	}
	found, err := git(dir, "ls-tree", "--name-only", revision, "--", "./"+name)
	if err != nil {
		return nil, fmt.Errorf("the policy file in %s: %w", revision, err)
	}
	if strings.TrimSpace(found) == "" {
		return &inventory.File{Name: name}, nil
	}
	text, err := git(dir, "show", revision+":./"+name)
	if err != nil {
		return nil, fmt.Errorf("the policy file in %s: %w", revision, err)
	}
	f, err := inventory.Parse(name+" in "+revision, text)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func git(dir string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	var out, problem bytes.Buffer
	command.Stdout, command.Stderr = &out, &problem
	if err := command.Run(); err != nil {
		if text := strings.TrimSpace(problem.String()); text != "" {
			return "", fmt.Errorf("%w: %s", err, text)
		}
		return "", err
	}
	return out.String(), nil
}
