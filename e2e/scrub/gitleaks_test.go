//go:build e2e

package scrub_test

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// unmatched are gitleaks' rules without a counterpart in eksnode, with reasons.
var unmatched = map[string]string{
	"generic-api-key": "any value after any name with key, token, auth or api in it: on a provisioned Debian the rule finds only 11 names of packages",
}

// shape is the form of a secret that one of gitleaks' rules finds. {h:32} means
// 32 random hexadecimal digits; alphabets lists the other letters. testdata/shapes.json
// has one for each rule, in the form in which a configuration file contains the issuer's
// secret.
type shape struct{ Rule, File, Text string }

// TestGitleaksFindsNoMore compares the table of secrets with gitleaks: eksnode
// must find a secret in every file in which a rule of gitleaks does. No secrets
// are stored here: the samples are generated from their shapes.
func TestGitleaksFindsNoMore(t *testing.T) {
	program, err := tools.Build(t.Context(), tools.NameGitleaks, "", runtime.GOARCH, t.Output())
	require.NoError(t, err)
	rules := rulesOf(t, program)
	root := t.TempDir()
	files := map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"}
	source := rand.New(rand.NewPCG(1, 2))
	shapes := testkit.JSON[[]shape](t, testkit.Content(t, "testdata/shapes.json"))
	for i, s := range shapes {
		folder := filepath.Join("srv", strconv.Itoa(i)+"-"+s.Rule)
		files[filepath.Join(folder, cmp.Or(s.File, "config"))] = s.sample(t, source)
		for form, text := range s.forms(t, source) {
			files[filepath.Join("opt", folder, form)] = text
		}
	}
	hosttest.Lay(t, root, files)

	byRule, theirs := map[string]bool{}, map[string]bool{}
	for _, found := range gitleaks(t, program, root) {
		file, err := filepath.Rel(root, found.File)
		require.NoError(t, err)
		theirs["/"+file] = true
		byRule[found.RuleID] = true
	}
	for _, rule := range rules {
		if unmatched[rule] == "" {
			assert.True(t, byRule[rule], "gitleaks does not find the sample of its rule %s: check the shape", rule)
		}
	}
	ours := secretsLeft(t, root)
	for file := range theirs {
		assert.True(t, ours[file], "gitleaks finds a secret in %s, and eksnode does not:\n%s", file, files[file[1:]])
	}
}

type leak struct{ RuleID, File string }

func gitleaks(t *testing.T, program, root string) []leak {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	testkit.Run(t, program, "dir", "--exit-code", "0", "--no-banner", "--report-format", "json", "--report-path", report, root)
	leaks := testkit.JSON[[]leak](t, testkit.Content(t, report))
	return leaks
}

// rulesOf returns the ids of gitleaks' own rules, from the text in its program.
func rulesOf(t *testing.T, program string) (ids []string) {
	t.Helper()
	text := testkit.Content(t, program)
	for _, m := range regexp.MustCompile(`\n\[\[rules\]\]\nid = "([a-z0-9-]+)"\n`).FindAllSubmatch([]byte(text), -1) {
		ids = append(ids, string(m[1]))
	}
	require.Greater(t, len(ids), 200)
	return ids
}

func secretsLeft(t *testing.T, root string) map[string]bool {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	out, code := run(t, "audit", "--root", root, "--rules", "secrets-left", "--report", report)
	require.Equal(t, 1, code, "%s", out)
	got := testkit.JSON[plan.Report](t, testkit.Content(t, report))
	files := map[string]bool{}
	for _, item := range got.Plan {
		for _, f := range item.Findings {
			files[f.Target] = true
		}
	}
	return files
}

func (s shape) sample(t *testing.T, source *rand.Rand) string {
	t.Helper()
	const digits, small, large = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alphabets := map[string]string{
		"d": digits, "h": digits + "abcdef", "H": digits + "ABCDEF", "a": digits + small, "A": digits + small + large, "U": digits + large,
		"l": small + large, "2": large + "234567", "b": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
	}
	return regexp.MustCompile(`\{(\w):(\d+)\}`).ReplaceAllStringFunc(s.Text, func(blank string) string {
		letter, length, _ := strings.Cut(strings.Trim(blank, "{}"), ":")
		n, err := strconv.Atoi(length)
		require.NoError(t, err)
		require.Contains(t, alphabets, letter)
		text := make([]byte, n)
		for i := range text {
			text[i] = alphabets[letter][source.IntN(len(alphabets[letter]))]
		}
		return string(text)
	})
}

// forms returns a secret of this shape as it appears in programs and
// configuration files of several languages. gitleaks need not find each.
func (s shape) forms(t *testing.T, source *rand.Rand) map[string]string {
	t.Helper()
	m := regexp.MustCompile(`^(?:(x)|([\w.]+)\s*[=:]) ?"?([^"\s]+)"?$`).FindStringSubmatch(s.sample(t, source))
	if m == nil {
		return nil
	}
	name, secret := cmp.Or(m[2], "value"), m[3]
	return map[string]string{
		"json":    `{"` + name + `":"` + secret + `","other":1}`,
		"yaml":    "app:\n  " + name + `: "` + secret + "\"\n",
		"list":    "- " + name + ": " + secret + "\n",
		"shell":   "export " + name + "='" + secret + "'\n",
		"ini":     name + " = " + secret + "\r\n",
		"go":      name + ` := "` + secret + "\"\n",
		"ruby":    `"` + name + `" => '` + secret + "',\n",
		"make":    name + " ?= " + secret + "\n",
		"xml":     "<" + name + ">" + secret + "</" + name + ">\n",
		"program": `set("` + name + `", "` + secret + `")`,
		"lone":    secret + "\n",
		"dashes":  "run --" + strings.ReplaceAll(name, "_", "-") + "=" + secret + "\n",
		"product": regexp.MustCompile(`_.*`).ReplaceAllString(name, "") + ": " + secret + "\n",
		"camel":   `var their` + regexp.MustCompile(`(?:^|[_.-])\w`).ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[len(s)-1:]) }) + ` = "` + secret + "\"\n",
		"string":  `"` + name + `=` + secret + `\n"`,
	}
}
