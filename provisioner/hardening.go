package provisioner

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// profiles are the profiles of the SCAP Security Guide for the levels of hardening: the
// names in the content for Debian and Ubuntu, and those in the other content.
var profiles = map[string][]string{
	distros.CIS1: {"cis_level1_server", "cis_server_l1"}, distros.CIS2: {"cis_level2_server", "cis"},
	distros.STIG: {"stig"},
}

const (
	profilePrefix = "xccdf_org.ssgproject.content_profile_"
	rulePrefix    = "xccdf_org.ssgproject.content_rule_"
	// guideMost limits an unpacked data stream.
	guideMost = 128 << 20
)

var (
	profileForm  = regexp.MustCompile(`Profile id="` + profilePrefix + `([^"]+)"`)
	selectedForm = regexp.MustCompile(`idref="` + rulePrefix + `([^"]+)" selected="true"`)
	guideRule    = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)
	// relation is the start of a rule, or a rule that this one requires or conflicts with.
	relation = regexp.MustCompile(`(Rule|requires|conflicts) [^>]*\bid(?:ref)?="` + rulePrefix + `([^"]+)"`)
)

// level is the level of hardening; empty without one.
func (s Spec) level() string {
	for _, name := range s.Hardening {
		if profiles[name] != nil {
			return name
		}
	}
	return ""
}

// validateHardening refuses unknown settings, two levels, and what has no effect without a
// level.
func (s Spec) validateHardening(p *problems) {
	p.choices("hardening", s.Hardening, Hardenings())
	level := s.level()
	for _, name := range s.Hardening {
		if profiles[name] != nil && name != level {
			p.add("{hardening} has the levels %q and %q; choose one", level, name)
		}
	}
	if level == "" && len(s.HardeningExceptions) > 0 {
		p.add("{hardening_exceptions} has no effect without a level in {hardening}")
	}
	if level == "" && s.Guide != nil {
		p.add("{hardening_content} has no effect without a level in {hardening}")
	}
	for _, rule := range slices.Sorted(maps.Keys(s.HardeningExceptions)) {
		key := surface.Name("hardening_exceptions").Key(rule)
		if !guideRule.MatchString(strings.TrimPrefix(rule, rulePrefix)) {
			p.add("%s is not the ID of a rule, such as package_aide_installed", key)
		}
		if strings.TrimSpace(s.HardeningExceptions[rule]) == "" {
			p.add("%s has no reason; write for auditors why nodes do without the rule", key)
		}
	}
}

// checkHardening refuses a level for which a distribution has no content.
func (s Spec) checkHardening(d distros.Distro) error {
	level, guide := s.level(), d.Guide
	switch {
	case level == "", slices.Contains(guide.Levels, level):
		return nil
	case len(guide.Packages) == 0:
		var others []string
		for _, other := range distros.All() {
			if len(other.Guide.Packages) > 0 {
				others = append(others, other.ID)
			}
		}
		return surface.Errorf("{hardening}: the SCAP Security Guide has no %q for %s; it has content for %s",
			level, d.Name, strings.Join(others, ", "))
	case s.Guide == nil:
		return surface.Errorf("{hardening}: the SCAP Security Guide has no %q for %s; it has %s, "+
			"and {hardening_content} can name a data stream with more", level, d.Name, strings.Join(guide.Levels, ", "))
	}
	return nil
}

// ReadContent reads the data stream of HardeningContent into a spec.
func (l Local) ReadContent(s *Spec) error {
	if l.HardeningContent == "" {
		return nil
	}
	text, err := surface.ReadFile(l.HardeningContent)
	if err != nil {
		return surface.Errorf("{hardening_content}: %w", err)
	}
	if !profileForm.Match(text) {
		return surface.Errorf("{hardening_content}: %s has no profile; name a data stream of the SCAP Security Guide, "+
			"such as ssg-debian12-ds.xml", l.HardeningContent)
	}
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, err = to.Write(text)
	err = errors.Join(err, to.Close())
	s.Guide = packed.Bytes()
	return err
}

// hardening lets the SCAP Security Guide's own script harden the machine, with a tailoring
// that leaves out what breaks nodes. It is done when the image has the tailoring of the same
// level, exceptions and content.
func (n *node) hardening(_ context.Context, h *host.Host) ([]plan.Action, error) {
	asked := sha256.New()
	fmt.Fprintf(asked, "%s %q %x", n.spec.level(), n.guideExceptions(), sha256.Sum256(n.spec.Guide))
	id := fmt.Sprintf("xccdf_eksnode_tailoring_%x", asked.Sum(nil)[:16])
	have, err := h.Content(manifest.TailoringPath)
	if err != nil || bytes.Contains(have, []byte(id)) {
		return nil, err
	}
	return []plan.Action{act(plan.Run, "the script of "+n.spec.level()+" by oscap xccdf generate fix",
		"hardening asks for "+n.spec.level(), func(ctx context.Context) error {
			t := tailoring{ID: id, Level: n.spec.level(), h: h.With(n.spec.buildProxy()...)}
			return n.harden(ctx, &t)
		})}, nil
}

