package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// anywhere are the programs that need no node. On the node, commands begin with sudo.
var anywhere = []string{"aws", "kubectl", "eksnode"}

var placeholder = regexp.MustCompile(`\b[A-Z][A-Z]+\b`)

// placeholders are the words in capital letters that people replace.
var placeholders = []string{"NAME", "ID", "ARN", "FILE", "REGION", "ENDPOINT", "PROFILE", "ROLE", "NODE", "IMAGE", "AMI", "GROUP", "SETTING"}

// The commands of every cause exist, have valid flags, and delete nothing.
func TestTheCommandsOfCausesCanBeTyped(t *testing.T) {
	j := judge{t}
	var harmless map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/harmless.yaml")), &harmless))
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

const (
	troubleshooting = "docs/troubleshooting.md"
	symptomFile     = "docs/generate/symptoms.txt"
)

// symptom is a message of ours in the table of troubleshooting, with the commands of its
// last cell, or what the named causes and checks look like.
type symptom struct{ quotes, names, commands []string }

var quoted = regexp.MustCompile("`([^`]+)`")

func symptoms(t *testing.T) (list []symptom) {
	t.Helper()
	for line := range strings.Lines(read(t, troubleshooting)) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && cells[1] != " symptom " && !strings.HasPrefix(line, "|---") {
			list = append(list, symptom{quotes: inCode(cells[1]), commands: inCode(cells[4])})
		}
	}
	for line := range strings.Lines(read(t, symptomFile)) {
		if names, text, _ := strings.Cut(line, ": "); !strings.HasPrefix(line, "#") {
			list = append(list, symptom{quotes: inCode(text), names: strings.Split(names, ", ")})
		}
	}
	return list
}

func inCode(cell string) []string {
	return show.Each(quoted.FindAllStringSubmatch(cell, -1), func(found []string) string { return found[1] })
}

// What a cause looks like is what `eksnode diagnose` finds, and the file names no others than
// causes and checks. That each has a symptom, the pages prove.
func TestSymptomsAreFound(t *testing.T) {
	causes := show.Each(diagnose.Rules(), func(r diagnose.Rule) string { return r.ID })
	checks := show.Each(preflight.Table(), func(c preflight.Check) string { return c.ID })
	beside := map[string][]string{} // the names in lines of a check
	for _, s := range symptoms(t) {
		for _, name := range s.names {
			beside[name] = append(beside[name], s.names...)
			if slices.Contains(causes, name) {
				assert.True(t, finds(t, name, s.quotes), "%s: diagnose does not find %s in %q", symptomFile, name, s.quotes)
			} else {
				assert.Contains(t, checks, name, symptomFile)
			}
		}
	}
	for _, c := range preflight.Table() {
		assert.Contains(t, append(causes, ""), c.Cause, "the cause of the check %s", c.ID)
		if slices.ContainsFunc(beside[c.ID], func(name string) bool { return slices.Contains(causes, name) }) {
			assert.Contains(t, beside[c.ID], c.Cause, "%s names other causes for the check %s", symptomFile, c.ID)
		}
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
// ellipses, must be in the code or its tables.
func TestQuotedMessagesAreThoseOfTheCode(t *testing.T) {
	var code strings.Builder
	for _, s := range sources(t) {
		if !s.isTest() {
			code.WriteString(s.text)
		}
	}
	for _, name := range tracked(t) {
		if path.Ext(name) == ".yaml" && !strings.Contains(name, "/testdata/") {
			code.WriteString(strings.Join(strings.Fields(read(t, name)), " ")) // a table may fold a text
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
				assert.True(t, strings.Contains(code.String(), strings.TrimSpace(part)), "%s quotes %q", troubleshooting, message)
			}
		}
	}
	assert.NotZero(t, count)
}

// The table's own commands can be typed.
func TestRemediesCanBeTyped(t *testing.T) {
	j := judge{t}
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

// A setting that breaks nodes names a cause that diagnose knows, and the cause
// names the setting and the command that finds it.
func TestBreakersAndCausesHaveTheSameNames(t *testing.T) {
	causes := diagnose.Rules()
	for _, r := range scrub.Table() {
		if r.Breaks == nil {
			continue
		}
		i := slices.IndexFunc(causes, func(c diagnose.Rule) bool { return c.ID == r.Breaks.Cause })
		if assert.GreaterOrEqual(t, i, 0, "%s: diagnose knows no cause %s", r.ID, r.Breaks.Cause) {
			assert.Contains(t, causes[i].Settings, r.ID)
			assert.Contains(t, causes[i].Commands, "sudo eksnode audit --rules "+r.Breaks.Cause)
		}
	}
}
