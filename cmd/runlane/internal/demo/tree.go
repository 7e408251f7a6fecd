package demo

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/seed4391e180/runlane/cmd/runlane/internal/usage"
)

// sourceTree is the absolute path of the tree to work on.
func sourceTree(ctx context.Context, dir string) (string, error) {
	if dir == "" {
		root := goRoot(ctx)
		if root == "" {
			return "", usage.Errorf("no Go toolchain was found; name a tree with --dir")
		}
		dir = filepath.Join(root, "src")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// A link would be walked as a link, not as the folder that it leads to.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", usage.Errorf("there is no tree: %v", err)
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return "", usage.Errorf("%s is not a folder", dir)
	}
	return root, nil
}

// goRoot is where the installed Go lives, or "".
func goRoot(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if root := strings.TrimSpace(string(out)); err == nil && root != "" {
		return root
	}
	return os.Getenv("GOROOT")
}

// list returns the Go files of a tree, as slash-separated paths below it, in
// lexical order of their folders.
func list(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return nil
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files = append(files, filepath.ToSlash(below))
		return nil
	})
	return files, err
}
