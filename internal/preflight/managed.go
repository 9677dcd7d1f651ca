package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// custom is the AMI type of node groups whose launch template names the image.
const custom = "CUSTOM"

func (f *facts) managed() bool { return f.target.NodeGroup != "" }

// launches reads the settings with which the target's nodes start.
func (f *facts) launches(ctx context.Context, a *awsapi.AWS) {
	f.group.absent = true
	switch t := f.target; {
	case t.Instance != "":
		f.launch = learn(a.Instance(ctx, t.Instance))
	case t.Template != "":
		f.launch = learn(a.Template(ctx, t.Template, t.TemplateVersion))
	case t.NodeGroup != "":
		f.group = learn(a.NodeGroup(ctx, t.Cluster, t.NodeGroup))
		f.launch = after(f.group, func(g awsapi.NodeGroup) fact[awsapi.Launch] { return launchOfGroup(ctx, a, g) })
	case t.NodeClass != nil:
		f.selected = f.selectedBy(ctx, a, t.NodeClass)
		f.launch = learn(t.NodeClass.launch(f.selected, t.Cluster), nil)
	default:
		f.launch.absent = true
	}
}

// launchOfGroup reads the launch template of a node group. The instance types of
// the group take the place of the template's.
func launchOfGroup(ctx context.Context, a *awsapi.AWS, g awsapi.NodeGroup) fact[awsapi.Launch] {
	l := awsapi.Launch{From: "the node group " + g.Name}
	if g.Template != "" {
		var err error
		if l, err = a.Template(ctx, g.Template, g.TemplateVersion); err != nil {
			return learn(l, err)
		}
	}
	types := strings.Join(g.InstanceTypes, ", ")
	switch {
	case types != "" && l.Type != "":
		l.Unmanaged = append(l.Unmanaged, "InstanceType (the node group names "+types+")")
	case types != "":
		l.Type = g.InstanceTypes[0]
	}
	return learn(l, nil)
}

// imageOf reads the target's image. It is absent when the target names none, and
// when EKS or Karpenter selects one of EKS's own images.
func (f *facts) imageOf(ctx context.Context, a *awsapi.AWS) fact[awsapi.Image] {
	id := f.target.AMI
	switch {
	case id != "":
	case f.launch.err != nil:
		return fact[awsapi.Image]{err: f.launch.err}
	case f.publisher() != "":
		return fact[awsapi.Image]{absent: true}
	case f.target.NodeClass != nil:
		return f.selected.image
	default:
		id = f.launch.value.Image
	}
	if id == "" {
		return fact[awsapi.Image]{absent: true}
	}
	return learn(a.Image(ctx, id))
}

// publisher says who selects one of EKS's own images for the nodes. It is empty
// when the target names an image.
func (f *facts) publisher() string {
	switch g := f.group.value; {
	case f.managed() && f.group.err == nil && g.AMIType != custom && g.AMIType != "":
		said := "EKS selects the image " + g.AMIType
		if g.Release != "" {
			said += ", release " + g.Release
		}
		return said
	case f.target.NodeClass != nil:
		return f.target.NodeClass.publisher()
	}
	return ""
}

func (f *facts) architecturesOf(ctx context.Context, a *awsapi.AWS, l awsapi.Launch) fact[[]string] {
	types := f.group.value.InstanceTypes
	if l.Type != "" && len(types) == 0 {
		types = []string{l.Type}
	}
	if len(types) == 0 {
		f.types.absent = true
		return fact[[]string]{absent: true}
	}
	f.types = learn(a.InstanceTypes(ctx, types))
	var all []string
	for i, t := range f.types.value {
		if i == 0 {
			all = slices.Clone(t.Architectures)
			continue
		}
		all = slices.DeleteFunc(all, func(a string) bool { return !slices.Contains(t.Architectures, a) })
	}
	return learn(all, f.types.err)
}

// profileOf reads the instance profile and the nodes' role. A node group, and most
// EC2NodeClasses, name the role alone: EKS and Karpenter make the profile.
func (f *facts) profileOf(ctx context.Context, a *awsapi.AWS) fact[awsapi.Profile] {
	role := f.target.Role
	switch {
	case f.managed():
		if f.group.err != nil {
			return fact[awsapi.Profile]{err: f.group.err}
		}
		role = f.group.value.Role
	case f.target.NodeClass != nil && f.target.NodeClass.Role != "":
		role = f.target.NodeClass.Role
	case f.launch.err != nil:
		return fact[awsapi.Profile]{err: f.launch.err}
	case f.launch.value.Profile != "":
		return learn(a.Profile(ctx, f.launch.value.Profile))
	}
	if role == "" {
		return fact[awsapi.Profile]{absent: f.launch.absent}
	}
	r, err := a.Role(ctx, role)
	if err != nil {
		return fact[awsapi.Profile]{err: err}
	}
	return learn(awsapi.Profile{Role: &r}, nil)
}

