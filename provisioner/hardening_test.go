package provisioner

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestLevelsOfHardeningAreValidated(t *testing.T) {
	for _, d := range distros.All() {
		for level := range profiles {
			s := Spec{KubernetesVersion: "1.34.4", Distro: d.ID, Hardening: []string{level}}
			if slices.Contains(d.Guide.Levels, level) {
				require.NoError(t, s.Validate(), d.ID)
				continue
			}
			has := cmp.Or(strings.Join(d.Guide.Levels, ", "), "content for almalinux, amazonlinux2023, debian, ")
			require.ErrorContains(t, s.Validate(), fmt.Sprintf("no %q for %s; it has %s", level, d.Name, has))
			s.Guide = []byte("x") // the user's content may have more levels
			assert.Equal(t, len(d.Guide.Levels) == 0, s.Validate() != nil, d.ID)
		}
	}
}

func TestContentIsADataStream(t *testing.T) {
	name := filepath.Join(t.TempDir(), "content.xml")
	require.NoError(t, os.WriteFile(name, []byte("<html/>"), 0o600))
	err := Local{HardeningContent: name}.ReadContent(&Spec{})
	require.ErrorContains(t, err, "hardening_content: "+name+" has no profile; name a data stream of the SCAP Security")
	require.Error(t, Local{HardeningContent: name + "x"}.ReadContent(&Spec{}))
}

// someGuide is a data stream in the form of the guide.
func someGuide(t *testing.T) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ds.xml")
	rules := func(names ...string) (text string) {
		for _, rule := range names {
			text += `<xccdf-1.2:select idref="` + rulePrefix + rule + `" selected="true"/>`
		}
		return text
	}
	text := `<xccdf-1.2:Profile id="` + profilePrefix + `cis_level1_server">` +
		rules("sysctl_net_ipv4_ip_forward", "package_aide_installed", "package_socat_removed", "a", "b") +
		`</xccdf-1.2:Profile><xccdf-1.2:Rule selected="false" id="` + rulePrefix + `a"><xccdf-1.2:requires idref="` + rulePrefix + `b"/>` +
		`<xccdf-1.2:Rule id="` + rulePrefix + `b"><xccdf-1.2:conflicts idref="` + rulePrefix + `c"/>` +
		`<xccdf-1.2:Profile id="` + profilePrefix + `cis_level2_server">` + rules("package_sudo_installed") + `</xccdf-1.2:Profile>`
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	var s Spec
	require.NoError(t, Local{HardeningContent: name}.ReadContent(&s))
	return s.Guide
}

// fakeOscap replaces the scanner: its script marks the machine.
const fakeOscap = `#!/bin/sh
case "$*" in
*"xccdf generate fix --fix-type bash --output /run/eksnode-hardening/fix.sh --profile xccdf_eksnode_profile_cis-l1 --tailoring-file /run/eksnode-hardening/tailoring.xml /run/eksnode-hardening/ssg-debian12-ds.xml")
	echo 'umask > /hardened; apt-config dump APT::Install-Recommends >> /hardened; exit 3' > /run/eksnode-hardening/fix.sh ;;
*"xccdf eval --progress "*)
	test ! -e /unfit || exit 0
	test -e /hardened || exit 1
	printf 'xccdf_org.ssgproject.content_rule_a:pass\nxccdf_org.ssgproject.content_rule_b:fail\n'
	exit 2 ;;
esac
`

var remark = regexp.MustCompile(`idref="` + rulePrefix + `(\S+)" selected="false">\s+<xccdf:remark>(.*)</`)

