package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
var placeholders = []string{"NAME", "ID", "ARN", "FILE", "REGION", "ENDPOINT", "PROFILE", "ROLE", "NODE", "IMAGE", "AMI", "GROUP", "SETTING"}

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
			plain = strings.NewReplacer("NVRM", "", "lZ", "").Replace(command) // names in capital letters
			for _, word := range placeholder.FindAllString(plain, -1) {
				assert.Contains(t, placeholders, word, "%s: %s", r.ID, command)
			}
		}
	}
}

// A cause's page has a heading for the cause.
func TestThePageOfACauseHasItsHeading(t *testing.T) {
	known := anchors(read(t, "docs/"+diagnose.Pages))
	for _, r := range diagnose.Rules() {
		assert.Equal(t, version.Page(diagnose.Pages+"#"+r.ID), r.Page())
		assert.Contains(t, known, r.ID)
	}
}

const troubleshooting = "docs/troubleshooting.md"

// symptom is a row of the symptom table.
type symptom struct {
	text string
	// quotes are the quoted messages, names the causes and checks in parentheses,
	// commands the commands of the last cell.
	quotes, names, commands []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// symptoms reads the symptom tables, one for each phase. Only rows of our own messages
// have a remedy and a command: a cause's page has those of the cause.
func symptoms(t *testing.T) []symptom {
	t.Helper()
	var list []symptom
	for line := range strings.Lines(read(t, troubleshooting)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| symptom |") {
			continue
		}
		s := symptom{text: cells[1], quotes: inCode(cells[1])}
		if at := strings.LastIndex(cells[2], "([`"); at >= 0 {
			require.Len(t, cells, 4, line)
			s.names = inCode(cells[2][at:])
		} else {
			require.Len(t, cells, 6, line)
			s.commands = inCode(cells[4])
		}
		list = append(list, s)
	}
	require.NotEmpty(t, list)
	return list
}

func inCode(cell string) []string {
	return show.Each(quoted.FindAllStringSubmatch(cell, -1), func(found []string) string { return found[1] })
}

// Every cause of `eksnode diagnose` and every check of `eksnode preflight` has a
// symptom, and the table names no others.
func TestEveryCauseAndCheckHasASymptom(t *testing.T) {
	var causes, known, named []string
	for _, r := range diagnose.Rules() {
		causes = append(causes, r.ID)
	}
	known = append(known, causes...)
	for _, c := range preflight.Table() {
		known = append(known, c.ID)
	}
	for _, s := range symptoms(t) {
		named = append(named, s.names...)
		for _, name := range s.names {
			assert.Contains(t, known, name, "%s: %s", troubleshooting, s.text)
			if slices.Contains(causes, name) {
				assert.True(t, finds(t, name, s.quotes), "%s: diagnose does not find %s in %s", troubleshooting, name, s.text)
			}
		}
	}
	for _, id := range known {
		assert.True(t, slices.Contains(named, id), "%s has no row for %s", troubleshooting, id)
	}
}

func finds(t *testing.T, cause string, lines []string) bool {
	t.Helper()
	for _, line := range lines {
		s := diagnose.NewSearch(t.Context())
		require.NoError(t, s.Log(diagnose.Log{Name: "log", Text: strings.NewReader(line + "\n")}))
		if slices.ContainsFunc(s.Report().Findings, func(f diagnose.Finding) bool { return f.Rule.ID == cause }) {
			return true
		}
	}
	return false
}

// Rows without names quote eksnode's own messages. Each quoted part, between
// ellipses, must be in the code.
func TestQuotedMessagesAreThoseOfTheCode(t *testing.T) {
	var code strings.Builder
	for _, s := range sources(t) {
		if !s.isTest() {
			code.WriteString(s.text)
		}
	}
	count := 0
	for _, s := range symptoms(t) {
		if len(s.names) > 0 {
			continue
		}
		for _, message := range s.quotes {
			count++
			for part := range strings.SplitSeq(message, "…") {
				assert.Contains(t, code.String(), strings.TrimSpace(part), "%s quotes %q", troubleshooting, message)
			}
		}
	}
	assert.NotZero(t, count)
}

// The table's own commands can be typed.
func TestRemediesCanBeTyped(t *testing.T) {
	j := newJudge(t)
	count := 0
	for _, s := range symptoms(t) {
		for _, command := range s.commands {
			if first := strings.Fields(strings.TrimPrefix(command, "sudo "))[0]; first != "eksnode" && first != "make" {
				continue
			}
			count++
			assert.Empty(t, j.wrong(command), "%s: %s", troubleshooting, command)
		}
	}
	assert.NotZero(t, count)
}
