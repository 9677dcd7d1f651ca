//go:build e2e && linux && !agent

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

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
	names := strings.NewReplacer("NAME", "my-cluster", "ID", id, "ARN", aws.NodeRole, "REGION", aws.Region, "PROFILE", "nodes", "ROLE", "node", "AMI", aws.NodeImage, "GROUP", "managed")
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
		w.Name("i-1", w.Do("ec2:RunInstances", "ImageId", aws.NodeImage, "MinCount", "1", "MaxCount", "1"), `<instanceId>(i-[0-9a-f]+)</instanceId>`)
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
			w.Name("vol-1", w.Do("ec2:CreateVolume", "AvailabilityZone", aws.Region+"a", "Size", "1"), `<volumeId>(.*?)<`)
		}
		_, err := w.Shell(command, nil)
		assert.NoError(t, err)
		var made []string
		for _, c := range w.Calls() {
			if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") && !strings.HasPrefix(c.Action, "List") {
				made = append(made, c.Action)
			}
		}
		assert.Equal(t, known, len(made) > 0, "%q", made)
		assert.False(t, slices.ContainsFunc(made, func(action string) bool { return strings.HasPrefix(action, "Delete") }))
	})
}
