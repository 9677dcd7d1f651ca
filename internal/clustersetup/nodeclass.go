package clustersetup

import (
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/karpenter"
)

func writeNodeClass(n Node) (string, error) {
	if n.AMI == "" {
		return "", ErrNotNeeded
	}
	if n.KarpenterFamily == "" {
		return "", blocked("Karpenter writes no user data of the family %s: use `eksnode userdata render --family "+
			"karpenter --carrying %s`", n.Family, n.Family)
	}
	disks, err := n.disks()
	if err != nil {
		return "", err
	}
	image := karpenter.Term{ID: n.AMI}
	if parameter, named := strings.CutPrefix(n.AMI, awsnames.ByParameter); named {
		image = karpenter.Term{SSMParameter: parameter}
	}
	_, _, role := n.role()
	// Karpenter refuses the tag kubernetes.io/cluster here, because it sets that itself.
	spec := karpenter.Spec{
		AMIFamily: n.KarpenterFamily, AMIs: []karpenter.Term{image}, Role: role, Subnets: ids(n.Found.Cluster.Subnets),
		Groups:   ids(n.securityGroups()),
		Metadata: karpenter.Metadata{Endpoint: "enabled", HopLimit: 1, Tokens: "required"},
	}
	if n.Profile != "" { // Karpenter makes an instance profile for a role, or uses an existing one
		spec.Role, spec.InstanceProfile = "", n.Profile
	}
	for _, d := range disks {
		ebs := karpenter.EBS{Type: "gp3", Key: d.key, Snapshot: d.snapshot, Rate: d.rate, Delete: new(true)}
		if d.encrypted {
			ebs.Encrypted = new(true)
		}
		if d.size > 0 {
			ebs.Size = fmt.Sprintf("%dGi", d.size)
		}
		spec.Devices = append(spec.Devices, karpenter.Device{Name: d.device, Root: d.device == n.Found.Image.RootDevice,
			EBS: &ebs})
	}
	text, err := strictjson.WriteYAML(karpenter.New(map[string]any{"name": "eksnode", "uid": createOnly}, spec))
	return n.aboutNodeClass() + text, err
}

// aboutNodeClass are the comments before the EC2NodeClass.
func (n Node) aboutNodeClass() string {
	text := Comment("This creates the EC2NodeClass eksnode. If there is one, the API server refuses this, because of " +
		"the uid, and nothing is replaced. A NodePool uses it by spec.template.spec.nodeClassRef.")
	text += Comment("The subnets are those of the cluster. Nodes may use other subnets of the VPC.")
	if n.Volumes.Rate != 0 {
		text += Comment("The volumes name the snapshots of " + n.Found.Image.ID + ", so the AMI is fixed: print this " +
			"again for another AMI.")
		for _, v := range n.Found.Image.Devices {
			if v.Snapshot != "" && !v.Encrypted {
				text += Comment("The snapshot " + v.Snapshot + " is not encrypted. Unless EBS encryption by default " +
					"is on, its volumes are not encrypted either.")
			}
		}
	}
	return text
}

func ids(all []string) []karpenter.Term {
	return show.Each(all, func(id string) karpenter.Term { return karpenter.Term{ID: id} })
}