func (f *facts) subnetsOfTarget() ([]string, error) {
	switch {
	case f.managed():
		return f.group.value.Subnets, f.group.err
	case f.target.NodeClass != nil:
		return f.selected.subnets.value, f.selected.subnets.err
	}
	return nil, nil
}

// securityGroupsOf reads the nodes' security groups. EKS gives the cluster's group
// to a node group whose launch template names none.
func (f *facts) securityGroupsOf(ctx context.Context, a *awsapi.AWS, l awsapi.Launch) fact[[]awsapi.SecurityGroup] {
	ids := l.SecurityGroups
	switch {
	case f.target.NodeClass != nil && f.selected.groups.err != nil:
		return fact[[]awsapi.SecurityGroup]{err: f.selected.groups.err}
	case f.managed() && len(ids) == 0 && f.cluster.value.ClusterSecurityGroup != "":
		ids = []string{f.cluster.value.ClusterSecurityGroup}
	}
	if len(ids) == 0 {
		return fact[[]awsapi.SecurityGroup]{}
	}
	return learn(a.SecurityGroups(ctx, ids))
}

// userDataOfLaunch reads the user data. EKS merges that of a node group without an
// image of its own with its user data, and Karpenter that of most EC2NodeClasses.
func (f *facts) userDataOfLaunch(l awsapi.Launch) fact[userdata.Report] {
	switch {
	case f.target.NodeClass != nil:
		return f.target.NodeClass.userData()
	case f.managed() && f.publisher() != "" && len(l.UserData) > 0:
		return mergedUserData(l.UserData, f.group.value.AMIType)
	}
	return readUserData(l)
}

// isAmazonLinux says whether an AMI type is one of Amazon Linux: AL2_ or AL2023_.
func isAmazonLinux(amiType string) bool { return strings.HasPrefix(amiType, "AL2") }

// mergedUserData checks user data that EKS merges. Amazon Linux also takes messages
// without a part that a family has, such as shell scripts alone.
func mergedUserData(text []byte, amiType string) fact[userdata.Report] {
	family := familyOf(amiType)
	if !isAmazonLinux(amiType) {
		return learn(userdata.CheckMerged(text, family))
	}
	r, err := userdata.CheckMerged(text, "")
	if err != nil {
		return fact[userdata.Report]{value: userdata.Report{Family: family}}
	}
	return learn(r, nil)
}

// familyOf is the family of user data that images of an AMI type read.
func familyOf(amiType string) string {
	for prefix, family := range map[string]string{"AL2023_": "al2023", "AL2_": "al2", "BOTTLEROCKET_": "bottlerocket",
		"WINDOWS_": "windows"} {
		if strings.HasPrefix(amiType, prefix) {
			return family
		}
	}
	return ""
}

func checkNodeGroup(f *facts) *result {
	g := f.group.value
	describe := fmt.Sprintf("aws eks describe-nodegroup --cluster-name %s --nodegroup-name %s --query nodegroup.health",
		f.target.Cluster, g.Name)
	issues := show.Each(g.Issues, func(i ekstypes.Issue) string {
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", i.Code, aws.ToString(i.Message),
			strings.Join(i.ResourceIds, ", ")))
	})
	size := fmt.Sprintf("%d to %d nodes, %d desired", g.Min, g.Max, g.Desired)
	switch {
	case len(issues) > 0:
		return bad(describe, "the node group is %s: %s", g.Status, strings.Join(issues, "; "))
	case g.Status == "CREATING":
		return maybe(fmt.Sprintf("aws eks wait nodegroup-active --cluster-name %s --nodegroup-name %s",
			f.target.Cluster, g.Name), "the node group is CREATING")
	case g.Status != "ACTIVE" && g.Status != "UPDATING":
		return bad(describe, "the node group is %s", g.Status)
	case g.Max == 0:
		return maybe(fmt.Sprintf("aws eks update-nodegroup-config --cluster-name %s --nodegroup-name %s "+
			"--scaling-config maxSize=1,desiredSize=1", f.target.Cluster, g.Name),
			"the node group starts no nodes: %s", size)
	}
	said := []string{g.Status, g.AMIType}
	if g.Release != "" {
		said = append(said, "release "+g.Release)
	}
	if types := strings.Join(g.InstanceTypes, " "); types != "" {
		said = append(said, types)
	}
	if g.Capacity != "" {
		said = append(said, g.Capacity)
	}
	return good("%s, %s", strings.Join(said, ", "), size)
}

