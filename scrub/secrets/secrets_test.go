//go:build linux

package secrets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// audit returns the findings of a search in a whole machine.
func audit(t *testing.T, h *host.Host) []string {
	t.Helper()
	known := &rule.Originals{}
	require.NoError(t, known.Read(t.Context(), h))
	found, err := Search{Words: NewIndex(All()), Keys: true, Known: known}.In(t.Context(), h, "/")
	require.NoError(t, err)
	var got []string
	for _, f := range found {
		got = append(got, f.Target+": "+f.Reason)
	}
	return got
}

// fill returns n characters that look random. Prefix and text of a secret are
// joined at run time, so that secret scanners do not report this file.
func fill(n int) string { return strings.Repeat("Zx7Q", n/4+1)[:n] }

// TestEveryKindOfSecretIsFound has a file for each form of each kind of secret, at
// usual paths, and for each token that shows its issuer. Findings show the kind and
// line, never the secret.
func TestEveryKindOfSecretIsFound(t *testing.T) {
	type sample struct{ Name, Kind, Before, Secret, After string }
	var samples []sample
	require.NoError(t, yaml.Unmarshal([]byte(filled(t, "testdata/secrets.yaml")), &samples))
	for line := range strings.Lines(filled(t, "testdata/tokens.txt")) {
		kind, token, _ := strings.Cut(line, ": ")
		name := fmt.Sprintf("srv/%d", len(samples))
		samples = append(samples, sample{Name: name, Kind: kind, Before: "first line\nvalue ", Secret: token})
	}
	files, kinds := map[string]string{}, map[string]bool{}
	var want []string
	for _, c := range samples {
		files[c.Name], kinds[c.Kind] = c.Before+c.Secret+c.After, true
		reason := fmt.Sprintf("line %d contains %s", strings.Count(c.Before, "\n")+1, c.Kind)
		if c.Secret == "" {
			reason = "the file is " + c.Kind
		}
		want = append(want, fmt.Sprintf("/%s: %s", c.Name, reason))
	}
	got := audit(t, hosttest.Root(t, files))
	for _, w := range want {
		assert.Contains(t, got, w, "%s", files[strings.Split(w, ":")[0][1:]])
	}
	for _, c := range samples {
		for line := range strings.Lines(c.Secret) {
			assert.NotContains(t, strings.Join(got, "\n"), strings.TrimSpace(line))
		}
	}
	for _, p := range All() {
		assert.True(t, kinds[p.Kind], "%s has no sample in this test", p.Kind)
	}
}

// File names, variables, placeholders, examples and locked password hashes are
// common in configuration and manuals. They are no secrets.
func TestPlaceholdersAndExamplesAreNoSecrets(t *testing.T) {
	files := map[string]string{}
	for _, f := range txtar.Parse([]byte(filled(t, "testdata/harmless.txtar"))).Files {
		files[f.Name] = string(f.Data)
	}
	h := hosttest.Root(t, files)
	assert.Empty(t, audit(t, h))
}

// Programs that read keys contain the first line of a key. Documentation has
// example keys and passwords.
func TestProgramsAndDocumentationHaveNoSecrets(t *testing.T) {
	dashes := "-----"
	key := dashes + "BEGIN RSA PRIVATE KEY" + dashes + "\n" + fill(64) + "\n"
	files := map[string]string{

		"opt/app/keys.py": `MARKER = ("` + dashes + `BEGIN RSA PRIVATE KEY` + dashes + `",
          "-----END RSA PRIVATE KEY-----")
    if line == '` + dashes + `BEGIN PRIVATE KEY` + dashes + `':
        raise ValueErrorWithAVeryLongNameThatIsNoKeyAtAll1234
data = {"token": session.access_token}
def check(self, token: tokenize.TokenInfo): ...
`,
		"opt/app/README":    "-e http_proxy=http://user:pass@proxy:3128 or https://username:password@host:80/, http://User:Pass@www\n",
		"opt/app/session":   `{"SessionToken": "` + fill(60) + "EXAMPLE" + fill(60) + `"}`,
		"opt/app/key.magic": "0 string " + dashes + "BEGIN PRIVATE KEY" + dashes + " PEM\n",
	}
	for _, folder := range []string{
		"usr/local/lib/python3.12/test", "opt/venv/lib64/python3.9/site-packages/pip", "usr/local/lib/node_modules/npm", "usr/local/aws-cli/v2/2.15.0/dist/awscli/examples/iot",
		"var/lib/gems/3.1.0", "usr/local/lib/ruby/3.3.0", "usr/local/share/perl/5.36.0", "home/gone/go/pkg/mod/x@v1", "home/gone/.cargo/registry/src", "usr/local/share/doc/x", "opt/x/share/man", "opt/google-cloud-sdk/lib",
	} {
		files[folder+"/key.pem"] = key
	}
	h := hosttest.Root(t, files)
	assert.Empty(t, audit(t, h))
	h = hosttest.Root(t, map[string]string{"opt/gems.d/key": key, "opt/lib/pythonic/key": key, "opt/doc/key": key, "opt/share/docs/key": key})
	assert.Len(t, audit(t, h), 4)
}

// Large files are searched to their end.
func TestLargeFilesAreSearched(t *testing.T) {
	key := "AK" + "IA" + strings.ToUpper(fill(16))
	lines := strings.Repeat("a line of a long file without anything\n", 100_000)
	h := hosttest.Root(t, map[string]string{
		"opt/dump.sql": lines + key + "\n", "opt/one-line": strings.ReplaceAll(lines, "\n", " ") + " " + key,
		"opt/database": lines + lines + lines + key,
	})
	assert.ElementsMatch(t, []string{
		"/opt/dump.sql: line 100001 contains an AWS access key", "/opt/one-line: line 1 contains an AWS access key",
		"/opt/database: line 300001 contains an AWS access key",
	}, audit(t, h))
}
