//go:build e2e && linux && !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const audited = aws.Account + ":eksnode/audited"

// marks are the keys of an image's watermarks.
func marks(w *aws.World, image string) (keys []string) {
	for _, m := range w.Image(image).Watermarks {
		keys = append(keys, m.Key)
	}
	return keys
}

func valueOf(i *aws.Image, key string) string {
	for _, tag := range i.Tags {
		if tag.Key == key {
			return tag.Value
		}
	}
	return ""
}

// The road from a disk to an AMI with a watermark. No AMI gets one whose statement is not
// that of a passed audit of its content.
func TestOnlyAVerifiedAMIGetsTheWatermark(t *testing.T) {
	w, _ := importWorld(t)
	private, public, statement := signing(t)
	path := nodeDisk(t, nil)
	ami := importDisk(t, path, "--ami-name", "node")
	exits(t, 0, "ami", "attest", ami, "--key", private, "--statement", statement, "--skip-rules", noNode)
	approve := func(image string, more ...string) (int, string, string) {
		args := []string{"ami", "approve", image, "--statement", statement, "--key", public, "--reason", "release 12"}
		return command(t, "", append(args, more...)...)
	}
	for range 2 { // a repeated command ends in the same state
		code, out, errOut := approve(ami)
		require.Zero(t, code, out+errOut)
		assert.Equal(t, "approved "+ami+" in eu-west-1: the watermark eksnode/audited is attached\n", out)
		assert.Equal(t, []string{audited}, marks(w, ami))
	}
	assert.Regexp(t, `^approved 20\S+Z release 12$`, valueOf(w.Image(ami), awsapi.ApprovalTag))
	assert.Regexp(t, `^sha256:[0-9a-f]{64}$`, valueOf(w.Image(ami), awsapi.StatementTag))

	planted := importDisk(t, nodeDisk(t, map[string]string{"root/.ssh/id_rsa": "key"}), "--ami-name", "planted")
	code, out, errOut := approve(planted, "--full")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "failed   content ")
	assert.Contains(t, errOut, "eksnode: "+planted+" is not approved: the verification failed\n")
	code, out, _ = approve(planted)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "failed   tag ")
	assert.Contains(t, out, "unknown  content ")
	assert.Empty(t, marks(w, planted))
	assert.Empty(t, valueOf(w.Image(planted), awsapi.ApprovalTag))

	// An AMI of a node inherits the watermark, and is found. Its watermark can be revoked.
	node := *w.Image(ami)
	node.ID, node.Name, node.SourceInstance = "ami-0000000000000c0de", "captured", "i-0123456789abcdef0"
	w.Images = append(w.Images, &node)
	assert.Contains(t, checksOf(t, 1, "--statement", statement, "--key", public, node.ID)["origin"], "failed: the AMI was made from the instance ")
	for image, source := range map[string]string{node.ID: "eu-west-1:" + node.ID, ami: ami} {
		out, _ = exits(t, 0, "ami", "revoke", source, "--reason", "a key was left", "--output", "json")
		assert.Contains(t, out, `"action": "revoked"`)
		assert.Empty(t, marks(w, image))
		assert.Regexp(t, `^revoked 20\S+Z a key was left$`, valueOf(w.Image(image), awsapi.ApprovalTag))
	}
	w.Image(ami).Public = true
	code, _, errOut = approve(ami)
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "is public, and EC2 attaches no watermarks to public AMIs")
}

// The check names whatever uses an AMI without the watermark. The double refuses the same
// AMIs as the check, as soon as the settings are enabled.
func TestPolicyCheckListsWhatWouldBeRefused(t *testing.T) {
	w := aws.New(t)
	const partner = "210987654321"
	for n, one := range []struct{ owner, mark string }{{aws.Account, ""}, {partner, partner + ":eksnode/audited"}, {partner, "999999999999:eksnode/audited"}} {
		i := aws.NewImage([]string{"ami-0000000a", "ami-0000000b", "ami-0000000c"}[n], []string{"own", "approved", "other"}[n], one.owner, "2026-11-01T00:00:00Z")
		if one.mark != "" {
			i.Watermarks = []aws.Watermark{{Key: one.mark, Image: i.ID, Region: aws.Region}}
		}
		w.Images = append(w.Images, i)
	}
	w.Serve()
	for _, image := range []string{"ami-0000000a", "ami-0000000b", "ami-0000000c"} {
		require.NoError(t, w.Starts(image))
	}
	w.Template("lt-1", "nodes", "ami-0000000c")
	args := []string{"ami", "policy", "--account", partner, "--check"}
	out, _ := exits(t, 1, args...)
	lines := strings.Split(out, "\n")
	assert.Equal(t, "eu-west-1: allowed AMIs are disabled, managed by account; the criteria allow 1 of 3 AMIs in use", lines[0])
	assert.Regexp(t, `^  own, so EC2 does not refuse ami-0000000a \(own of 123456789012\): the instance i-\w+ running$`, lines[1])
	assert.Regexp(t, `^  would refuse ami-0000000c \(other of 210987654321\): the instance i-\w+ running, the launch template .*nodes`, lines[2])

	var classes []string
	for name, term := range map[string]string{"ours": "id: ami-0000000c", "eks": "alias: al2023@latest"} {
		classes = append(classes, "--nodeclass", filepath.Join(t.TempDir(), name))
		require.NoError(t, os.WriteFile(classes[len(classes)-1],
			[]byte(`{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: `+name+
				`}, spec: {role: nodes, amiFamily: AL2023, amiSelectorTerms: [{`+term+`}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}}`), 0o644))
	}
	out, _ = exits(t, 1, append(args, classes...)...)
	assert.Regexp(t, `would refuse ami-0000000c .*: EC2NodeClass ours, the instance`, out)
	assert.Contains(t, out, "would refuse EKS's image (Karpenter selects EKS's own image al2023@latest of amazon): EC2NodeClass eks")
	_, out, _ = command(t, "", append(append(args, classes...), "--allow", "amazon")...)
	assert.NotContains(t, out, "EKS's image")

	out, _ = exits(t, 0, append(args, "--allow", partner+","+aws.Account, "--output", "json")...)
	assert.Contains(t, out, `"others": []`)

	w.Allowed = aws.AllowedImages{State: "enabled", ManagedBy: "declarative-policy", Criteria: aws.WithWatermarks("*:other")}
	_, out, _ = command(t, "", args...)
	assert.Contains(t, out, "  the criteria of the region do not have the watermark "+partner+":eksnode/audited\n")
	w.Allowed.Criteria = aws.WithWatermarks(partner + ":eksnode/*")
	require.NoError(t, w.Starts("ami-0000000b"))
	require.NoError(t, w.Starts("ami-0000000a"), "an account's own AMIs are always allowed")
	require.ErrorContains(t, w.Starts("ami-0000000c"), "InvalidAMIID.NotFound")
}
