//go:build e2e && full

package ebs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestProofBuildsWithPacker runs the step of `make aws` that builds AMIs with the example: real
// Packer and its amazon-ebs build on machines, the command audits the AMIs, and the teardown
// leaves the account as it was. The machine of arm64 has this machine's processor.
func TestProofBuildsWithPacker(t *testing.T) {
	all := build(t)
	c := newCloud(t, mirror.Options{})
	for _, i := range c.Images {
		if i.Name == "debian-13-arm64-20251112-2294" {
			i.User, i.Disk = "admin", aws.Disk{Root: c.Images[0].Disk.Root}
		}
	}
	d := newWorkstation(t, c, all)
	// The SDK of the proof and of the command is outside the lab's network.
	c.Serve()
	c.ServeEBS()
	before := c.Inventory(region, abroad)
	folder := t.TempDir()
	testkit.In(t, repository, "go", "build", "-o", filepath.Join(folder, "proof"), "./e2e/proof")
	top, err := filepath.Abs(repository)
	require.NoError(t, err)
	packer := d.command("build")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "packer"), fmt.Appendf(nil,
		"#!/bin/sh\nexec nsenter --net=%s env AWS_ENDPOINT_URL=%s '%s' \"$@\"\n", d.lab.Namespace(), d.url, d.packer), 0o700))
	for _, variable := range append(packer.Env, "PKR_VAR_source_url="+c.mirror.URL(), "PKR_VAR_allow_http=true",
		"PKR_VAR_ssh_interface=private_ip") {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "AWS_") || name == "AWS_POLL_DELAY_SECONDS" {
			t.Setenv(name, value)
		}
	}
	out := testkit.Run(t, filepath.Join(folder, "proof"), "-region", region, "-other-region", abroad, "-only", "packer",
		"-packer", filepath.Join(folder, "packer"), "-eksnode", lab.Eksnode(t), "-repository", top, "-folder", d.home,
		"-yes", "-unchecked", "-settle", "0", "-pause", "100ms", "-run", "test")
	assert.Contains(t, out, "ok: ")
	report := testkit.Content(t, filepath.Join(d.home, "report.md"))
	assert.Contains(t, report, "| packer | ok |")
	log := testkit.Content(t, filepath.Join(d.home, "log"))
	assert.Equal(t, 4, strings.Count(log, "PASS: "), "audits of the AMIs")
	assert.Equal(t, 4, c.Count()["ec2:CreateImage"])
	for _, call := range c.Calls() {
		switch call.Action {
		case "CreateKeyPair", "CreateSecurityGroup", "RunInstances", "CreateTags":
			assert.Contains(t, call.Body, "eksnode-proof", "%s: a killed run is found by this tag", call.Action)
		}
	}
	assert.Equal(t, before, c.Inventory(region, abroad))
	assert.Empty(t, c.Refusals())
}
