package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

var _ packersdk.Provisioner = new(Provisioner)

// fields is the content of a block as Packer passes it to Prepare.
type fields = map[string]any

func TestPrepareReadsEveryField(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{
		"distro": "debian", "rules": []any{"kubelet", "machine-id"}, "skip_rules": []any{"machine-id"}, "audit": "warn",
		"dry_run": true, "report": "report.json", "remote_folder": "/var/tmp", "sudo_command": "doas -n",
	}))
	assert.Equal(t, scrub.Spec{Distro: "debian", Only: []string{"kubelet", "machine-id"}, Skip: []string{"machine-id"}, Audit: scrub.AuditWarns}, p.config.Spec)
	assert.Equal(t, remote.Config{DryRun: true, Report: "report.json", RemoteFolder: "/var/tmp", SudoCommand: "doas -n"}, p.config.Config)
}

func TestPrepareDefaults(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{}))
	assert.Equal(t, scrub.Spec{}, p.config.Spec)
	assert.Equal(t, remote.Config{RemoteFolder: "/tmp", SudoCommand: "sudo -n --"}, p.config.Config)
}

func TestPrepareReadsTheRuleFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(name, []byte("rules:\n- {id: ours, phase: state, action: remove, paths: [/opt/x/y], why: z}\n"), 0o600))
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"rules_file": name, "rules": []any{"ours"}, "hash": true, "wipe_free_space": true}))
	spec := p.config.Spec
	assert.Equal(t, "ours", spec.Own[0].ID)
	assert.True(t, spec.Hash && spec.WipeFreeSpace)

	require.NoError(t, os.WriteFile(name, []byte("rules:\n- {id: ours, fase: state}\n"), 0o600))
	t.Setenv("HOME", filepath.Dir(name))
	require.ErrorContains(t, p.Prepare(fields{"rules_file": "~/rules.yaml"}),
		"rules_file: "+name+`:2: rules[0].fase: unknown field; did you mean phase?`)
	require.ErrorContains(t, p.Prepare(fields{"rules_file": name + ".not"}), "rules_file: open "+name+".not: no such file or directory")
	require.NoError(t, p.Prepare(fields{"rules_file": "<unknown>", "rules": []any{"ours"}}))
}

func TestPrepareRefusesWrongFields(t *testing.T) {
	for name, test := range map[string]struct {
		block fields
		want  string // beginning of an error line
	}{
		"an unknown distro":   {fields{"distro": "slackware"}, `distro "slackware" is not known; known are ` + strings.Join(distros.IDs(), ", ")},
		"an unknown rule":     {fields{"rules": []any{"x"}}, `rules: no rule, phase or group is named "x"; known: `},
		"an unknown skip":     {fields{"skip_rules": []any{"x"}}, `skip_rules: no rule, phase or group is named "x"; known: `},
		"no rule left":        {fields{"rules": []any{"machine-id"}, "skip_rules": []any{"machine-id"}}, "selecting rules: no rule is left; change rules or skip_rules"},
		"an unknown audit":    {fields{"audit": "maybe"}, `audit: "maybe" is not known; known: fail, warn, off`},
		"another's home":      {fields{"report": "~you/x", "rules_file": "~me/y"}, "report: ~you/x begins with ~you: only ~/ is replaced by a home folder"},
		"another's rules":     {fields{"rules_file": "~me/y"}, "rules_file: ~me/y begins with ~me: only ~/ is replaced by a home folder"},
		"a relative folder":   {fields{"remote_folder": "tmp"}, `remote_folder: "tmp" is not a clean absolute path`},
		"a rule of no distro": {fields{"distro": "slackware", "rules": []any{"x"}}, `distro "slackware" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			var p Provisioner
			require.ErrorContains(t, p.Prepare(test.block), "* "+test.want)
		})
	}
}

func TestPrepareReportsAllErrorsAtOnce(t *testing.T) {
	var p Provisioner
	err := p.Prepare(fields{"distro": "slackware", "rules": []any{"x", "y"}, "skip_rules": []any{"z"}, "sudo_command": ";"})
	require.ErrorContains(t, err, "5 error(s) occurred:")
}

// The names of Packer's common fields, such as `only`, are reserved.
func TestPrepareRefusesUnknownFields(t *testing.T) {
	var p Provisioner
	require.ErrorContains(t, p.Prepare(fields{"skip": []any{"kubelet"}}), `unknown configuration key: '"skip"'`)
	for name := range p.ConfigSpec() {
		assert.NotContains(t, []string{"name", "pause_before", "max_retries", "timeout", "only", "except", "override"}, name)
	}
}

func TestPrepareForgetsEarlierCalls(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"rules": []any{"kubelet"}, "dry_run": true}))
	require.Error(t, p.Prepare(fields{"rules": []any{"x"}}))
	require.NoError(t, p.Prepare(fields{}))
	assert.Equal(t, scrub.Spec{}, p.config.Spec)
	assert.False(t, p.config.DryRun)
}
