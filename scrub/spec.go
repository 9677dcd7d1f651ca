// Package scrub holds the rules that remove cluster state and machine identity
// from a node image, and the audit that reports what is left.
package scrub

import (
	"errors"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Spec selects the rules that run. The zero value selects all rules. Tags and
// comments of the fields mean the same as in provisioner.Spec.
type Spec struct {
	// Distribution ID, instead of the one in `/etc/os-release`. For derivatives
	// that behave like a supported distribution.
	Distro string `json:"distro,omitempty" mapstructure:"distro"`
	// Rules, phases or groups to run. Defaults to all.
	Only []string `json:"only,omitempty" mapstructure:"rules"`
	// Rules, phases or groups to skip. The audit skips them too.
	Skip []string `json:"skip,omitempty" mapstructure:"skip_rules"`
	// Own holds the rules of Local.RulesFile, which run in addition; see
	// ParseRules.
	Own []Rule `json:"own,omitempty" mapstructure:"-"`
	// Record the SHA-256 of each removed file in the report.
	Hash bool `json:"hash,omitempty" mapstructure:"hash"`
	// Discard the free space of the machine's disks at the end, or fill it with
	// zeros where discard is not supported. Without this, removed files stay readable in a
	// snapshot. Filling makes the snapshot as large as the disk.
	WipeFreeSpace bool `json:"wipe_free_space,omitempty" mapstructure:"wipe_free_space"`
	// Effect of the rules for nodes: `yes`, `no` for what is no node, or `auto` for what
	// may be one. With `no`, an audit needs no known distribution. Defaults to `yes`, or
	// `auto` without a scrub.
	Node Node `json:"node,omitempty" mapstructure:"node"`
	// Effect of the final audit on the result: `fail`, `warn` or `off`. With
	// `fail`, the scrub fails when the audit finds something or a rule could not
	// run. With `off`, no audit runs. The audit runs the rules that `rules` and
	// `skip_rules` select, also those of the inspect phase. Defaults to `fail`.
	Audit Audit `json:"audit,omitempty" mapstructure:"audit"`
}

// Local holds the options for files on the Packer host or workstation. The
// builder machine does not get these paths.
type Local struct {
	// YAML file with additional rules to run. The file is on the Packer host.
	RulesFile string `mapstructure:"rules_file"`
}

// Audit is the effect of the audit at the end of a scrub.
type Audit string

// The audits.
const (
	AuditFails Audit = "fail" // findings fail the scrub
	AuditWarns Audit = "warn" // findings are reported, and the scrub passes
	AuditOff   Audit = "off"  // there is no audit
)

// Audits returns the values of Spec.Audit, the default first.
func Audits() []string {
	return []string{string(AuditFails), string(AuditWarns), string(AuditOff)}
}

// Node says whether the rules for nodes run: those that find what keeps a node
// from joining, or its pods from the network.
type Node string

// The values of Spec.Node.
const (
	NodeYes  Node = "yes"  // they run, and a machine without the parts of a node is a finding
	NodeAuto Node = "auto" // they run on a machine with a kubelet, a bootstrap or the files of one
	NodeNo   Node = "no"   // they do not run
)

// Nodes returns the values of Spec.Node.
func Nodes() []string { return []string{string(NodeAuto), string(NodeYes), string(NodeNo)} }

func (s Spec) check() error {
	return errors.Join(oneOf("audit", string(s.Audit), Audits()), oneOf("node", string(s.Node), Nodes()))
}

func oneOf(field surface.Name, value string, known []string) error {
	if value != "" && !slices.Contains(known, value) {
		return surface.Errorf("%s: %q is not known; known: %s", field, value, strings.Join(known, ", "))
	}
	return nil
}
