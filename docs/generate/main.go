// Command generate writes the pages of docs that are made of the code's own
// tables, and Packer's web pages that are made of those:
//
//	go run ./docs/generate
//
// A page's prose lies in docs/generate/pages; its tables come from the packages
// scrub, distros and asset, from the doc comments of the specs and the plugin's
// configurations, and from what the command says of itself. The help of the
// command's flags comes from the same comments.
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

// run writes every page below the repository at root.
func run(ctx context.Context, root string) error {
	if err := writeHelp(root); err != nil { // the command's own pages have it
		return err
	}
	if err := writeSchema(root); err != nil {
		return err
	}
	pages, err := pages(ctx, root)
	if err != nil {
		return err
	}
	for name, text := range pages {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("making the page's folder: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}
