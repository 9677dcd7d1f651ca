//go:build packer && linux

package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plugin/sshtest"
)

// The field verbose, and PACKER_LOG=1, print every step and action.
func TestVerboseBuildPrintsEveryAction(t *testing.T) {
	plugin := buildPlugin(t, "0.1.0", "")
	for name, test := range map[string]struct{ field, log string }{"verbose": {"verbose = true", "0"}, "PACKER_LOG": {"", "1"}} {
		t.Run(name, func(t *testing.T) {
			eachPacker(t, func(t *testing.T, d *workstation) {
				d.install(plugin)
				d.onMachine(sshtest.New(t), d.remote(), "source_url = \"https://done\"\n"+test.field)
				cmd := d.command("build", ".")
				cmd.Env = append(cmd.Env, "PACKER_LOG="+test.log)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, string(out))
				said := flat(string(out))
				assert.Contains(t, said, "Phase: clean")
				assert.Contains(t, said, "sysctls unchanged 0 ms")
				assert.Contains(t, said, "install containerd (runs containers)")
			})
		})
	}
}
