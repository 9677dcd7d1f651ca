// Package scrub holds the rules that remove cluster state and machine identity
// from a node image, and the audit that reports what is left.
package scrub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
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
	// Whether the machine must be a node; see Node. Defaults to `yes`.
	Node Node `json:"node,omitempty" mapstructure:"-"`
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

func runRules() []Rule {
	return []Rule{
		{
			ID: "run-left", Phase: Inspect, Groups: []string{"kubelet", "network"}, Verb: Report,
			Paths: []string{"/run/**"}, Owner: "daemons, the VPC CNI",
			Why:         "the image keeps state of another boot in /run, such as the leases in aws-node/ipam.json; a node never sees these files, but everyone with the image can read them",
			Regenerated: "every boot", Source: "file-hierarchy(7), amazon-vpc-cni-k8s",
			look: runLeft,
		},
	}
}

// runLeft reports files below /run of an image that does not run.
func runLeft(d *draft) {
	if d.h.IsLive() {
		d.answer.NotApplicable = "the rule is for image roots: a running machine needs the files in /run"
		return
	}
	for _, dir := range []string{"/run", "/var/run"} {
		if st := d.lstat(dir); st == nil || !st.IsDir() { // a link points to the other folder
			continue
		}
		foreign, err := d.h.Files.Walk(d.ctx, dir, dir, func(e host.Entry, err error) error {
			if err != nil || e.IsDir() || e.Mode()&fs.ModeSymlink != 0 {
				return err
			}
			if !e.Mode().IsRegular() || e.Size() > 0 { // a lock and a container's mount point are empty
				d.find(e.Path, "left by an earlier boot: remove it")
			}
			return nil
		})
		d.failed(err)
		d.found(foreignFindings(d.h, foreign)...)
	}
}

// hashFiles hashes every regular file at and below name, following no links.
// The folder itself may be a link if the verb empties it.
func hashFiles(ctx context.Context, h *host.Host, verb plan.Verb, name string) ([]plan.FileHash, error) {
	if st, err := h.Files.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 && verb == plan.Remove {
		return nil, nil
	}
	var files []plan.FileHash
	_, err := h.Files.Walk(ctx, name, name, func(e host.Entry, err error) error {
		if err != nil || !e.Mode().IsRegular() {
			return err
		}
		in, err := e.Open()
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := hashFile(ctx, in, e.Path)
		files = append(files, f)
		return err
	})
	return files, err
}

func hashFile(ctx context.Context, in *os.File, name string) (plan.FileHash, error) {
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, stoppable{ctx, in})
	return plan.FileHash{Path: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
