package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
)

const troubleshooting = "docs/troubleshooting.md"

// symptom is a row of the symptom table.
type symptom struct {
	text string
	// quotes are the quoted messages, names the causes and checks in parentheses,
	// commands the commands of the last cell.
	quotes, names, commands []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// symptoms reads the symptom tables, one for each phase.
func symptoms(t *testing.T) []symptom {
	t.Helper()
	tables := strings.Split(read(t, troubleshooting), "| symptom | cause | remedy | command |\n|---|---|---|---|\n")
	require.Greater(t, len(tables), 1)
	var rows string
	for _, table := range tables[1:] {
		rows += strings.SplitN(table, "\n\n", 2)[0] + "\n"
	}
	var list []symptom
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		require.Len(t, cells, 6, line)
		s := symptom{text: cells[1], quotes: inCode(cells[1]), commands: inCode(cells[4])}
		if at := strings.LastIndex(cells[2], "(`"); at >= 0 {
			s.names = inCode(cells[2][at:])
		}
		list = append(list, s)
	}
	return list
}

// inCode lists the inline code of a cell.
func inCode(cell string) []string {
	var list []string
	for _, found := range quoted.FindAllStringSubmatch(cell, -1) {
		list = append(list, found[1])
	}
	return list
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

// finds reports whether diagnose traces one of the lines to the cause.
func finds(t *testing.T, cause string, lines []string) bool {
	t.Helper()
	for _, line := range lines {
		found, err := diagnose.Logs(diagnose.Log{Name: "log", Text: strings.NewReader(line + "\n")})
		require.NoError(t, err)
		if slices.ContainsFunc(found, func(f diagnose.Finding) bool { return f.Rule.ID == cause }) {
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
