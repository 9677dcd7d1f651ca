package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/binsize"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
	"github.com/eksnode/packer-plugin-eksnode/plugin/embedded"
)

func sizeBenchmark() benchmark {
	return benchmark{
		name:  "size",
		about: "the agent that travels, and what each large dependency adds to it",
		run:   runSize,
	}
}

// agentPackage is what the agent is built from.
const agentPackage = "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode"

func runSize(ctx context.Context, b *bench, _ int) (report.Section, error) {
	section := report.Section{Facts: map[string]float64{}}
	agents := report.Table{Title: "the agent, as the plugin carries it", Head: []string{"", "stripped bytes", "gzip bytes"}}
	for _, arch := range []string{"amd64", "arm64"} {
		packed, err := embedded.Agent(arch)
		if err != nil {
			return section, err
		}
		size, err := binsize.Packed(packed)
		if err != nil {
			return section, fmt.Errorf("the agent for linux/%s: %w", arch, err)
		}
		agents.Rows = append(agents.Rows, []string{"linux/" + arch, digits(size.Stripped), digits(size.Compressed)})
		section.Facts["agent_"+arch+"_stripped_bytes"] = float64(size.Stripped)
		section.Facts["agent_"+arch+"_gzip_bytes"] = float64(size.Compressed)
		section.Goals = append(section.Goals,
			report.NewGoal("stripped MB for "+arch, float64(size.Stripped)/1e6, 20),
			report.NewGoal("gzip MB for "+arch, float64(size.Compressed)/1e6, 7))
	}
	module, err := moduleFolder(ctx)
	if err != nil {
		return section, err
	}
	adds, err := additions(ctx, module, section.Facts)
	if err != nil {
		return section, err
	}
	inside, err := b.contents(ctx, module, section.Facts)
	if err != nil {
		return section, err
	}
	section.Tables = []report.Table{agents, adds, inside}
	section.Notes = []string{
		"what a dependency adds is measured by probes: programs of a few lines that use it as the agent does, built like the agent, with the module's versions, for this machine. Alone: larger than the same program without it. On top: larger than the probe with all the others, which share packages with it. Leaving it out of the agent saves something between the two",
		"what is inside comes from the ELF symbol table of the agent built without -s -w. Line tables grow with all code, types and strings with all data; no symbol says whose they are",
	}
	return section, nil
}

// moduleFolder is the root of the module whose agent is measured.
func moduleFolder(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the module (run this in the project's folder): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func additions(ctx context.Context, module string, facts map[string]float64) (report.Table, error) {
	t := report.Table{
		Title: "what a dependency adds, in bytes",
		Head:  []string{"", "alone", "gzip", "on top of the others", "gzip"},
	}
	imports, err := binsize.Imports(ctx, module, agentPackage)
	if err != nil {
		return t, err
	}
	base, all, err := binsize.Additions(ctx, module, binsize.Of(binsize.AgentProbes(), imports))
	if err != nil {
		return t, err
	}
	t.Rows = append(t.Rows, []string{"(a program with none)", digits(base.Stripped), digits(base.Compressed), "", ""})
	for _, a := range all {
		t.Rows = append(t.Rows, []string{
			a.Name, digits(a.Alone.Stripped), digits(a.Alone.Compressed), digits(a.OnTop.Stripped), digits(a.OnTop.Compressed),
		})
		facts["adds_alone_bytes: "+a.Name] = float64(a.Alone.Stripped)
		facts["adds_on_top_bytes: "+a.Name] = float64(a.OnTop.Stripped)
	}
	return t, nil
}

// contents shows the agent by modules.
func (b *bench) contents(ctx context.Context, module string, facts map[string]float64) (report.Table, error) {
	t := report.Table{Title: "what is inside the agent, in bytes", Head: []string{"", "code", "data"}}
	program := filepath.Join(b.folder, "agent")
	if err := binsize.Build(ctx, module, agentPackage, program, false); err != nil {
		return t, err
	}
	c, err := binsize.ReadContents(program)
	if err != nil {
		return t, err
	}
	for _, s := range c.Shares {
		t.Rows = append(t.Rows, []string{s.Origin, digits(s.Code), digits(s.Data)})
		facts["inside_bytes: "+s.Origin] = float64(s.Code + s.Data)
	}
	t.Rows = append(t.Rows,
		[]string{"line tables and stack maps of all code", "", digits(c.Lines)},
		[]string{"types and strings of all", "", digits(c.Types)})
	return t, nil
}

// digits is a number in groups of three.
func digits(n int64) string {
	text := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return sign + text
}
