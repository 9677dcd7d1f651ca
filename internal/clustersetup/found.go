package clustersetup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// Found is what exists already. A nil pointer means that nothing was read; the
// manifest then has the commands for a new resource, which fail harmlessly where the
// resource exists.
type Found struct {
	Cluster awsapi.Cluster
	// Entry is the role's access entry. Without a type, there is none.
	Entry *awsapi.AccessEntry
	// Role is the nodes' role. CNIRole is the role for the VPC CNI. Without a name, there
	// is none.
	Role, CNIRole *awsapi.Role
	// Profiles are the names of the instance profiles that have the role.
	Profiles []string
	// Profile is the instance profile that was looked for by name. Without a name, there
	// is none.
	Profile *awsapi.Profile
	// IPv6Policy is the document of the account's policy AmazonEKS_CNI_IPv6_Policy. If it
	// is empty, there is none.
	IPv6Policy *string
	CNI        *CNI
	// Image is the AMI.
	Image *awsapi.Image
	// Unread are errors of reading, by the manifest's ID.
	Unread map[string][]string
}

// account is the ID of the cluster's account, or empty.
func (f Found) account() string { return awsnames.Split(f.Cluster.ARN).Account }

// NoPodIdentity says why the cluster has no EKS Pod Identity, or is empty
// (https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html).
func (f Found) NoPodIdentity() string {
	if f.Cluster.Outpost {
		return "the cluster is on an Outpost"
	}
	if minor, known := version.Minor(f.Cluster.Version); known && minor < 24 {
		return "Kubernetes " + f.Cluster.Version + " is older than 1.24"
	}
	return ""
}

// CNI says how the VPC CNI and its permissions are set up.
type CNI struct {
	// Addon says that EKS manages the VPC CNI as an add-on. Configuration are the
	// add-on's values.
	Addon         bool
	Configuration string
	// IRSA is the ARN of the role that the add-on's service account has. PodIdentity
	// is the ARN of the role of its pod identity association. Both may be empty.
	IRSA, PodIdentity string
	// Agent says that the cluster has the add-on eks-pod-identity-agent.
	Agent bool
}

// BlockedError says why a manifest would not work or would take access away, and
// what to do.
type BlockedError struct{ Reason string }

func (e *BlockedError) Error() string { return e.Reason }

func blocked(format string, args ...any) error {
	return &BlockedError{fmt.Sprintf(format, args...)}
}

// Comment returns a text as comments of a shell script or of YAML. What AWS sent
// cannot end a comment.
func Comment(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
	return "# " + strings.Join(show.Wrap(strings.Fields(text), 78, ""), "\n# ") + "\n"
}

// script collects the commands of a manifest.
type script struct{ text strings.Builder }

func (s *script) comment(format string, args ...any) {
	s.text.WriteString(Comment(fmt.Sprintf(format, args...)))
}

// run adds a command. Its words are quoted.
func (s *script) run(words ...string) {
	s.text.WriteString(strings.Join(show.Each(words, show.ShellWord), " ") + "\n")
}

// done returns the commands, or a comment that says why there are none.
func (s *script) done(nothing string, args ...any) string {
	if !strings.Contains("\n"+s.text.String(), "\naws ") {
		s.comment("Nothing to do: "+nothing, args...)
	}
	return s.text.String()
}

// Volumes are the choices for the volumes of nodes.
type Volumes struct {
	// Size is the size of the root volume in GiB; 0 means the image's size, and at
	// least 20.
	Size int
	// Key is the KMS key of the root volume, or empty.
	Key string
	// Rate is the volume initialization rate in MiB/s; 0 means EC2's default.
	Rate int
}

// usualSize is the size of a root volume in GiB. Karpenter has the same default.
const usualSize = 20

// Validate returns all faults of the choices, joined.
func (v Volumes) Validate() error {
	var f surface.Faults
	f.When(v.Size < 0 || v.Size > 16384, "volume-size: %d is not a size from 1 to 16384 GiB", v.Size)
	f.When(v.Rate != 0 && (v.Rate < 100 || v.Rate > 300),
		"volume-initialization-rate: %d is not a rate from 100 to 300 MiB/s", v.Rate)
	f.When(v.Rate != 0 && v.Key != "", "kms-key: EC2 accepts no key together with a volume initialization rate, "+
		"because the rate needs the snapshot's ID; copy the AMI with the key")
	return f.Err()
}

// disk is one block device of a node. Its zero values are left out.
type disk struct {
	device, snapshot, key string
	size, rate            int
	encrypted             bool
}

// disks are the block devices of the nodes. With a rate, each volume names its
// snapshot. EC2 takes no encryption for those: they have that of the snapshot.
func (n Node) disks() ([]disk, error) {
	image := n.Found.Image
	if image == nil {
		return nil, errors.New("the AMI was not read")
	}
	var list []disk
	for _, v := range image.Devices {
		if v.Snapshot == "" {
			continue
		}
		d := disk{device: v.Name, size: v.Size}
		root := v.Name == image.RootDevice
		if root {
			if n.Volumes.Size != 0 && n.Volumes.Size < v.Size {
				return nil, fmt.Errorf("volume-size: %d is smaller than the root volume of %s, which has %d GiB",
					n.Volumes.Size, image.ID, v.Size)
			}
			d.size = max(n.Volumes.Size, v.Size)
			if n.Volumes.Size == 0 {
				d.size = max(d.size, usualSize)
			}
		}
		switch {
		case n.Volumes.Rate != 0:
			d.snapshot, d.rate = v.Snapshot, n.Volumes.Rate
		case !root:
			continue // EC2 takes the volume from the AMI
		default:
			d.encrypted, d.key = !v.Encrypted || n.Volumes.Key != "", n.Volumes.Key
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the AMI %s has no root volume with a snapshot", image.ID)
	}
	return list, nil
}