// checkGroupTemplate checks what EKS demands of the launch templates of managed
// node groups (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
func checkGroupTemplate(f *facts) *result {
	g, l := f.group.value, f.launch.value
	switch {
	case g.Template == "" && g.AMIType == custom:
		return bad(f.listTemplates(), "the AMI type is CUSTOM, but the node group has no launch template to name "+
			"the image")
	case g.Template == "":
		return good("the node group has none of its own")
	case awsapi.IsNotFound(f.launch.err):
		return bad(f.listTemplates(), "the launch template %s, version %s, does not exist: %v", g.Template,
			g.TemplateVersion, f.launch.err)
	case f.launch.err != nil:
		return f.unseen(f.launch.err)
	}
	var wrong []string
	if len(l.Unmanaged) > 0 {
		wrong = append(wrong, "EKS refuses "+strings.Join(l.Unmanaged, ", "))
	}
	switch {
	case g.AMIType == custom && l.Image == "":
		wrong = append(wrong, "the AMI type is CUSTOM, but the template names no image")
	case g.AMIType != custom && l.Image != "":
		wrong = append(wrong, fmt.Sprintf("the template names the image %s, but the AMI type is %s instead of CUSTOM",
			l.Image, g.AMIType))
	}
	if len(wrong) > 0 {
		return bad(f.seeTemplate(), "%s: %s", l.From, strings.Join(wrong, "; "))
	}
	return good("%s, version %s", l.From, l.Version)
}

func (f *facts) listTemplates() string {
	return fmt.Sprintf("aws eks describe-nodegroup --cluster-name %s --nodegroup-name %s --query "+
		"nodegroup.launchTemplate", f.target.Cluster, f.target.NodeGroup)
}

// seeTemplate is the command that shows the template's data, for a version without
// the refused settings. A version that another one is the source of inherits them.
func (f *facts) seeTemplate() string {
	l := f.launch.value
	return fmt.Sprintf("aws ec2 describe-launch-template-versions --launch-template-id %s --versions %s --query "+
		"LaunchTemplateVersions[0].LaunchTemplateData", l.Template, l.Version)
}

// userDataElsewhere is who writes the user data that has the nodes join, or empty
// when the target's own user data must do so.
func (f *facts) userDataElsewhere() string {
	switch c := f.target.NodeClass; {
	case c != nil && c.AMIFamily != "Custom":
		return "Karpenter"
	case f.managed() && f.publisher() != "":
		return "EKS"
	}
	return ""
}

// unmergeable returns the fault of user data that EKS or Karpenter cannot merge with
// its own, or nil. EKS merges only MIME messages for Amazon Linux
// (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
func (f *facts) unmergeable() *result {
	text := string(f.launch.value.UserData)
	family := familyOf(f.group.value.AMIType)
	linux := isAmazonLinux(f.group.value.AMIType)
	head, _, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	switch {
	case !f.managed() || f.publisher() == "":
		return nil
	case linux && !strings.Contains(strings.ToLower(head), "content-type: multipart/"):
		return bad(f.userDataOf(family), "EKS merges user data with its own only as a MIME message, and this is none")
	case linux && strings.Contains(text, "/etc/eks/bootstrap.sh"):
		return bad(f.userDataOf(family), "the user data calls bootstrap.sh, and so does the user data of EKS: leave "+
			"the call out")
	case family == "windows":
		return maybe(f.userDataOf(family), "EKS documents merged user data only for Amazon Linux and Bottlerocket, "+
			"not for Windows")
	}
	return nil
}

// publishedKubelet is the kubelet's version in one of EKS's own images, or empty.
func (f *facts) publishedKubelet() (version, from string) {
	if f.publisher() == "" {
		return "", ""
	}
	if !f.managed() { // Karpenter selects images for the cluster's version
		return f.cluster.value.Version, "as the cluster"
	}
	g := f.group.value
	if strings.HasPrefix(g.Release, g.Version+".") {
		release, _, _ := strings.Cut(g.Release, "-")
		return release, "in the node group's release"
	}
	return g.Version, "in the node group"
}
