package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// harmless are the programs that a cause's commands may run, with what they may do
// first. Empty means anything.
var harmless = map[string]string{
	"aws": `^\w+ (describe|list|get|associate|modify)-`, "kubectl": `^(--namespace \S+ )?(get|describe|logs|label) `,
	"eksnode": `^(userdata|preflight|manifests|init|audit|scrub --dry-run$)`, "/etc/eks/bootstrap.sh": `^--help$`,
	"systemctl": `^(status|cat|restart|list-units) `, "journalctl": `--no-pager`, "containerd": `^(config dump|--version)$`, "kubelet": `^--version$`,
	"crictl": `(images|info)$`, "ctr": `^images pull `, "mv": `^--no-clobber `, "sed": `^--in-place=\.orig `, "sysctl": "", "swapoff": "", "modprobe": "", "restorecon": "",
	"timedatectl": "^$", "chronyc": "^tracking$", "hostnamectl": "^$", "nvidia-smi": "^$", "cat": "", "curl": "", "df": "", "du": "", "findmnt": "", "grep": "", "ls": "", "stat": "",
	"systemd-cgls": "", "ip": "^(address|route)$", "ss": "", "free": "", "ldd": "", "runc": "^--version$", "tail": "", "uname": "",
}

// anywhere are the programs that need no node. On the node, commands begin with sudo.
var anywhere = []string{"aws", "kubectl", "eksnode"}

var placeholder = regexp.MustCompile(`\b[A-Z][A-Z]+\b`)

// placeholders are the words in capital letters that people replace.
var placeholders = []string{"NAME", "ID", "ARN", "FILE", "REGION", "ENDPOINT", "PROFILE", "ROLE", "NODE", "IMAGE", "AMI", "GROUP"}

// The commands of every cause exist, have valid flags, and delete nothing.
func TestTheCommandsOfCausesCanBeTyped(t *testing.T) {
	j := newJudge(t)
	var programs []string
	for name := range harmless {
		programs = append(programs, name)
	}
	for _, r := range diagnose.Rules() {
		assert.NotEmpty(t, r.Commands, "the cause %s has no command", r.ID)
		for _, command := range r.Commands {
			plain, onNode := strings.CutPrefix(command, "sudo ")
			assert.NoError(t, cli.Check(plain, programs...), "%s: %s", r.ID, command)
			program, rest, _ := strings.Cut(plain, " ")
			assert.Regexp(t, harmless[program], rest, "%s: %s: not among the harmless commands", r.ID, command)
			assert.True(t, onNode || slices.Contains(anywhere, program), "%s: %s: commands on the node need sudo", r.ID, command)
			if program == "eksnode" {
				assert.Empty(t, j.wrong(command), "%s: %s", r.ID, command)
			}
			for _, word := range placeholder.FindAllString(withoutNames(command), -1) {
				assert.Contains(t, placeholders, word, "%s: %s", r.ID, command)
			}
		}
	}
}

// withoutNames drops the names in capital letters that are no placeholders.
func withoutNames(command string) string {
	return strings.NewReplacer("NVRM", "", "lZ", "").Replace(command)
}

// A cause's page has a heading for the cause.
func TestThePageOfACauseHasItsHeading(t *testing.T) {
	known := anchors(read(t, "docs/"+diagnose.Pages))
	for _, r := range diagnose.Rules() {
		assert.Equal(t, version.Page(diagnose.Pages+"#"+r.ID), r.Page())
		assert.Contains(t, known, r.ID)
	}
}
