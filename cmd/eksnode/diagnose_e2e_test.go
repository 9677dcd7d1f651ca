//go:build e2e && linux && !agent

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
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

// notAWS says for the other programs why no test with AWS runs them.
var notAWS = map[string]string{
	"sudo":    "runs on the node",
	"kubectl": "needs the Kubernetes API",
	"eksnode": "internal/checks compares the flags with those of the command",
}

// filled returns a command for the sample, with its own names for the words in
// capital letters.
func filled(command string) string {
	id := "i-1"
	switch {
	case strings.Contains(command, "vpc-id"):
		id = "vpc-1"
	case strings.Contains(command, "subnet-id"):
		id = "subnet-1"
	case strings.Contains(command, "--launch-template-id"):
		id = "lt-1"
	case strings.Contains(command, "--volume-ids"):
		id = "vol-1"
	}
	names := strings.NewReplacer("NAME", "my-cluster", "ID", id, "ARN", aws.NodeRole, "REGION", aws.Region,
		"PROFILE", "nodes", "ROLE", "node", "AMI", aws.NodeImage, "GROUP", "managed")
	words := strings.Fields(command)
	for i, word := range words {
		if !strings.Contains(word, "[") { // a query
			words[i] = names.Replace(word)
		}
	}
	return strings.Join(words, " ")
}

// changes lists what the commands that change something need first.
var changes = map[string]func(*aws.World){
	"aws ec2 associate-iam-instance-profile": func(w *aws.World) { // only for an instance without a profile
		w.Name("i-1", w.Do("ec2:RunInstances", "ImageId", aws.NodeImage, "MinCount", "1", "MaxCount", "1"),
			`<instanceId>(i-[0-9a-f]+)</instanceId>`)
	},
	"aws ec2 modify-instance-metadata-options": nil,
	"aws ec2 modify-subnet-attribute":          nil,
	"aws ec2 modify-vpc-attribute":             nil,
}

// Every command of a cause that calls AWS runs against the sample. The others have a
// reason. With go test -v, the test prints the table.
func TestTheCommandsOfCausesRun(t *testing.T) {
	var table strings.Builder
	seen := map[string]bool{}
	for _, r := range diagnose.Rules() {
		for _, command := range r.Commands {
			program, _, _ := strings.Cut(command, " ")
			said := "ran before"
			switch key := filled(command); {
			case program != "aws":
				said = notAWS[program]
				assert.NotEmpty(t, said, "%s: %s", r.ID, command)
			case !seen[key]:
				seen[key] = true
				said = "ran"
				runs(t, key)
			}
			table.WriteString("\n" + r.ID + ": " + said + ": " + command)
		}
	}
	assert.Greater(t, len(seen), 15)
	t.Log(table.String())
}

// runs runs a command. One that changes something must be known.
func runs(t *testing.T, command string) {
	t.Helper()
	t.Run(strings.ReplaceAll(command, " ", "_"), func(t *testing.T) {
		w := aws.Sample(t)
		name := strings.Join(strings.Fields(command)[:3], " ")
		prepare, known := changes[name]
		if prepare != nil {
			prepare(w)
		}
		switch name {
		case "aws eks describe-nodegroup":
			w.NodeGroup("managed", map[string]any{"health": map[string]any{"issues": []any{}}})
		case "aws ec2 describe-volumes":
			w.Name("vol-1", w.Do("ec2:CreateVolume", "AvailabilityZone", aws.Region+"a", "Size", "1"),
				`<volumeId>(.*?)<`)
		}
		_, err := w.Shell(command, nil)
		assert.NoError(t, err)
		var made []string
		for _, c := range w.Calls() {
			reads := func(verb string) bool { return strings.HasPrefix(c.Action, verb) }
			if !slices.ContainsFunc([]string{"Describe", "Get", "List"}, reads) {
				made = append(made, c.Action)
			}
		}
		assert.Equal(t, known, len(made) > 0, "%q", made)
		assert.False(t, slices.ContainsFunc(made, func(action string) bool {
			return strings.HasPrefix(action, "Delete")
		}))
	})
}
