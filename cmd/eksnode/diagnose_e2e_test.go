//go:build e2e && linux && !agent

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// silentNode is an ID of the form that EC2 gives.
const silentNode = "i-0123456789abcdef0"

// says makes EC2 answer with a console output.
func says(w *aws.World, text string) {
	w.Answer("ec2:GetConsoleOutput", "<R><instanceId>"+silentNode+"</instanceId><output>"+base64.StdEncoding.EncodeToString([]byte(text))+"</output></R>")
}

const swapIsOn = "[   12.3] kubelet[1]: E1120 20:11:12.325154 1 run.go:72] \"command failed\" err=\"running with swap on is not supported\"\r\n"

func TestDiagnoseReadsTheConsoleOfAnInstance(t *testing.T) {
	w := aws.New(t)
	w.Serve()
	says(w, "booting\r\n"+swapIsOn)
	out, _ := exits(t, 1, "diagnose", silentNode)
	assert.Contains(t, out, "swap: swap is on\n  "+silentNode+":2: [   12.3] kubelet[1]: ")
	calls := w.Calls()
	require.Len(t, calls, 1)
	code, out, errOut := command(t, swapIsOn, "diagnose", silentNode, "-", "--output", "json")
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, out, `"count": 2`)

	// Instances that are not Nitro instances have no latest output.
	for _, refusal := range []string{"UnsupportedOperation", "InvalidParameterCombination"} {
		w.Fail("ec2:GetConsoleOutput", 1, refusal, 400)
		before := w.Count()["ec2:GetConsoleOutput"]
		out, _ = exits(t, 1, "diagnose", silentNode)
		assert.Contains(t, out, "swap: ")
		assert.Equal(t, before+2, w.Count()["ec2:GetConsoleOutput"])
	}
}

// moto answers with the console of a Linux that knows no cause.
func TestDiagnoseReadsTheConsoleFromMoto(t *testing.T) {
	w := aws.Sample(t)
	w.Serve()
	w.Name(silentNode, w.Do("ec2:RunInstances", "ImageId", aws.NodeImage, "MinCount", "1", "MaxCount", "1"), `<instanceId>(i-[0-9a-f]+)</instanceId>`)
	out := succeeds(t, "diagnose", silentNode)
	assert.Contains(t, out, "unknown: no known cause was found\n")
}

func TestDiagnoseRefusesInstances(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		change func(w *aws.World)
		want   string
	}{
		"no output yet": {func(w *aws.World) { says(w, "") },
			"eksnode: reading the console output of the instance " + silentNode + ": EC2 has none yet; try again some minutes after the start, or read the logs on the node\n"},
		"not found": {func(w *aws.World) { w.Fail("ec2:GetConsoleOutput", 1, "InvalidInstanceID.NotFound", 400) },
			"eksnode: reading the console output of the instance " + silentNode + ": ec2:GetConsoleOutput: InvalidInstanceID.NotFound: as the test wants it; check the ID, the account and the region, which is eu-west-1 (AWS request ID: 00000000-"},
		"denied": {func(w *aws.World) { w.Deny("ec2:GetConsoleOutput") },
			"eksnode: reading the console output of the instance " + silentNode + ": ec2:GetConsoleOutput: the permission ec2:GetConsoleOutput is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ec2:GetConsoleOutput (AWS request ID: 00000000-"},
		"not base64": {func(w *aws.World) { w.Answer("ec2:GetConsoleOutput", "<R><output>!</output></R>") },
			"eksnode: reading the console output of the instance " + silentNode + ": decoding the answer: illegal base64 data at input byte 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := aws.New(t)
			w.Serve()
			c.change(w)
			out, errOut := exits(t, 2, "diagnose", silentNode)
			assert.Empty(t, out)
			assert.True(t, strings.HasPrefix(errOut, c.want), errOut)
			assert.Equal(t, 1, strings.Count(errOut, "\n"), "the last line has the cause")
			assert.NotEmpty(t, w.Calls())
		})
	}
}

// A file with the name of an instance is read as ./i-…
func TestDiagnoseReadsAFileThatLooksLikeAnInstance(t *testing.T) {
	w := aws.New(t)
	w.Serve()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile(silentNode, []byte(swapIsOn), 0o600))
	require.NoError(t, os.WriteFile("i-logs", []byte(swapIsOn), 0o600))
	for _, name := range []string{"./" + silentNode, filepath.Join(mustWd(t), silentNode), "i-logs"} {
		out, _ := exits(t, 1, "diagnose", name)
		assert.Contains(t, out, name+":1: ")
	}
	assert.Empty(t, w.Calls())
}

func mustWd(t *testing.T) string {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	return folder
}
