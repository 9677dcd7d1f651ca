package scrub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// fields is the content of a block as Packer passes it to Prepare.
type fields = map[string]any

func TestPrepareReadsEveryField(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{
		"distro": "debian", "rules": []any{"kubelet", "machine-id"}, "skip_rules": []any{"machine-id"}, "audit": "warn",
		"dry_run": true, "report": "report.json", "remote_folder": "/var/tmp", "sudo_command": "doas -n",
	}))
	assert.Equal(t, scrub.Spec{Distro: "debian", Only: []string{"kubelet", "machine-id"}, Skip: []string{"machine-id"},
		Audit: scrub.AuditWarns}, p.Config.Spec)
	assert.Equal(t, remote.Config{DryRun: true, Report: "report.json",
		RemoteFolder: "/var/tmp", SudoCommand: "doas -n"}, p.Config.Config)
}

func TestPrepareReadsTheRuleFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(name, []byte("rules:\n- {id: ours, phase: state, action: remove, paths: [/opt/x/y], why: z}\n"), 0o600))
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"rules_file": name, "rules": []any{"ours"}, "hash": true, "wipe_free_space": true}))
	spec := p.Config.Spec
	assert.Equal(t, "ours", spec.Own[0].ID)
	assert.True(t, spec.Hash && spec.WipeFreeSpace)

	require.NoError(t, os.WriteFile(name, []byte("rules:\n- {id: ours, fase: state}\n"), 0o600))
	t.Setenv("HOME", filepath.Dir(name))
	require.ErrorContains(t, p.Prepare(fields{"rules_file": "~/rules.yaml"}),
		"rules_file: "+name+`:2: rules[0].fase: unknown field; did you mean phase?`)
}

func TestAuditHasNoFieldsThatChangeTheMachine(t *testing.T) {
	spec := new(Audit).ConfigSpec()
	for _, field := range changing {
		assert.NotContains(t, spec, field)
	}
	assert.Contains(t, spec, "report")
}

func TestAuditReadsItsFields(t *testing.T) {
	var a Audit
	require.NoError(t, a.Prepare(fields{"rules": []any{"inspect"}, "distro": "debian"}))
	assert.Equal(t, scrub.Spec{Distro: "debian", Only: []string{"inspect"}, Node: scrub.NodeAuto}, a.Config.Spec)
	require.NoError(t, a.Prepare(fields{"node": "no"}))
	assert.Equal(t, scrub.NodeNo, a.Config.Node)
}