// guideExceptions are the rules that hardening leaves out, with reasons: those of the rules
// about settings that break nodes, those that remove a node's packages, and the spec's.
func (n *node) guideExceptions() map[string]string {
	all := map[string]string{}
	for _, name := range n.packageNames() {
		all["package_"+name+"_removed"] = "nodes need the package " + name
	}
	for _, r := range scrub.Table() {
		if r.Breaks != nil {
			for _, rule := range r.Breaks.Exempts {
				all[rule] = r.Breaks.Program + ": " + r.Breaks.Shows + " (rule " + r.ID + " of eksnode)"
			}
		}
	}
	for rule, reason := range n.spec.HardeningExceptions {
		all[strings.TrimPrefix(rule, rulePrefix)] = reason
	}
	return all
}

// tailoring is what a scan of the image needs to know.
type tailoring struct {
	ID, Level, Content, Profile string
	// Exceptions are rules with reasons.
	Exceptions map[string]string
	// passed and failed are the rules of a scan after the hardening.
	passed int
	failed []string
	h      *host.Host
}

// guideWork is the folder of the hardening, in memory or in the root that is built.
const guideWork = "/run/eksnode-hardening"

// harden runs the script, and removes the scanner and the content also after an error.
func (n *node) harden(ctx context.Context, t *tailoring) (err error) {
	pm, h, tools := n.distro.PackageManager, t.h, n.distro.Guide.Packages
	if n.spec.Guide != nil {
		tools = tools[:1]
	}
	if err := pm.Refresh(ctx, h); err != nil {
		return err
	}
	if err := pm.Install(ctx, h, tools); err != nil {
		return err
	}
	defer func() {
		_, removing := h.Files.RemoveTree(guideWork)
		err = errors.Join(err, pm.Drop(ctx, h, tools), pm.Clean(ctx, h), removing)
	}()
	if _, err := h.Files.RemoveTree(guideWork); err != nil {
		return err
	}
	if err := h.Files.MkdirAll(guideWork, 0o700); err != nil {
		return fmt.Errorf("making a folder for the hardening: %w", err)
	}
	text, err := n.guide(t)
	if err != nil {
		return err
	}
	if err := n.tailor(t, text); err != nil {
		return err
	}
	script := path.Join(guideWork, "fix.sh")
	for _, argv := range [][]string{
		t.oscap("generate", "fix", "--fix-type", "bash", "--output", script),
		// A rule whose script fails is a rule that the scan names. Of what packages of the
		// script recommend, apt installs nothing, such as a mail server for AIDE.
		{"bash", "-c", `umask 022; echo 'APT::Install-Recommends "false";' > "$0.apt"
APT_CONFIG="$0.apt" bash "$0" < /dev/null > /dev/null 2>&1 || true`, script},
	} {
		if _, err := h.Run(ctx, host.Command{Argv: argv,
			Env: []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}}); err != nil {
			return fmt.Errorf("hardening the machine: %w", err)
		}
	}
	if err := t.scan(ctx); err != nil {
		return err
	}
	return h.Files.WriteFile(manifest.TailoringPath, t.text(), host.Attributes{Mode: 0o644})
}

// guide returns the content, and sets its place.
func (n *node) guide(t *tailoring) ([]byte, error) {
	release, err := distros.ReadRelease(t.h)
	if err != nil {
		return nil, err
	}
	t.Content = n.distro.Guide.File(release.VersionID)
	if n.spec.Guide != nil {
		var text []byte
		in, err := gzip.NewReader(bytes.NewReader(n.spec.Guide))
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(in, guideMost))
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking the content: %w", err)
		}
		t.Content = path.Join(guideWork, path.Base(t.Content))
		return text, t.h.Files.WriteFile(t.Content, text, host.Attributes{Mode: 0o600})
	}
	text, err := afero.ReadFile(t.h.Files, t.Content)
	if err != nil {
		var have []string
		entries, _ := afero.ReadDir(t.h.Files, path.Dir(t.Content)) // err says more
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), "-ds.xml") {
				have = append(have, e.Name())
			}
		}
		return nil, surface.Errorf("{hardening}: the package %s of this machine has no %s, only %s: "+
			"it is older than %s (%w); take the file from a newer package, and name it in {hardening_content}",
			n.distro.Guide.Packages[1], path.Base(t.Content), cmp.Or(strings.Join(have, ", "), "none"),
			release.PrettyName, err)
	}
	return text, nil
}

