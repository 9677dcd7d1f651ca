// Package scrub removes state that a node image must not contain. It has the
// table of rules, their planner, and the audit that reports what is left.
package scrub

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// Spec says which rules run. The zero value runs all of them. Each field is the
// option itself, on every surface; provisioner.Spec says what tags and comments
// are for.
type Spec struct {
	// Distribution to treat the machine as, whatever its `/etc/os-release`
	// says. For derivatives that behave like a known one.
	Distro string `json:"distro,omitempty" mapstructure:"distro"`
	// Rules or groups of rules to run, and no others. Defaults to all.
	Only []string `json:"only,omitempty" mapstructure:"rules"`
	// Rules or groups of rules to leave out. They are not run, and the audit
	// does not look for what they would find.
	Skip []string `json:"skip,omitempty" mapstructure:"skip_rules"`
	// Own are the rules of Local.RulesFile, which run also; see ParseRules.
	Own []OwnRule `json:"own,omitempty" mapstructure:"-" mapstructure-to-hcl2:",skip"`
	// Put the SHA-256 of every removed file into the report.
	Hash bool `json:"hash,omitempty" mapstructure:"hash"`
	// At the end, discard the free space of the machine's disks, or fill it with
	// zeros where discard is not supported. Removed files stay readable in a
	// snapshot otherwise. Filling makes the snapshot as large as the disk.
	WipeFreeSpace bool `json:"wipe_free_space,omitempty" mapstructure:"wipe_free_space"`
	// What the audit at the end does to the result: `fail`, `warn` or `off`.
	// With `fail` the scrub fails when the audit finds something or cannot look
	// everywhere; with `off` there is no audit. The audit asks the rules that
	// `rules` and `skip_rules` choose, those of the inspect phase included.
	// Defaults to `fail`. An audit by itself has no use for it.
	Audit Audit `json:"audit,omitempty" mapstructure:"audit"`
}

// Local is what a scrub uses on the Packer host or workstation. No machine hears
// of these paths.
type Local struct {
	// File with rules that run also, in YAML. The guide to the scrub has its
	// form. The file lies on the Packer host.
	RulesFile string `mapstructure:"rules_file"`
}

// Audit is what follows from the audit that ends a scrub.
type Audit string

// The audits.
const (
	AuditFails Audit = "fail" // findings fail the scrub
	AuditWarns Audit = "warn" // findings are reported, and the scrub passes
	AuditOff   Audit = "off"  // there is no audit
)

// Audits are the values of Spec.Audit, the default first.
func Audits() []string {
	return []string{string(AuditFails), string(AuditWarns), string(AuditOff)}
}

// check refuses an unknown audit.
func (a Audit) check() error {
	if a != "" && !slices.Contains(Audits(), string(a)) {
		return surface.Errorf("%s: %q is not known; known: %s", surface.Name("audit"), a, strings.Join(Audits(), ", "))
	}
	return nil
}
