//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// tablePage is the flag --report of a command whose answer is tables.
type tablePage struct{ reportFile }

// begin opens the file, and replaces the page of an earlier run with one that is unfinished.
func (p *tablePage) begin(cmd *cobra.Command) error {
	if p.name != "" && !page.Is(p.name) {
		return fmt.Errorf("--report %s: name a file with .html or .md; --output json prints JSON", shown(p.name))
	}
	return p.reportFile.begin(cmd, true, func() ([]byte, error) {
		return page.Of(p.name, cmd.CommandPath()+": unfinished", nil)
	})
}

func (p *tablePage) write(title string, tables ...page.Table) error {
	if p.to == nil {
		return nil
	}
	return p.reportFile.write(page.Of(p.name, title, tables))
}

func reportText(file string, r plan.Report) ([]byte, error) { return page.Report(file, r) }
