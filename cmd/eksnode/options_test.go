package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A new field of a spec becomes a flag without other code.
func TestFlagsComeFromASpec(t *testing.T) {
	type word string
	type Inner struct {
		Deep []string `mapstructure:"deep_field"`
	}
	type spec struct {
		Inner  `mapstructure:",squash"`
		Text   string            `mapstructure:"text"`
		Word   word              `mapstructure:"word"`
		On     bool              `mapstructure:"on"`
		Pairs  map[string]string `mapstructure:"pairs"`
		Files  map[string]string `mapstructure:"files" flag:"file"`
		Hidden *int              `mapstructure:"-"`
	}
	s := spec{Word: "usual"}
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	options(flags, &s)
	assert.Equal(t, "usual", flags.Lookup("word").DefValue)
	file := filepath.Join(t.TempDir(), "a.pem")
	require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
	require.NoError(t, flags.Parse([]string{"--deep-field=a,b", "--text=t", "--word=w", "--on", "--pairs=a=1,b=2", "--files=x=" + file, "--files=y=" + file}))
	assert.Equal(t, spec{
		Inner: Inner{[]string{"a", "b"}}, Text: "t", Word: "w", On: true, Pairs: map[string]string{"a": "1", "b": "2"},
		Files: map[string]string{"x": "content", "y": "content"},
	}, s)
	count := 0
	flags.VisitAll(func(*pflag.Flag) { count++ })
	assert.Equal(t, 6, count)

	assert.Equal(t, "prepare the node for Elastic Fabric Adapter", optionHelp("provisioner", "efa"))
	few := pflag.NewFlagSet("x", pflag.ContinueOnError)
	options(few, &s, "text", "deep_field")
	few.VisitAll(func(f *pflag.Flag) { count-- })
	assert.Equal(t, 4, count, "only the named fields become flags")
	assert.Panics(t, func() {
		options(few, &struct {
			N float64 `mapstructure:"n"`
		}{})
	})
}

// noItem is an item that cannot run.
type noItem struct{ err error }

func (noItem) ID() string    { return "x" }
func (noItem) Phase() string { return "x" }

func (f noItem) Plan(context.Context, *host.Host) (plan.Answer, error) { return plan.Answer{}, f.err }

// Errors in the command's reports name flags instead of HCL fields. Text of other
// programs stays.
func TestReportsNameFlagsInsteadOfFields(t *testing.T) {
	fips := surface.Errorf("this machine does not run in FIPS mode, and %s asks for it; choose fips=1", surface.Name("fips"))
	step := fmt.Errorf("preflight: %w", fips)
	other := errors.New("packages: installing packages: source_url is a word of others")
	h, err := host.Mounted(t.TempDir())
	require.NoError(t, err)
	defer h.Close()
	items := []plan.Item{noItem{step}, noItem{other}}
	ctx := surface.WithFlags(t.Context(), true)
	var r plan.Report
	r.Applied(plan.Apply(ctx, h, items, nil))
	r.Concluded(plan.Make(ctx, h, items), nil, true)
	const want = "x: preflight: this machine does not run in FIPS mode, and --fips asks for it; choose fips=1"
	assert.Equal(t, want+"\nx: "+other.Error(), r.Error)
	for _, text := range []string{r.Outcomes[0].Error, r.Audit.Plan[0].Error} {
		assert.Equal(t, want, text)
	}
	assert.Contains(t, r.Audit.Error, want)
	assert.Equal(t, "x: "+other.Error(), r.Outcomes[1].Error)

	var out bytes.Buffer
	r.Result = plan.Failure
	newPrinter(&out).report(r, false)
	assert.Contains(t, out.String(), "and --fips asks for it")
}

// Warnings are lines of their own, before the plan.
func TestAReportBeginsWithItsWarnings(t *testing.T) {
	var out bytes.Buffer
	r := plan.Report{Command: "provision", Result: plan.DryRun, Warnings: []string{"support of X ended on 2026-06-30\x1b[2J\nforged"}}
	newPrinter(&out).report(r, false)
	assert.True(t, strings.HasPrefix(out.String(), "  warning  support of X ended on 2026-06-30\\x1b[2J\\nforged\n"), out.String())
}

func TestOtherCommandsWorkOnEverySystem(t *testing.T) {
	log := filepath.Join(t.TempDir(), "kubelet.log")
	require.NoError(t, os.WriteFile(log, []byte("all is well\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "."},
		{[]string{"distros"}, "debian"},
		{[]string{"diagnose", log}, ""},
		{[]string{"lock", "--help"}, "eksnode lock"},
		{[]string{"preflight", "--help"}, "eksnode preflight"},
		{[]string{"manifests", "--help"}, "eksnode manifests"},
		{[]string{"userdata", "--help"}, "eksnode userdata"},
		{[]string{"ami", "--help"}, "eksnode ami"},
		{[]string{"scrub", "--help"}, "eksnode scrub"},
	} {
		for _, goos := range []string{"darwin", "windows", "linux"} {
			var out, errOut strings.Builder
			assert.Zero(t, runOn(t.Context(), goos, c.args, strings.NewReader(""), &out, &errOut), "%s: %s", c.args, errOut.String())
			assert.Contains(t, out.String(), c.want, c.args)
			assert.Empty(t, errOut.String(), c.args)
		}
	}
}

// Every text of the help files is that of a command or a flag. The help marks commands that need
// Linux.
func TestEveryHelpTextIsUsed(t *testing.T) {
	cmd := root()
	refuseLinuxCommands(cmd)
	everywhere := readHelp()[everyCommand].flags
	for path, text := range readHelp() {
		if path == everyCommand {
			continue
		}
		sub, rest, err := cmd.Find(strings.Fields(path))
		require.NoError(t, err, path)
		require.Empty(t, rest, path)
		if sub.Parent() == cmd {
			needs := text.linux != "" && linuxCalls()[path] == nil
			assert.Equal(t, needs, strings.HasSuffix(sub.Short, " (needs Linux)"), path)
		}
		for _, set := range []*pflag.FlagSet{sub.Flags(), sub.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				if _, own := text.flags[f.Name]; !own {
					delete(everywhere, f.Name)
				}
				delete(text.flags, f.Name)
			})
		}
		assert.Empty(t, text.flags, path)
	}
	assert.Empty(t, everywhere)
}
