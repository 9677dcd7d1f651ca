//go:build linux

package scrub_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// The kinds of what an explanation explains; testdata/roots/explanations.yaml says what they are.
const (
	differ = "differ"
	carry  = "carry"
	report = "report"
	ship   = "ship"
)

// explanation says why lines about these machines stay.
type explanation struct {
	Why      string
	Machines []string            // or one group of them
	Lines    map[string][]string `yaml:",inline"` // by kind
}

// explanations reads the explanations, with the machines of groups.
func explanations(t *testing.T) []explanation {
	t.Helper()
	var file struct {
		Groups       map[string][]string
		Explanations []explanation
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/roots/explanations.yaml")), &file))
	for i, e := range file.Explanations {
		if group, ok := file.Groups[e.Machines[0]]; ok {
			file.Explanations[i].Machines = group
		}
	}
	return file.Explanations
}

// explains reports whether a pattern matches a whole line without the part after ": ".
func explains(pattern, line string) bool {
	line, _, _ = strings.Cut(line, ": ")
	expression := strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`^` + expression + `$`).MatchString(line)
}

// explained returns the lines that no explanation explains. An explanation that
// explains no line fails the test: it hides a later mistake.
func explained(t *testing.T, machine string, lines []string, kind string) []string {
	t.Helper()
	left := slices.Clone(lines)
	for _, e := range explanations(t) {
		if !slices.Contains(e.Machines, machine) {
			continue
		}
		for _, pattern := range e.Lines[kind] {
			matches := func(line string) bool { return explains(pattern, line) }
			assert.True(t, slices.ContainsFunc(lines, matches),
				"%s: nothing is %q any more: delete its explanation", machine, pattern)
			left = slices.DeleteFunc(left, matches)
		}
	}
	return left
}

func TestEveryExplanationHasAMachineAndAReason(t *testing.T) {
	for _, e := range explanations(t) {
		assert.NotEmpty(t, e.Why, e.Lines)
		assert.NotEmpty(t, e.Machines, e.Lines)
		assert.Subset(t, slices.Collect(maps.Keys(machines)), e.Machines, e.Lines)
		assert.Subset(t, []string{differ, carry, report, ship}, slices.Collect(maps.Keys(e.Lines)), e.Why)
	}
}

var update = flag.Bool("update", false, "update the golden plans of the scrub")

// machine is an image root that others made, and its twin that never joined.
type machine struct {
	twin []string // layers of the image as its makers ship it
	life []string // layers of what boots, clusters, people and agents add
}

// machines are the roots of testdata/roots. Each archive names its sources.
var machines = map[string]machine{
	"amazonlinux2":    {[]string{"linux", "rpm", "cloud-init", "amazonlinux2/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "amazonlinux2/life"}},
	"amazonlinux2023": {[]string{"linux", "rpm", "cloud-init", "amazonlinux2023/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "amazonlinux2023/life"}},
	"control-plane":   {[]string{"linux", "deb", "cloud-init", "control-plane/twin"}, []string{"boots", "cloud-init-boots", "people", "control-plane/life"}},
	"agents":          {[]string{"linux", "deb", "cloud-init", "agents/twin"}, []string{"boots", "cloud-init-boots", "agents/life"}},
	"image-builder":   {[]string{"linux", "deb", "cloud-init", "image-builder/twin"}, []string{"boots", "cloud-init-boots", "people", "image-builder/life"}},
	"rhel-cis":        {[]string{"linux", "rpm", "cloud-init", "rhel-cis/twin"}, []string{"boots", "cloud-init-boots", "people", "rhel-cis/life"}},
	"ubuntu-snap":     {[]string{"linux", "deb", "cloud-init", "ubuntu-snap/twin"}, []string{"boots", "cloud-init-boots", "people", "ubuntu-snap/life"}},
	"flatcar":         {[]string{"linux", "flatcar/twin"}, []string{"boots", "joins", "flatcar/life"}},
	"arch":            {[]string{"linux", "cloud-init", "arch/twin"}, []string{"boots", "cloud-init-boots", "people", "joins", "arch/life"}},
}

// TestAScrubbedMachineEqualsItsTwin scrubs a machine with a life behind it, and
// compares every file with the twin that never joined. Each difference, finding
// and mark needs an explanation, and each explanation must explain something.
func TestAScrubbedMachineEqualsItsTwin(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			twin := objects(t, assemble(t, m.twin...))
			require.Empty(t, marked(t, twin), "the twin has marks of a life")
			root := assemble(t, append(slices.Clone(m.twin), m.life...)...)
			h := hosttest.Mounted(t, root)
			ran, err := eksnode.Scrub(t.Context(), h, scrub.Spec{Audit: scrub.AuditWarns}, eksnode.Options{})
			require.NoError(t, err)
			require.NotEqual(t, plan.Failure, ran.Result, ran.Error)

			require.NotEqual(t, plan.Unknown, ran.Audit.Result, ran.Audit.Error)

			left := explained(t, name, reported(ran.Audit.Plan), report)
			assert.Empty(t, strings.Join(left, "\n"), "findings of the audit after the scrub")

			// What the audit reports is left, but not in silence.
			after := objects(t, root)
			left = explained(t, name, unreported(ran.Audit.Plan, differences(twin, after)), differ)
			assert.Empty(t, strings.Join(left, "\n"), "differences from the twin without an explanation")
			left = explained(t, name, unreported(ran.Audit.Plan, marked(t, after)), carry)
			assert.Empty(t, strings.Join(left, "\n"), "files with values of the machine, cluster or people")
		})
	}
}

// A scrub of the twin itself takes nothing that the image ships.
func TestAScrubTakesNothingFromTheTwin(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			root := assemble(t, m.twin...)
			before := objects(t, root)
			_, err := eksnode.Scrub(t.Context(), hosttest.Mounted(t, root), scrub.Spec{Audit: scrub.AuditOff}, eksnode.Options{})
			require.NoError(t, err)
			left := explained(t, name, differences(before, objects(t, root)), ship)
			assert.Empty(t, strings.Join(left, "\n"), "a scrub of an image that never joined changed files")
		})
	}
}

