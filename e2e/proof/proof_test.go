//go:build linux

package main

import (
	"context"
	"flag"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var update = flag.Bool("update", false, "write the page and the schema")

// said is the sentence about AWS in README.md.
var said = regexp.MustCompile(`> \*\*(Not tested on AWS yet\.\*\*|Tested on AWS on [0-9-]+\*\* \(\[proofs\]\([a-z/.]+\)\)\.)`)

// Page, schema and README.md are those of the table and of the accepted reports.
func TestPageOfProofs(t *testing.T) {
	all, err := accepted("accepted")
	require.NoError(t, err)
	for name, want := range map[string]string{"../../docs/design/proofs.md": page(all), "report.schema.json": schema()} {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		}
		assert.Equal(t, want, testkit.Content(t, name), "%s: run make generate", name)
	}
	readme := testkit.Content(t, "../../README.md")
	written := said.ReplaceAllLiteralString(readme, "> "+sentence(all))
	if *update && written != readme {
		require.NoError(t, os.WriteFile("../../README.md", []byte(written), 0o644))
	}
	assert.Equal(t, 1, len(said.FindAllString(readme, -1)), "README.md")
	assert.Equal(t, written, readme, "README.md: run make generate")
	for _, s := range []string{sentence(nil), sentence([]report{{}})} {
		assert.Equal(t, "> "+s, said.FindString("> "+s+" More. **Bold.**"))
	}
	one := report{Begun: time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC), Result: ok}
	assert.Contains(t, sentence([]report{one}), "**Tested on AWS on 2027-01-02**")
	assert.Contains(t, page([]report{one}), "| 2027-01-02 |")
}

// Every command of the AWS CLI in the scripts is an operation of the SDK, and every step
// needs earlier steps only.
func TestTheTableOfSteps(t *testing.T) {
	scripts, before := []string{prelude}, map[string]bool{}
	for _, s := range steps {
		scripts = append(scripts, s.Script)
		for _, needed := range s.Needs {
			assert.True(t, before[needed], "%s needs %s", s.Name, needed)
		}
		before[s.Name] = true
		assert.Positive(t, s.Minutes, s.Name)
	}
	for _, k := range kinds {
		scripts = append(scripts, k.List, k.Delete)
	}
	for _, script := range scripts {
		lines, err := commands(script)
		require.NoError(t, err)
		for _, line := range lines {
			if line[0] == "aws" {
				_, err := cli.Action(line[1:])
				assert.NoError(t, err, "%q", line)
			}
		}
	}
	_, err := chosen([]string{"imports"}, nil)
	assert.EqualError(t, err, `-only: there is no step "imports"`)
	_, err = chosen([]string{"share"}, nil)
	assert.EqualError(t, err, "-only: the step share needs SHARE=")
	names := func(only []string, cluster string) (all []string) {
		list, err := chosen(only, map[string]string{"cluster": cluster})
		require.NoError(t, err)
		for _, s := range list {
			all = append(all, s.Name)
		}
		return all
	}
	assert.Equal(t, []string{"network", "cluster", "role", "disk", "import", "launch"}, names([]string{"launch"}, ""))
	assert.Equal(t, []string{"role", "disk", "import", "launch"}, names([]string{"launch"}, "mine"))
	workflow := testkit.Content(t, "../../.github/workflows/aws.yml")
	given := regexp.MustCompile(`(?m)YES=1\n +timeout-minutes: (\d+) `).FindStringSubmatch(workflow)
	require.NotNil(t, given)
	minutes, _ := estimate(steps)
	limit, err := strconv.Atoi(given[1])
	require.NoError(t, err)
	assert.Less(t, minutes, limit, "the workflow ends the run too early")
}

// make gives the program what a person sets, and nothing else.
func TestMakeGivesWhatIsSet(t *testing.T) {
	given := func(set ...string) string {
		out := testkit.Run(t, "make", append([]string{"-n", "-C", "../..", "SUDO=", "PACKER=/packer", "aws"}, set...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "bin/proof ") })
		require.GreaterOrEqual(t, i, 0, out)
		return strings.Join(strings.Fields(lines[i]), " ")
	}
	assert.Equal(t, `bin/proof -region "eu-west-1" -packer "/packer"`, given("REGION=eu-west-1"))
	assert.Equal(t, `bin/proof -region "eu-west-1" -account "123456789012" -other-region "us-east-1" -cluster "mine" `+
		`-only "import" -base "arch" -share "210987654321" -packer "/packer" -ip-family ipv6 -unchecked -yes`,
		given("REGION=eu-west-1", "ACCOUNT=123456789012", "OTHER=us-east-1", "CLUSTER=mine", "ONLY=import",
			"IMAGE=arch", "SHARE=210987654321", "IPV6=1", "UNCHECKED=1", "YES=1"))
}

// A run that has cost more than its estimate begins no further step.
func TestTheBudgetEndsARun(t *testing.T) {
	all, err := chosen([]string{"cluster"}, nil)
	require.NoError(t, err)
	minutes, dollars := estimate(all)
	assert.Equal(t, 28, minutes)
	assert.InDelta(t, 0.045, dollars, 0.001) // the cluster's 12 minutes and the teardown
	p := &proof{out: io.Discard, state: state{Rows: []row{{Step: "cluster", Result: ok, Begun: time.Now().Add(-28 * time.Minute)}}}}
	require.ErrorIs(t, p.run(context.Background(), all), errBudget)
	p.state.Rows[0].Begun = time.Now()
	assert.Less(t, p.spent(time.Now()), dollars)
}

// What repeats a step by hand is a script of sh.
func TestByHand(t *testing.T) {
	script := byHand(map[string]string{"region": "eu-west-1", "run": "x", "account": "1", "subnets": " a b"}, "echo \"$role$subnets\"\n")
	assert.True(t, strings.HasPrefix(script, "account=$(aws sts get-caller-identity --query Account --output text)\nregion=eu-west-1\nrun=x\nsubnets=' a b'\nset -e\n"), script)
}

// An answer of AWS that the doubles do not have is named, and the other way round.
func TestWrongDoublesAreNamed(t *testing.T) {
	s := shapes{}
	s.add("network", "ec2:CreateVpc", map[string]any{"Vpc": map[string]any{"VpcId": "vpc-1", "New": []any{map[string]any{"A": 1}}}})
	all, err := s.differences("network", "ipv4")
	require.NoError(t, err)
	assert.Contains(t, all, "ec2:CreateVpc.Vpc.New[].A: only in AWS")
	assert.Contains(t, all, "ec2:CreateVpc.Vpc.State: only in the double")
	assert.NotContains(t, strings.Join(all, "\n"), "VpcId: only")
}
