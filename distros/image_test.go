package distros

import (
	"bytes"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Names of images as their publishers register them, from the sources that the
// table names. Each is found by the pattern of its own distribution, version and
// architecture, and by no other.
func TestPatternsMatchThePublishersNames(t *testing.T) {
	type key struct{ id, version, arch string }
	published := map[string]key{
		"al2023-ami-minimal-2023.5.20240722.0-kernel-6.1-x86_64":                           {"amazonlinux2023", "2023", "amd64"},
		"al2023-ami-minimal-2023.6.20241212.0-kernel-6.1-arm64":                            {"amazonlinux2023", "2023", "arm64"},
		"amzn2-ami-minimal-hvm-2.0.20251208.0-x86_64-ebs":                                  {"amazonlinux2", "2", "amd64"},
		"amzn2-ami-minimal-hvm-2.0.20251208.0-arm64-ebs":                                   {"amazonlinux2", "2", "arm64"},
		"AlmaLinux OS 10.2.20260817.0 x86_64":                                              {"almalinux", "10", "amd64"},
		"AlmaLinux OS 9.6.20250522 aarch64":                                                {"almalinux", "9", "arm64"},
		"AlmaLinux OS Kitten 10.20260727.0 x86_64":                                         {},
		"arch-linux-std-hvm-2023.10.11.x86_64-ebs":                                         {"arch", "", "amd64"},
		"arch-linux-ec2-hvm-2023.10.11.x86_64-ebs":                                         {},
		"debian-12-arm64-20250804-2195":                                                    {"debian", "12", "arm64"},
		"debian-13-amd64-20250814-2204":                                                    {"debian", "13", "amd64"},
		"Fedora-Cloud-Base-AmazonEC2.x86_64-43-1.6":                                        {"fedora", "43", "amd64"},
		"Fedora-Cloud-Base-AmazonEC2.aarch64-43-1.6":                                       {"fedora", "43", "arm64"},
		"Flatcar-stable-4459.2.1-hvm":                                                      {"flatcar", "", "amd64"},
		"Flatcar-stable-4459.2.1-arm64-hvm":                                                {"flatcar", "", "arm64"},
		"Flatcar-beta-4459.1.0-hvm":                                                        {},
		"openSUSE-Leap-15-6-v20240808-hvm-ssd-x86_64-5535c495-72d4-4355-b169-54ffa874f849": {"opensuse-leap-15", "15.6", "amd64"},
		"RHEL-9.6.0_HVM-20260811-x86_64-0-Hourly2-GP3":                                     {"rhel", "9", "amd64"},
		"RHEL-10.0.0_HVM-20251030-arm64-0-Hourly2-GP3":                                     {"rhel", "10", "arm64"},
		"RHEL-10.0.0_HVM-20251030-x86_64-0-Access2-GP3":                                    {},
		"Rocky-9-EC2-Base-9.6-20250531.0.x86_64":                                           {"rocky", "9", "amd64"},
		"Rocky-10-EC2-Base-10.0-20250612.0.aarch64":                                        {"rocky", "10", "arm64"},
		"suse-sles-16-0-v20251104-hvm-ssd-x86_64":                                          {"sles-16", "16", "amd64"},
		"suse-sles-16-0-v20260703-ecs-hvm-ssd-x86_64":                                      {},
		"suse-sles-15-sp7-v20250618-hvm-ssd-arm64":                                         {"sles", "15", "arm64"},
		"ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250822":                   {"ubuntu", "22.04", "amd64"},
		"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20250821":               {"ubuntu", "24.04", "arm64"},
		"ubuntu/images/hvm-ssd-gp3/ubuntu-resolute-26.04-amd64-server-20260619":            {"ubuntu", "26.04", "amd64"},
	}
	for name, want := range published {
		found := []key{}
		for _, d := range All() {
			for version, images := range patterns(t, d) {
				for arch, pattern := range images {
					if matchesFilter(t, pattern, name) {
						found = append(found, key{d.ID, version, arch})
					}
				}
			}
		}
		if want.id == "" {
			assert.Empty(t, found, name)
			continue
		}
		if d, err := ByID(want.id); assert.NoError(t, err) && len(d.Versions) > 0 {
			assert.Contains(t, d.Versions, want.version, name)
		}
		assert.Equal(t, []key{want}, found, name)
	}
}

// patterns are the patterns of the names, by version and architecture.
func patterns(t *testing.T, d Distro) map[string]map[string]string {
	t.Helper()
	versions := d.Versions
	if len(versions) == 0 {
		versions = []string{""}
	}
	all := map[string]map[string]string{}
	for _, version := range versions {
		all[version] = map[string]string{}
		for _, arch := range []string{"amd64", "arm64"} {
			if b, err := d.BaseImage(version, arch, ""); err == nil {
				all[version][arch] = b.Name
			}
		}
	}
	return all
}

// matchesFilter matches a name as EC2's filters do: * is any text, ? any character.
func matchesFilter(t *testing.T, pattern, name string) bool {
	t.Helper()
	plain := strings.NewReplacer("/", "|", "[", `\[`) // a * of path.Match ends at a slash
	matched, err := path.Match(plain.Replace(pattern), strings.ReplaceAll(name, "/", "|"))
	require.NoError(t, err)
	return matched
}

func TestCloudImagesByName(t *testing.T) {
	for name, want := range map[string]string{
		"debian":          "/trixie/latest/debian-13-generic-arm64.qcow2",
		"debian-12":       "/bookworm/latest/debian-12-generic-arm64.qcow2",
		"debian-13-cloud": "/trixie/latest/debian-13-genericcloud-arm64.qcow2",
		"arch":            "the publisher has no cloud image arch for the architecture arm64",
		"debian-14":       `"debian-14" is neither a file, nor an address, nor the name of a cloud image; known are `,
	} {
		image, err := CloudImageByName(name, "arm64")
		if err != nil {
			assert.ErrorContains(t, err, want)
			continue
		}
		assert.Equal(t, "https://cloud.debian.org/images/cloud"+want, image.URL)
	}
}

// Each key has its fingerprint as a comment, and signs images.
func TestKeysOfCloudImages(t *testing.T) {
	files, err := keys.ReadDir("keys")
	require.NoError(t, err)
	unused := map[string]bool{}
	for _, file := range files {
		text, err := keys.ReadFile("keys/" + file.Name())
		require.NoError(t, err)
		_, comment, _ := strings.Cut(string(text), "\nComment: ")
		fingerprint, _, _ := strings.Cut(comment, ", from ")
		cmd := exec.Command("gpg", "--homedir", t.TempDir(), "--show-keys", "--with-colons")
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), "fpr:::::::::"+fingerprint+":", file.Name())
		unused[string(text)] = true
	}
	for _, name := range CloudImages() {
		image, err := CloudImageByName(name, "amd64")
		require.NoError(t, err)
		delete(unused, image.Key)
		signed := image.Signature != "" || image.ImageSignature != "" || strings.HasPrefix(name, "fedora")
		assert.Equal(t, image.Key != "", signed, name)
		assert.NotContains(t, image.Signature+image.ImageSignature, "{")
	}
	assert.Empty(t, unused)
}
