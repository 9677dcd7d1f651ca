//go:build e2e && full

package offline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// level is a level of hardening, the profile of the content, and a rule of the audit by which
// the whole script breaks nodes.
type level struct{ name, profile, breaks string }

// hardenings are the products of the content, with their levels.
var hardenings = []struct {
	product string
	levels  []level
}{
	{"debian13", []level{{"cis-l1", "cis_level1_server", "host-firewall"},
		{"cis-l2", "cis_level2_server", "firewall-output"}}},
	{"ubuntu2404", []level{{"cis-l1", "cis_level1_server", "firewall-input"},
		{"cis-l2", "cis_level2_server", "audit-halts"}, {"stig", "stig", "host-firewall"}}},
	{"al2023", []level{{"cis-l1", "cis_server_l1", "ip-forward"}, {"cis-l2", "cis", "ip-forward"}}},
	{"rhel9", []level{{"cis-l1", "cis_server_l1", "host-firewall"}, {"cis-l2", "cis", "host-firewall"},
		{"stig", "stig", "audit-panics"}}},
}

// TestTheContentHasTheLevels compares the levels of distributions with the newest content.
func TestTheContentHasTheLevels(t *testing.T) {
	for product, id := range map[string]string{
		"debian12": "debian", "debian13": "debian", "ubuntu2204": "ubuntu", "ubuntu2404": "ubuntu",
		"al2023": "amazonlinux2023", "almalinux9": "almalinux", "fedora": "fedora", "rhel9": "rhel", "rhel10": "rhel",
		"sle15": "sles", "sle16": "sles-16", "opensuse": "opensuse-leap-15",
	} {
		text := testkit.Content(t, lab.Guide(t, product))
		var levels []string
		for level, profile := range map[string]string{
			distros.CIS1: "_cis_(level1_server|server_l1)", distros.CIS2: "_cis(_level2_server)?",
			distros.STIG: "_stig",
		} {
			if regexp.MustCompile(`Profile id="\S+_profile` + profile + `"`).MatchString(text) {
				levels = append(levels, level)
			}
		}
		d, err := distros.ByID(id)
		require.NoError(t, err)
		assert.ElementsMatch(t, levels, d.Guide.Levels, product)
	}
}

// hardenable is the system for a product's content. Shapes have Debian's programs under
// other names, so they get what the content looks for: a kernel's package, and in Rocky
// Linux, for which no package of Debian has content, the name of RHEL's release.
func hardenable(product string) lab.System {
	var s shape.Shape
	switch product {
	case "ubuntu2404":
		s = shape.All()["ubuntu"]
		s.Packages = append(s.Packages, "linux-base")
		s.Offered = append(s.Offered, "ufw", "apparmor-utils", "libpam-pwquality", "systemd-timesyncd")
	case "al2023":
		s = shape.All()["amazonlinux2023"]
	case "rhel9":
		s = shape.All()["rocky-9"]
		s.Own = append(s.Own, shape.Own{Name: "redhat-release", Version: "9.7"})
		s.Links = map[string]string{"/etc/resolv.conf": "../run/NetworkManager/resolv.conf"}
	default:
		return lab.System{}
	}
	if product != "ubuntu2404" {
		// SELinux is enforcing after some levels, with the policy of this package.
		policy := base.File{Path: "/usr/share/selinux/packages/container.pp.bz2", Mode: 0o644}
		s.Empty = slices.DeleteFunc(s.Empty, func(name string) bool { return name == "container-selinux" })
		s.Own = append(s.Own, shape.Own{Name: "container-selinux", Version: "2.240", Files: []string{policy.Path}})
		s.Files = append(s.Files, policy)
		s.Script += "ln -s ../sysctl.conf /etc/sysctl.d/99-sysctl.conf\n" // which Debian's systemd no longer has
	}
	s.Pinned = map[string]string{"audit": "bookworm"} // the last whose auditd.service loads rules, as theirs does
	s.Own = append(s.Own, shape.Own{Name: "kernel", Version: "6.1"}, shape.Own{Name: "kernel-core", Version: "6.1"})
	s.Offered = append(s.Offered, "openscap-scanner", "aide", "firewalld", "rsyslog")
	return lab.System{Shape: &s}
}

// TestHardenedRoots hardens roots by the real oscap and content, and logs the rules that
// pass: before, after the content's whole script, and after the option. The audit names what
// breaks nodes after the script, and nothing after the option. Neither scanner nor content is
// left, and later runs change nothing.
func TestHardenedRoots(t *testing.T) {
	for _, of := range hardenings {
		t.Run(of.product, func(t *testing.T) {
			b := openOn(t, hardenable(of.product))
			guide := lab.Guide(t, of.product)
			for _, l := range of.levels {
				t.Run(l.name, func(t *testing.T) { b.hardened(t, guide, l) })
			}
		})
	}
}

func (b *bench) hardened(t *testing.T, guide string, l level) {
	plain, ours := *b, *b
	plain.root, ours.root = b.copied(t, b.root), b.copied(t, b.root)
	require.NoError(t, os.Link(guide, filepath.Join(plain.root, "guide.xml")))
	began := time.Now()
	cmd := b.inside(plain.root, "testdata/plain.sh", "xccdf_org.ssgproject.content_profile_"+l.profile)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	t.Logf("before and after the whole script, in %s:\n%s", time.Since(began).Round(time.Second), out)
	said, _ := plain.eksnode(t, "audit", "--rules", "join-breakers")
	t.Logf("%s", said)
	assert.Regexp(t, "finding .*[(]"+l.breaks+": ", said)

	report := filepath.Join(t.TempDir(), "report")
	provision := func() string {
		return testkit.Output(t, ours.provision(t, "--hardening", l.name, "--hardening-content", guide, "--report",
			report+".json"))
	}
	began = time.Now()
	provision()
	tailoring := testkit.Content(t, filepath.Join(ours.root, manifest.TailoringPath))
	t.Logf("with exceptions, in %s: %d are left out\n%s", time.Since(began).Round(time.Second),
		strings.Count(tailoring, "<xccdf:select"), tailoring)
	assert.Equal(t, tailoring, testkit.Content(t, report+".tailoring.xml"))
	var before, passed int
	_, result, _ := strings.Cut(tailoring, "was made, ")
	_, err = fmt.Sscan(string(out), &before)
	require.NoError(t, err)
	_, err = fmt.Sscan(result, &passed)
	require.NoError(t, err)
	assert.Greater(t, passed, before)
	assert.Contains(t, provision(), "DONE: 0 of ")
	for _, args := range [][]string{{"scrub", "--yes"}, {"audit"}, {"audit", "--rules", "join-breakers"}} {
		ours.must(t, args...)
	}
	assert.Contains(t, provision(), "DONE: 0 of ")
	for _, gone := range []string{"usr/bin/oscap", "usr/share/xml/scap", "run/eksnode-hardening"} {
		assert.Empty(t, testkit.Glob(t, filepath.Join(ours.root, gone)))
	}
}
