//go:build e2e && linux

package engines

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

const releaseVersion = "0.1.0"

// release packs the command into a folder as a release does, and returns the
// archive's name and its SHA-256.
func release(t *testing.T) (folder, archive, digest string) {
	t.Helper()
	folder, archive = t.TempDir(), "eksnode_v"+releaseVersion+"_linux_"+runtime.GOARCH+".tar.gz"
	program := lab.Eksnode(t)
	testkit.Run(t, "tar", "-czf", filepath.Join(folder, archive), "-C", filepath.Dir(program), filepath.Base(program))
	return folder, archive, manifest.Sum([]byte(testkit.Content(t, filepath.Join(folder, archive))))
}

// awsNotes is an aws command that records its arguments.
const awsNotes = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$NOTES\"\n"

// TestRunCommandScriptAuditsImageRoots runs the document's script as a machine
// does, on clean image roots and on unclean ones.
func TestRunCommandScriptAuditsImageRoots(t *testing.T) {
	folder, _, digest := release(t)
	server := httptest.NewServer(http.FileServerFS(os.DirFS(folder)))
	t.Cleanup(server.Close)
	dirty := func(name string) string {
		root := image(t)
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("secret\n"), 0o600))
		return root
	}
	scrubbed := image(t)
	testkit.Run(t, lab.Eksnode(t), "scrub", "--yes", "--root", scrubbed)

	for name, c := range map[string]struct {
		values map[string]string
		code   int
		says   string
		status string // report to Compliance
	}{
		"clean":              {map[string]string{"Root": image(t)}, 0, "PASS", "Severity=INFORMATIONAL,Status=COMPLIANT"},
		"every part clean":   {map[string]string{"Root": scrubbed, "Only": "all"}, 0, "PASS", "Severity=INFORMATIONAL,Status=COMPLIANT"},
		"as JSON":            {map[string]string{"Root": image(t), "Output": "json"}, 0, `"result": "clean"`, "Severity=INFORMATIONAL,Status=COMPLIANT"},
		"credentials":        {map[string]string{"Root": dirty("root/.aws/credentials")}, 1, "/root/.aws", "Severity=HIGH,Status=NON_COMPLIANT"},
		"a changed part":     {map[string]string{"Root": dirty("usr/bin/kubelet")}, 1, "/usr/bin/kubelet", "Severity=HIGH,Status=NON_COMPLIANT"},
		"a machine identity": {map[string]string{"Root": dirty("etc/machine-id"), "Only": "all"}, 1, "/etc/machine-id", "Severity=HIGH,Status=NON_COMPLIANT"},
		"an empty root":      {map[string]string{"Root": "/nowhere"}, 2, "/nowhere", "Severity=UNSPECIFIED,Status=NON_COMPLIANT"},
		"another checksum":   {map[string]string{"Root": scrubbed, "ChecksumAMD64": strings.Repeat("0", 64), "ChecksumARM64": strings.Repeat("0", 64)}, 2, "does not have the checksum 0000", "Severity=UNSPECIFIED,Status=NON_COMPLIANT"},
		"another version":    {map[string]string{"Root": scrubbed, "Version": "0.9.9"}, 2, "could not be downloaded", "Severity=UNSPECIFIED,Status=NON_COMPLIANT"},
		"compliance off":     {map[string]string{"Root": image(t), "Compliance": "no"}, 0, "PASS", ""},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]string{"Release": server.URL, "Version": releaseVersion, "ChecksumAMD64": digest, "ChecksumARM64": digest, "Compliance": "yes"}
			maps.Copy(values, c.values)
			said, code, noted := send(t, values)
			assert.Equal(t, c.code, code, said)
			assert.Contains(t, said, c.says)
			if c.status == "" {
				assert.Empty(t, noted)
				return
			}
			require.Len(t, noted, 14, "%q", noted)
			assert.Equal(t, []string{
				"ssm", "put-compliance-items", "--region", "eu-west-1", "--resource-id", "i-1", "--resource-type", "ManagedInstance",
				"--compliance-type", "Custom:Eksnode", "--execution-summary",
			}, noted[:11])
			assert.Regexp(t, `^ExecutionTime=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, noted[11])
			assert.Equal(t, []string{"--items", "Id=audit,Title=eksnode audit," + c.status}, noted[12:14])
		})
	}
	assert.Empty(t, testkit.Glob(t, "/var/lib/eksnode-audit.*"), "the script must remove the command")
}

// image returns a root with exactly what a node needs by its manifest.
func image(t *testing.T) string {
	t.Helper()
	const kubelet = "#!/bin/sh\n"
	m := manifest.Manifest{
		KubernetesVersion: "1.36.3", Distro: "debian", DistroVersion: "13",
		Assets: []manifest.Asset{{ID: "kubelet", Version: "1.36.3", Files: []manifest.File{
			{Path: "/usr/bin/kubelet", Mode: 0o755, Size: int64(len(kubelet)), SHA256: manifest.Sum([]byte(kubelet))},
		}}},
	}
	text, err := m.Encode()
	require.NoError(t, err)
	return testkit.Programs(t, t.TempDir(), map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=13\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
		"etc/machine-id": "", "usr/bin/kubelet": kubelet, manifest.Path: string(text),
	})
}

// send runs the script with these values. It returns the output, the exit code,
// and the arguments of the call to AWS.
func send(t *testing.T, values map[string]string) (said string, code int, noted []string) {
	t.Helper()
	script, err := parseCommand(t).Script(0, values)
	require.NoError(t, err)
	folder := t.TempDir()
	notes := filepath.Join(folder, "notes")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "aws"), []byte(awsNotes), 0o755))
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "NOTES=" + notes, "AWS_SSM_REGION_NAME=eu-west-1", "AWS_SSM_INSTANCE_ID=i-1", "HOME=/root"}
	out, err := command.CombinedOutput()
	require.NotNil(t, command.ProcessState, "%v", err)
	text, err := os.ReadFile(notes)
	if err == nil {
		noted = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return string(out), command.ProcessState.ExitCode(), noted
}
