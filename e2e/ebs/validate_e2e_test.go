//go:build e2e

package ebs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// wrongs are wrong settings of the example, with packer's messages.
var wrongs = map[string]string{
	"region=Frankfurt":                                     "Must be a region's code",
	"name=two words":                                       "Must be 1 to 64 letters",
	`instance_types={"x86_64"="m6i.large"}`:                "Must be an instance type for each",
	`instance_types={"x86_64"="large","arm64"="x"}`:        "Must be an instance type for each",
	"instance_profile=arn:aws:iam::1:x/y":                  "Must be empty or an instance profile's name",
	"subnet_id=vpc-0123456789":                             "Must be empty or a subnet's ID",
	"ssh_interface=serial":                                 "Must be empty, \"public_ip\"",
	"ssh_source_cidrs=[]":                                  "Must name at least one range",
	"ssh_source_cidrs=[\"home\"]":                          "temporary_security_group_source_cidrs",
	"volume_size=1.5":                                      "Must be a whole number",
	"kms_key_id=mine":                                      "Must be empty, a key's ID or ARN",
	"deprecate_after_days=0":                               "Must be a whole number of days",
	"publish_under=/nodes/":                                "Must be empty or a path",
	`copies={"Ireland"=""}`:                                "Must be keys by regions' codes",
	`copies={"eu-west-1"="alias/x","eu-west-2"=""}`:        "Must have a key for every region or for none",
	`kubernetes_versions=["v1.34"]`:                        "Must be versions in full",
	`kubernetes_versions=["1.36.3","1.36.2"]`:              "Must have one version of each minor",
	row("Debian 13", "136693071363", "arm64", "/dev/xvda"): "Must have names of small letters",
	row("debian13", "amazon", "arm64", "/dev/xvda"):        "Must have accounts of 12 digits",
	row("debian13", "136693071363", "amd64", "/dev/xvda"):  "Must have the processors",
	row("debian13", "136693071363", "arm64", "xvda"):       "Must have devices as root_device",
	`checksums={"1.36.3/arm64"={"kubelet"="12"}}`:          "checksums",
	"source_url=mirror.example":                            "source_url",
}

// row is the example's matrix with one row of these values.
func row(name, owner, processor, device string) string {
	return fmt.Sprintf(`distros={"%s"={"owner"="%s","name"="x-*","processors"={"%s"="x"},"root_device"="%s","ssh_username"="admin"}}`, name, owner, processor, device)
}

// TestValidate initializes and validates every example for packer with every
// version of packer: the full matrix, unchanged and with a user's mistakes.
func TestValidate(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, _, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })

	all := build(t)
	packer, _, err := tools.Find(tools.NamePacker, "")
	require.NoError(t, err)
	for _, version := range packer.Versions {
		t.Run(version, func(t *testing.T) {
			c := newAPI(t, ctx, lab)
			all.packer, err = tools.Packer(ctx, version, t.Output())
			require.NoError(t, err)
			d := newWorkstation(t, c, all)
			validateExamples(t, d)
			validateMatrix(t, d)
			for setting, complaint := range wrongs {
				out, err := d.run("validate", "-var", setting)
				assert.Error(t, err, setting)
				assert.Contains(t, flat(out), complaint, setting)
			}
			assert.Empty(t, c.Calls(), "packer validate must make no API call")
			assert.Zero(t, c.strays(), "a program connected to an address outside the lab")
		})
	}
}

// validateExamples initializes and validates the folders of templates, and checks
// their format.
func validateExamples(t *testing.T, d *workstation) {
	t.Helper()
	templates, err := filepath.Glob(repository + "/examples/*/*.pkr.hcl")
	require.NoError(t, err)
	folders := map[string]bool{}
	for _, template := range templates {
		folder, err := filepath.Abs(filepath.Dir(template))
		require.NoError(t, err)
		folders[folder] = true
	}
	require.Contains(t, folders, d.template)
	key, err := machine.NewKey("builder")
	require.NoError(t, err)
	file := filepath.Join(d.home, "key")
	require.NoError(t, os.WriteFile(file, key.PEM, 0o600))
	// Variables without defaults.
	needed := map[string][]string{"cluster": {"-var", "cluster=my-cluster"}, "local": {"-var", "host=192.0.2.1", "-var", "user=admin", "-var", "private_key=" + file}}
	for folder := range folders {
		out, err := d.offer("fmt", "-check", "-diff", folder)
		assert.NoError(t, err, "%s: %s", folder, out)
		if filepath.Base(folder) == "github-actions" {
			continue // internal/checks validates this one, which needs the plugin qemu
		}
		for _, what := range []string{"init", "validate"} {
			args := []string{what}
			if what == "validate" {
				args = append(args, needed[filepath.Base(folder)]...)
			}
			out, err := d.offer(append(args, folder)...)
			require.NoError(t, err, "%s: %s", folder, out)
		}
	}
}

// validateMatrix validates every cell of the example, with two versions of
// Kubernetes, copies, keys and publishing. It fails when a cell is missing.
func validateMatrix(t *testing.T, d *workstation) {
	t.Helper()
	settings := []string{
		"-var", `kubernetes_versions=["1.36.3","1.35.4"]`, "-var", "publish_under=/nodes",
		"-var", "kms_key_id=alias/images", "-var", `copies={"eu-west-1"="alias/images"}`,
	}
	cells := map[string][]string{
		"al2023": {"x86_64", "arm64"}, "arch": {"x86_64"}, "debian13": {"x86_64", "arm64"},
		"ubuntu2204": {"x86_64", "arm64"}, "ubuntu2404": {"x86_64", "arm64"},
	}
	var want []string
	for distro, processors := range cells {
		for _, processor := range processors {
			for _, version := range []string{"1.36.3", "1.35.4"} {
				want = append(want, "amazon-ebs."+distro+"-"+processor+"-"+version)
			}
		}
	}
	out, err := d.run("inspect", settings...)
	require.NoError(t, err, out)
	assert.ElementsMatch(t, want, regexp.MustCompile(`(?m)amazon-ebs\..*$`).FindAllString(out, -1))
	d.mustRun("validate", settings...)
}

// flat returns packer's output without the boxes around messages.
func flat(said string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(said)), " ")
}
