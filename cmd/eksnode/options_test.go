package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
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
	options(flags, map[string]string{"deep_field": "what it is for"}, &s)
	assert.Equal(t, "what it is for", flags.Lookup("deep-field").Usage)
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

	few := pflag.NewFlagSet("x", pflag.ContinueOnError)
	options(few, nil, &s, "text", "deep_field")
	few.VisitAll(func(f *pflag.Flag) { count-- })
	assert.Equal(t, 4, count, "only the named fields become flags")
	assert.Panics(t, func() {
		options(few, nil, &struct {
			N float64 `mapstructure:"n"`
		}{})
	})
}

// Errors in the command's reports name flags instead of HCL fields. Text of other
// programs stays.
func TestReportsNameFlagsInsteadOfFields(t *testing.T) {
	fips := surface.Errorf("this machine does not run in FIPS mode, and %s asks for it; choose fips=1", surface.Name("fips"))
	step := fmt.Errorf("preflight: %w", fips)
	other := errors.New("packages: installing packages: source_url is a word of others")
	r := inFlags(plan.Report{
		Error: step.Error() + "; " + other.Error(), Err: errors.Join(step, other),
		Outcomes: []plan.Outcome{{Error: step.Error(), Err: step}, {Error: other.Error(), Err: other}},
		Plan:     []plan.Planned{{Error: step.Error(), Err: step}},
		Audit:    &plan.Audit{Error: step.Error(), Plan: []plan.Planned{{Error: step.Error(), Err: step}}},
	})
	const want = "preflight: this machine does not run in FIPS mode, and --fips asks for it; choose fips=1"
	assert.Equal(t, want+"; "+other.Error(), r.Error)
	for _, text := range []string{r.Outcomes[0].Error, r.Plan[0].Error, r.Audit.Error, r.Audit.Plan[0].Error} {
		assert.Equal(t, want, text)
	}
	assert.Equal(t, other.Error(), r.Outcomes[1].Error)

	var out bytes.Buffer
	r.Result = plan.Failure
	require.NoError(t, printReport(newPrinter(&out), r, false))
	assert.Contains(t, out.String(), "and --fips asks for it")
}

func TestUnknownDistroErrorsNameFlags(t *testing.T) {
	for name, want := range map[string]string{"ID=plan9\nID_LIKE=debian\n": "if the machine behaves like it, set --distro debian", "ID=plan9\n": "set --distro to that name",
		"ID=debian\nVERSION_ID=3\n": `12, 13 (--distro "debian"); to try this version anyway, set --distro to that name`, "": "name the distribution with --distro …, one of"} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
		if name != "" {
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte(name), 0o644))
		}
		for _, args := range [][]string{{"audit"}, {"scrub", "--dry-run"}, {"scrub", "--yes"}} {
			var out, errOut bytes.Buffer
			assert.NotZero(t, run(t.Context(), append(args, "--root", root), nil, &out, &errOut))
			assert.Contains(t, out.String(), want)
			assert.NotContains(t, out.String(), "distro = ")
		}
	}
}

// Warnings are lines of their own, before the plan.
func TestAReportBeginsWithItsWarnings(t *testing.T) {
	var out bytes.Buffer
	r := plan.Report{Command: "provision", Result: plan.DryRun, Warnings: []string{"support of X ended on 2026-06-30\x1b[2J\nforged"}}
	require.NoError(t, printReport(newPrinter(&out), r, false))
	assert.True(t, strings.HasPrefix(out.String(), "  warning  support of X ended on 2026-06-30\\x1b[2J\\nforged\n"), out.String())
}
