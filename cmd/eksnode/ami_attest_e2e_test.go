//go:build e2e && linux && !agent

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

const noNode = "not-a-node,can-join,changed-files,assets,units"

// signing makes a key in a folder, and returns the paths of its parts and of a statement.
func signing(t *testing.T) (private, public, statement string) {
	t.Helper()
	folder := t.TempDir()
	testkit.In(t, folder, "sh", "-ec", `openssl genpkey -quiet -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out key.pub`)
	return folder + "/key.pem", folder + "/key.pub", folder + "/node.intoto.jsonl"
}

// flipped is a copy of a disk with another bit in a block that travels.
func flipped(t *testing.T, path string) string {
	t.Helper()
	image, err := disk.Open(path)
	require.NoError(t, err)
	defer image.Close()
	text := []byte(testkit.Content(t, path))
	at := bytes.Index(text, []byte(`"kubernetes_version": "1.34.4"`))
	require.Positive(t, at)
	require.True(t, image.Layout.Used(int64(at), 1))
	text[at+24] ^= 1
	name := filepath.Join(t.TempDir(), "flipped.raw")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

func checksOf(t *testing.T, code int, args ...string) map[string]string {
	t.Helper()
	got, out, errOut := command(t, "", append([]string{"ami", "verify", "--output", "json"}, args...)...)
	require.Equal(t, code, got, out+errOut)
	r := testkit.JSON[verified](t, out)
	results := map[string]string{}
	for _, c := range r.Checks {
		results[c.Check] = c.Result + ": " + c.Text
	}
	return results
}

// The road from a disk to a verified AMI. Whatever is changed on the way is found.
func TestAnAMIIsAttestedAndVerified(t *testing.T) {
	w, _ := importWorld(t)
	path := nodeDisk(t, nil)
	ami := importDisk(t, path, "--ami-name", "node")
	private, public, statement := signing(t)
	out, _ := exits(t, 0, "ami", "attest", ami, "--key", private, "--statement", statement, "--skip-rules", noNode)
	digest := regexp.MustCompile(`(?m)^digest: (.*)$`).FindStringSubmatch(out)[1]
	with := []string{"--statement", statement, "--key", public}

	got := checksOf(t, 0, append(with, ami)...)
	assert.Regexp(t, `^ok: passed, with eksnode \S+ and \d+ rules; skipped: .*not-a-node`, got["audit"])
	assert.Equal(t, "ok: the statement names "+w.Image(ami).Devices[0].Snapshot, got["content"])
	assert.Equal(t, "ok: the tag eksnode:digest has the digest", got["tag"])
	for _, source := range []string{ami, w.Image(ami).Devices[0].Snapshot, path} {
		got = checksOf(t, 0, append(with, source, "--full")...)
		assert.Equal(t, "ok: the content has the digest "+digest, got["content"])
	}
	out, _ = exits(t, 0, append([]string{"ami", "verify", ami}, with...)...)
	assert.Regexp(t, `(?m)^ok       statement  signed by the key \w+$`, out)

	t.Run("by openssl", func(t *testing.T) {
		testkit.In(t, filepath.Dir(statement), "sh", "-ec", `head -n 1 node.intoto.jsonl > line; jq -r .payload line | base64 -d > body; jq -r .signatures[0].sig line | base64 -d > sig
{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c < body)"; cat body; } > signed
openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in signed -sigfile sig
test "$(jq -r '.subject[0].digest.sha256' body)" = '`+strings.TrimPrefix(digest, "sha256:")+`'`)
	})
	t.Run("another block", func(t *testing.T) {
		other := importDisk(t, flipped(t, path), "--ami-name", "flipped")
		for n, tag := range w.Image(other).Tags {
			if tag.Key == "eksnode:digest" {
				w.Image(other).Tags[n].Value = digest
			}
		}
		got := checksOf(t, 2, append(with, other)...)
		assert.Regexp(t, "^unknown: the statement does not name snap-.*; --full compares the content$", got["content"])
		got = checksOf(t, 1, append(with, other, "--full")...)
		assert.Regexp(t, "^failed: the digest of the content is sha256:.* but the statement is about "+digest+"$", got["content"])
	})
	t.Run("another tag", func(t *testing.T) {
		kept := w.Image(ami).Tags
		defer func() { w.Image(ami).Tags = kept }()
		w.Image(ami).Tags = []aws.Tag{{Key: "eksnode:digest", Value: "sha256:0"}}
		assert.Contains(t, checksOf(t, 1, append(with, ami)...)["tag"], "failed: the tag eksnode:digest of the AMI is sha256:0")
	})
	t.Run("another key or statement", func(t *testing.T) {
		_, other, _ := signing(t)
		got := checksOf(t, 1, "--statement", statement, "--key", other, ami)
		assert.Contains(t, got["statement"], "failed: verifying the statement in line 1: the key has not signed this statement")
		assert.Equal(t, "unknown: not checked: the statement is not valid", got["content"])
		text := []byte(testkit.Content(t, statement))
		changed := filepath.Join(t.TempDir(), "changed.jsonl")
		require.NoError(t, os.WriteFile(changed, bytes.Replace(text, []byte("a"), []byte("b"), 50), 0o600))
		assert.Contains(t, checksOf(t, 1, "--statement", changed, "--key", public, ami)["statement"], "failed: ")
	})
	t.Run("an old audit", func(t *testing.T) {
		assert.Regexp(t, "^failed: the audit is from .*, older than .*; audit and attest again$", checksOf(t, 1, append(with, ami, "--max-age", "1ns")...)["age"])
	})
	t.Run("from a node", func(t *testing.T) {
		node := *w.Image(ami)
		node.ID, node.Name, node.SourceInstance, node.Source = "ami-0000000000000c0de", "captured", "i-0123456789abcdef0", ami
		w.Images = append(w.Images, &node)
		w.Copy("captured", "us-east-1", "ami-00000000000c0de01", true).Name = "copy"
		w.Copy("copy", aws.Region, "ami-00000000000c0de02", true).Name = "copy of a copy"
		made := "was made from the instance i-0123456789abcdef0, so its disk"
		for source, want := range map[string]string{
			node.ID: "failed: the AMI " + made, "us-east-1:ami-00000000000c0de01": "failed: the AMI is a copy of " + node.ID + ", which " + made,
			"ami-00000000000c0de02": "failed: the AMI is a copy of " + node.ID + ", which " + made,
		} {
			assert.Contains(t, checksOf(t, 1, append(with, source)...)["origin"], want)
		}
		w.Image("copy of a copy").Devices = w.Image(ami).Devices
		out, _ := exits(t, 0, "audit", "--ami", "ami-00000000000c0de02", "--skip-rules", noNode)
		assert.Contains(t, out, "the AMI is a copy of "+node.ID+", which "+made)
		// What is audited after its capture is not the node any more.
		code, out, errOut := command(t, "", "ami", "attest", node.ID, "--key", private, "--statement", statement+".2",
			"--skip-rules", noNode)
		require.Zero(t, code, out+errOut)
		assert.Equal(t, "ok: "+node.ID+" was made from the instance i-0123456789abcdef0 before the audit",
			checksOf(t, 0, "--statement", statement+".2", "--key", public, node.ID)["origin"])
		w.Deny("ec2:GetImageAncestry")
		defer w.Heal()
		assert.Contains(t, checksOf(t, 2, append(with, "ami-00000000000c0de02")...)["origin"],
			"unknown: reading the ancestry of ")
	})
	t.Run("findings", func(t *testing.T) {
		dirty := nodeDisk(t, map[string]string{"root/.ssh/id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\n"})
		failed := filepath.Join(t.TempDir(), "failed.jsonl")
		exits(t, 1, "ami", "attest", dirty, "--key", private, "--statement", failed, "--skip-rules", noNode)
		assert.Equal(t, "failed: the audit has the result FAILED: findings", checksOf(t, 1, "--statement", failed, "--key", public, dirty)["audit"])
	})
}

// The statement of an import names its AMI and the copies, which need no reading.
func TestAnImportSignsAStatement(t *testing.T) {
	w, _ := importWorld(t)
	private, public, statement := signing(t)
	path := nodeDisk(t, nil)
	with := []string{"--statement-key", private, "--statement", statement, "--watermark", "eksnode/audited"}
	exits(t, 0, importArgs(path, append(with, "--ami-regions", "us-east-1")...)...)
	require.Len(t, w.Images, 2)
	sums := testkit.Glob(t, os.Getenv("XDG_CACHE_HOME")+"/eksnode/ami-import/*.sums")
	require.Len(t, sums, 1)
	assert.Regexp(t, "^eksnode-sums 1 snap-[0-9a-f]+ sha256:[0-9a-f]{64}\n", testkit.Content(t, sums[0]))
	for _, i := range w.Images {
		got := checksOf(t, 0, "--statement", statement, "--key", public, i.Region+":"+i.ID)
		assert.Equal(t, "ok: the statement names "+i.Devices[0].Snapshot, got["content"])
		require.Len(t, i.Watermarks, 1)
		assert.Equal(t, aws.Watermark{Key: aws.Account + ":eksnode/audited", Image: i.ID, Region: i.Region}, i.Watermarks[0])
	}
	w.Images = nil
	w.Deny("ec2:AttachImageWatermark")
	_, errOut := exits(t, 2, importArgs(path, with...)...)
	assert.Contains(t, errOut, "the permission ec2:AttachImageWatermark is missing")
	assert.Empty(t, w.Images, "an AMI without its watermark is removed")
	w.Heal()
	exits(t, 1, importArgs(nodeDisk(t, map[string]string{"root/.ssh/id_rsa": "-----BEGIN OPENSSH PRIVATE KEY-----\n"}),
		with...)...)
	assert.Empty(t, w.Images)
	for want, args := range map[string][]string{
		"--templates has no effect without --statement":              {"--templates", "a.pkr.hcl"},
		"--templates: " + path + " is not a template whose":          append(with[:4:4], "--templates", path),
		"--statement and --statement-key belong together":            {"--statement-key", private},
		"--statement has no effect without an audit":                 append(with, "--audit", "off"),
		"--watermark needs --audit fail":                             append(with, "--audit", "warn"),
		"--watermark has no effect without --statement":              {"--watermark", "eksnode/audited"},
		"--watermark: \"x\" is not a name of 3 to 128":               append(with[:4:4], "--watermark", "x"),
		"--watermark: EC2 attaches no watermarks to public AMIs":     append(with, "--ami-groups", "all"),
		"--statement-key: " + public + " is a public key, which can": {"--statement-key", public, "--statement", statement},
		"--statement: the folder /absent cannot be written":          {"--statement-key", private, "--statement", "/absent/x"},
		"--statement: /dev/null is a device, not a regular file":     {"--statement-key", private, "--statement", "/dev/null"},
	} {
		code, _, errOut := command(t, "", importArgs(path, args...)...)
		assert.Equal(t, 2, code, args)
		assert.Contains(t, errOut, want)
	}
}

func TestAStatementIsSignedByKMS(t *testing.T) {
	importWorld(t)
	const key = aws.SigningKey
	path := nodeDisk(t, nil)
	statement := filepath.Join(t.TempDir(), "node.intoto.jsonl")
	exits(t, 0, "ami", "attest", path, "--key", key, "--statement", statement, "--skip-rules", noNode)
	assert.Contains(t, checksOf(t, 0, "--statement", statement, "--key", key, path)["statement"], "ok: signed by the key ")

	_, errOut := exits(t, 2, "ami", "attest", path, "--key", "alias/other", "--statement", statement)
	assert.Contains(t, errOut, "eksnode: --key: reading the public part of the KMS key alias/other: ")
}

func TestAttestAndVerifyRefuse(t *testing.T) {
	private, public, statement := signing(t)
	path := filepath.Join(t.TempDir(), "disk.raw")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, 4096), 0o600))
	for want, args := range map[string]string{
		"key.pub is a public key, which cannot sign; name the priva": "attest " + path + " --key " + public + " --statement " + statement,
		"--material: \"x\" is not a material such as":                "attest " + path + " --key " + private + " --statement " + statement + " --material x",
		"reading the key " + path + ": ":                             "attest " + path + " --key " + path + " --statement " + statement,
	} {
		code, _, errOut := command(t, "", strings.Fields("ami "+args)...)
		assert.Equal(t, 2, code, args)
		assert.Contains(t, errOut, want)
	}
}

func TestABillOfAnAMIIsThatOfItsDisk(t *testing.T) {
	importWorld(t)
	path := nodeDisk(t, map[string]string{"var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2\n"})
	ami := importDisk(t, path, "--ami-name", "node")
	want, _ := exits(t, 0, "sbom", "--disk", path)
	assert.Contains(t, want, `"purl": "pkg:deb/debian/bash@5.2?distro=debian-12"`)
	assert.Contains(t, want, `"name": "kubelet"`)
	got, _ := exits(t, 0, "sbom", "--ami", ami)
	assert.Equal(t, want, got)
}