// TestGoldenScrubPlans compares the plan for each machine with testdata/NAME.golden.
// After an intended change, run go test ./scrub -run TestGoldenScrubPlans -update
// and read the difference.
func TestGoldenScrubPlans(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			root := assemble(t, append(slices.Clone(m.twin), m.life...)...)
			before := objects(t, root)
			dry, err := eksnode.Scrub(t.Context(), hosttest.Mounted(t, root), scrub.Spec{Audit: scrub.AuditWarns}, eksnode.Options{DryRun: true})
			require.NoError(t, err)
			assert.Equal(t, before, objects(t, root), "the plan changed files")
			file := filepath.Join("testdata/roots", name, "plan.golden")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(planText(dry)), 0o644))
			}
			assert.Equal(t, testkit.Content(t, file), planText(dry))
		})
	}
}

// reported lists the findings of an audit as "rule target", sorted.
func reported(audit []plan.Planned) []string {
	var all []string
	for _, p := range audit {
		for _, a := range p.Actions {
			all = append(all, p.Item+" "+a.Target+": "+a.Reason)
		}
		for _, f := range p.Findings {
			all = append(all, p.Item+" "+f.Target+": "+f.Reason)
		}
		if p.Error != "" {
			all = append(all, p.Item+" error: "+p.Error)
		}
	}
	slices.Sort(all)
	return all
}

// unreported returns the lines about files that no finding of the audit names.
func unreported(audit []plan.Planned, lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		_, name, _ := strings.Cut(line, "/")
		name = "/" + name
		return slices.ContainsFunc(audit, func(p plan.Planned) bool {
			return slices.ContainsFunc(p.Findings, func(f plan.Finding) bool {
				rest, at := strings.CutPrefix(name, f.Target)
				return at && (rest == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ": "))
			})
		})
	})
}

// planText is the plan of a dry run as a person reads it.
func planText(r plan.Report) string {
	var out strings.Builder
	list := r.Plan
	if r.Audit != nil {
		list = append(slices.Clone(list), r.Audit.Plan...)
	}
	for _, p := range list {
		if len(p.Actions)+len(p.Findings) == 0 && p.Error == "" {
			continue
		}
		fmt.Fprintf(&out, "%s\n", p.Item)
		for _, a := range p.Actions {
			fmt.Fprintf(&out, "  %s %s\n    %s\n", a.Verb, a.Target, a.Reason)
		}
		for _, f := range p.Findings {
			fmt.Fprintf(&out, "  finding %s\n    %s\n", f.Target, f.Reason)
		}
		if p.Error != "" {
			fmt.Fprintf(&out, "  error %s\n", p.Error)
		}
	}
	return out.String()
}
