// Command generate writes the pages that come from the code's own tables, and
// their copies for Packer's registry:
//
//	go run ./docs/generate
//
// The prose of a page is in docs/generate/pages, at the page's path in docs. Its
// tables come from the packages scrub, distros, asset, preflight and diagnose, from
// the doc comments of the specs and of the plugin's configurations, and from the
// help of the built command. The help of flags comes from the same comments.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes all generated files of the repository at root, and removes stale
// pages.
func run(ctx context.Context, root string) error {
	if err := writeHelp(root); err != nil { // the pages of commands show it
		return err
	}
	if err := writeSchema(root); err != nil {
		return err
	}
	generated, err := pages(ctx, root)
	if err != nil {
		return err
	}
	for name, text := range generated {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("making the folder of a page: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	old, err := stale(root, generated)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return fmt.Errorf("removing a stale page: %w", err)
		}
	}
	return nil
}