// tailor chooses the profile, and the exceptions that it needs.
func (n *node) tailor(t *tailoring, content []byte) error {
	known := show.Each(profileForm.FindAllSubmatch(content, -1), func(m [][]byte) string { return string(m[1]) })
	i := slices.IndexFunc(profiles[t.Level], func(p string) bool { return slices.Contains(known, p) })
	if i < 0 {
		return surface.Errorf("{hardening}: %s has no profile of %q; it has %s", path.Base(t.Content), t.Level,
			cmp.Or(strings.Join(known, ", "), "none, as content for a new release"))
	}
	t.Profile = profilePrefix + profiles[t.Level][i]
	_, rest, _ := bytes.Cut(content, []byte(`Profile id="`+t.Profile+`"`))
	rest, _, _ = bytes.Cut(rest, []byte("Profile>"))
	selected := map[string]bool{}
	for _, m := range selectedForm.FindAllSubmatch(rest, -1) {
		selected[string(m[1])] = true
	}
	var p problems
	for rule := range n.spec.HardeningExceptions {
		if !selected[strings.TrimPrefix(rule, rulePrefix)] {
			p.add("%s: the profile %s selects no such rule; write the ID of the guide, such as package_aide_installed",
				surface.Name("hardening_exceptions").Key(rule), profiles[t.Level][i])
		}
	}
	t.Exceptions = n.guideExceptions()
	var rule string
	for _, m := range relation.FindAllSubmatch(content, -1) {
		if string(m[1]) == "Rule" {
			rule = string(m[2])
		} else if other := rulePrefix + string(m[2]); !bytes.Contains(content, []byte(` id="`+other+`"`)) {
			t.Exceptions[rule] = "oscap aborts: the rule names " + other + ", which the content lacks"
		}
	}
	maps.DeleteFunc(t.Exceptions, func(rule, _ string) bool { return !selected[rule] })
	file := path.Join(guideWork, "tailoring.xml")
	return errors.Join(append(p, t.h.Files.WriteFile(file, t.text(), host.Attributes{Mode: 0o600}))...)
}

// oscap is a command with the tailoring.
func (t *tailoring) oscap(words ...string) []string {
	return append(append([]string{"oscap", "xccdf"}, words...), "--profile", t.profile(), "--tailoring-file",
		path.Join(guideWork, "tailoring.xml"), t.Content)
}

func (t *tailoring) profile() string { return "xccdf_eksnode_profile_" + t.Level }

// scan counts the rules that the machine now obeys.
func (t *tailoring) scan(ctx context.Context) error {
	said, err := t.h.Run(ctx, host.Command{Argv: t.oscap("eval", "--progress")})
	var failed *host.CommandError
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 2) { // 2: some rules fail
		return fmt.Errorf("scanning the hardened machine: %w", err)
	}
	for line := range strings.Lines(string(said)) {
		switch rule, result, _ := strings.Cut(strings.TrimSpace(line), ":"); result {
		case "pass", "fixed":
			t.passed++
		case "fail":
			t.failed = append(t.failed, strings.TrimPrefix(rule, rulePrefix))
		}
	}
	if t.passed == 0 {
		return surface.Errorf("{hardening}: no rule of %s applies to this machine; "+
			"name the content of its distribution and release in {hardening_content}", path.Base(t.Content))
	}
	return nil
}

// text is the tailoring as a file of XCCDF 1.2.
func (t *tailoring) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>
<xccdf:Tailoring xmlns:xccdf="http://checklists.nist.gov/xccdf/1.2" id="%s">
  <xccdf:benchmark href="%s"/>
  <xccdf:version time="2000-01-01T00:00:00">1</xccdf:version>
  <xccdf:Profile id="%s" extends="%s">
    <xccdf:title>%s for nodes of Amazon EKS</xccdf:title>
    <xccdf:description>Scan the image with the same content:
oscap xccdf eval --profile %[3]s --tailoring-file %[6]s %[2]s
When the image was made, %[7]d rules passed and %[8]d failed: %[9]s</xccdf:description>
`, t.ID, path.Base(t.Content), t.profile(), t.Profile, t.Level, manifest.TailoringPath, t.passed, len(t.failed),
		cmp.Or(strings.Join(t.failed, " "), "none"))
	for _, rule := range slices.Sorted(maps.Keys(t.Exceptions)) {
		fmt.Fprintf(&b, "    <xccdf:select idref=%q selected=\"false\">\n      <xccdf:remark>", rulePrefix+rule)
		_ = xml.EscapeText(&b, []byte(t.Exceptions[rule])) // writes to memory
		b.WriteString("</xccdf:remark>\n    </xccdf:select>\n")
	}
	b.WriteString("  </xccdf:Profile>\n</xccdf:Tailoring>\n")
	return b.Bytes()
}
