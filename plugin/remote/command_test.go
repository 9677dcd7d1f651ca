package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// amazon-chroot runs every command in double quotes of a shell on the Packer host.
// That shell would expand these characters on the wrong machine.
func TestCommandsAreSafeInDoubleQuotes(t *testing.T) {
	for name, line := range map[string]string{
		"probe": probeCommand("0123456789abcdef", "/tmp", "sudo -n --"),
		"agent": agentCommand("0123456789abcdef", "/tmp/eksnode-0123456789abcdef", 3000000, "", "sudo -n --"),
		"kept":  agentCommand("0123456789abcdef", "/tmp/eksnode-0123456789abcdef", 3000000, strings.Repeat("a", 64), "sudo -n --"),
		"clean": cleanCommand("/tmp/eksnode-0123456789abcdef"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotContains(t, line[len("sh -c '"):len(line)-1], "'")
			assert.NotContains(t, line, "\n")
			for _, c := range []string{"$", "`", `\`, "!"} {
				assert.NotContains(t, line, c)
			}
		})
	}
}
