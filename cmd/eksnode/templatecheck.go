//go:build !agent

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/packercheck"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func templateCheckCommand() *cobra.Command {
	var output string
	needs := named("a file or folder with a Packer template", 1)
	cmd := newCommand("check TEMPLATE", needs, func(cmd *cobra.Command, args []string) error {
		files, err := templateFiles(args[0])
		if err != nil {
			return fmt.Errorf("reading the template: %w", err)
		}
		found, err := packercheck.Check(files)
		if err != nil {
			return fmt.Errorf("reading the template %s: %w", args[0], err)
		}
		value := map[string]any{"template": args[0], "findings": append([]packercheck.Finding{}, found...)}
		text := func(p *printer) { p.template(args[0], found) }
		return judge("check", templateCases(args[0], found), value, text).print(cmd, output)
	})
	formatFlag(cmd, &output, "text", "json", "sarif", "junit")
	return cmd
}

// templateFiles reads a file, or the files of a folder that Packer reads.
func templateFiles(name string) ([]packercheck.File, error) {
	names := []string{name}
	if at, err := os.Stat(name); err != nil {
		return nil, err
	} else if at.IsDir() {
		names = nil
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if isTemplate(e.Name()) {
				names = append(names, filepath.Join(name, e.Name()))
			}
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("the folder %s has no file whose name ends in .pkr.hcl or .pkr.json", name)
		}
	} else if !isTemplate(name) {
		return nil, fmt.Errorf("the name of %s must end in .pkr.hcl or .pkr.json; packer hcl2_upgrade converts "+
			"older templates", name)
	}
	var files []packercheck.File
	for _, name := range names {
		text, err := surface.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, packercheck.File{Name: name, Text: text})
	}
	return files, nil
}

func isTemplate(name string) bool {
	return strings.HasSuffix(name, ".pkr.hcl") || strings.HasSuffix(name, ".pkr.json")
}

func templateCases(name string, found []packercheck.Finding) (list []plan.Case) {
	page := plan.About{Page: "build.md"}
	for _, f := range found {
		level := plan.Fails
		if f.Warning {
			level = plan.Warns
		}
		list = append(list, plan.Case{ID: f.Rule, Name: fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Rule), About: page,
			Level: level, Text: f.Text, Remedy: f.Remedy, Place: plan.Place{File: f.File, Line: f.Line}})
	}
	if len(list) == 0 {
		list = append(list, plan.Case{ID: "template", Name: name, About: page, Text: "no mistakes"})
	}
	return list
}

func (p *printer) template(name string, found []packercheck.Finding) {
	failed := false
	for _, f := range found {
		warning := ""
		if f.Warning {
			warning = "warning: "
		}
		failed = failed || !f.Warning
		p.line("%s:%d: %s%s; %s (%s)", f.File, f.Line, warning, f.Text, f.Remedy, f.Rule)
	}
	if failed {
		p.line("FAIL: the template %s has mistakes", name)
	} else {
		p.line("PASS: %s; packer validate checks the fields", name)
	}
}