// The tailoring leaves out what breaks nodes, and neither scanner nor work stays.
func TestALevelHardensWithATailoring(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		alone(t)
		publish(t, h, deb{"openscap-scanner", "1", map[string]string{"usr/share/x": "x"}})
		require.NoError(t, os.WriteFile("/usr/local/bin/oscap", []byte(fakeOscap), 0o755))
		guide := someGuide(t)
		apply := func(s Spec) error {
			s.Guide = guide
			_, err := plan.Apply(t.Context(), h, pick(nodeOf(t, "debian", s), "hardening"), nil)
			_, left := os.Stat("/run/eksnode-hardening")
			require.ErrorIs(t, left, os.ErrNotExist)
			status, reading := os.ReadFile("/var/lib/dpkg/status")
			require.NoError(t, reading)
			assert.NotContains(t, string(status), "Package: openscap-scanner\n")
			return err
		}
		s := Spec{Hardening: []string{"cis-l1"}, HardeningExceptions: map[string]string{
			rulePrefix + "package_aide_installed": "a sensor <watches> files", "package_sudo_installed": "x",
		}}
		require.ErrorContains(t, apply(s), `hardening_exceptions["package_sudo_installed"]: the profile cis_level1_server selects no such rule`)
		require.ErrorContains(t, apply(Spec{Hardening: []string{"stig"}}),
			`hardening: ssg-debian12-ds.xml has no profile of "stig"; it has cis_level1_server, cis_level2_server`)
		require.NoError(t, os.WriteFile("/unfit", nil, 0o644))
		delete(s.HardeningExceptions, "package_sudo_installed")
		require.ErrorContains(t, apply(s), "hardening: no rule of ssg-debian12-ds.xml applies to this machine")
		require.NoError(t, os.Remove("/unfit"))
		require.NoError(t, apply(s))

		assert.Equal(t, "0022\nAPT::Install-Recommends \"false\";\n", testkit.Content(t, "/hardened"))
		text := testkit.Content(t, manifest.TailoringPath)
		require.NoError(t, xml.Unmarshal([]byte(text), new(struct{})))
		assert.Contains(t, text, `extends="`+profilePrefix+`cis_level1_server"`)
		assert.Contains(t, text, "1 rules passed and 1 failed: b")
		var rules []string
		for _, r := range remark.FindAllStringSubmatch(text, -1) {
			rules = append(rules, r[1]+": "+r[2])
		}
		assert.Equal(t, []string{
			"b: oscap aborts: the rule names " + rulePrefix + "c, which the content lacks",
			"package_aide_installed: a sensor &lt;watches&gt; files", "package_socat_removed: nodes need the package socat",
			"sysctl_net_ipv4_ip_forward: CNI plugins: pods have no network (rule ip-forward of eksnode)",
		}, rules)

		s.Guide = guide
		answer, err := pick(nodeOf(t, "debian", s), "hardening")[0].Plan(t.Context(), h)
		require.NoError(t, err)
		assert.Empty(t, answer.Actions)
		s.HardeningExceptions = nil
		answer, err = pick(nodeOf(t, "debian", s), "hardening")[0].Plan(t.Context(), h)
		require.NoError(t, err)
		assert.Len(t, answer.Actions, 1, "other exceptions are another tailoring")
	})
}

func TestContentThatAPackageLacksIsNamed(t *testing.T) {
	h := bareOf(t, "debian")
	folder := filepath.Dir(distros.Guide{}.File(""))
	require.NoError(t, h.Files.MkdirAll(folder, 0o755))
	require.NoError(t, h.Files.WriteFile(folder+"/ssg-debian11-ds.xml", []byte("x"), host.Attributes{Mode: 0o644}))
	_, err := nodeOf(t, "debian", Spec{}).guide(&tailoring{h: h})
	require.ErrorContains(t, err, "hardening: the package ssg-debian of this machine has no ssg-debian12-ds.xml, only ssg-debian11-ds.xml")
	for version, g := range map[string]distros.Guide{
		"9.4": {Product: "rhel{major}"}, "24.04": {Product: "ubuntu{version}"},
	} {
		assert.Contains(t, []string{folder + "/ssg-rhel9-ds.xml", folder + "/ssg-ubuntu2404-ds.xml"}, g.File(version))
	}
}
