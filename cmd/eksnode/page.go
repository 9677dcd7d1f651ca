//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// tablePage is the flag --report of a command whose answer is tables.
type tablePage struct {
	file string
	to   *destination
}

func (p *tablePage) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "report", "",
		"file for a page: a name with .html for a browser, with .md for a summary")
}

// open checks that the file can be written.
func (p *tablePage) open(cmd *cobra.Command) (err error) {
	switch {
	case p.file == "":
		return nil
	case !page.Is(p.file):
		return fmt.Errorf("--report %s: name a file with .html or .md; --output json prints JSON", shown(p.file))
	}
	if p.to, err = openDestination(cmd.Context(), p.file); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

func (p *tablePage) write(title string, tables ...page.Table) error {
	if p.to == nil {
		return nil
	}
	text, err := page.Of(p.file, title, tables)
	if err == nil {
		err = p.to.write(text)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// reportText is what a report file gets.
func reportText(file string, r plan.Report) ([]byte, error) { return page.Report(file, r) }
