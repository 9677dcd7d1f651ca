package preflight

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func checkImageState(f *facts) *result {
	if f.image.err != nil {
		return f.unseen(f.image.err)
	}
	i := f.image.value
	switch {
	case f.image.absent:
		return f.noImage()
	case i.State == "disabled":
		return bad("aws ec2 enable-image --image-id "+i.ID, "the image is disabled: EC2 starts no instance from it")
	case i.State == "pending":
		return bad("aws ec2 wait image-available --image-ids "+i.ID, "the image is pending")
	case i.State != "available":
		return bad("aws ec2 describe-images --image-ids "+i.ID+" --query Images[].StateReason", "the image is %s%s",
			i.State, reason(i.StateReason))
	case i.RootType != "ebs":
		return bad("packer build -only='amazon-ebs.*' .", "the root device has the type %s, but nodes need an EBS "+
			"root device", i.RootType)
	}
	if !i.Deprecated.IsZero() && !i.Deprecated.After(f.now) {
		return maybe("eksnode ami list", "the image %s is deprecated since %s: EC2 still starts instances, but a "+
			"newer image should exist", i.ID, i.Deprecated.Format(time.DateOnly))
	}
	return good("%s (%s), root device %s", i.ID, i.Name, i.RootDevice)
}

func (f *facts) noImage() *result {
	if by := f.publisher(); by != "" {
		return good("%s", by)
	}
	return bad(f.newVersion(map[string]any{"ImageId": "AMI"}), "%s names no image", f.launch.value.From).
		because("no image")
}

// newVersion is the command that makes a version of the launch template with
// changed data. AWS replaces each named field as a whole, so data also repeats the
// unchanged parts of the field. An EC2NodeClass has no launch template of its own.
func (f *facts) newVersion(data map[string]any) string {
	if c := f.target.NodeClass; c != nil {
		return "kubectl edit ec2nodeclass " + c.Name
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // these are texts and lists of texts
	}
	return fmt.Sprintf("aws ec2 create-launch-template-version --launch-template-id %s --source-version %s "+
		"--launch-template-data %s", f.launch.value.Template, f.launch.value.Version, show.ShellQuote(string(text)))
}

func (f *facts) seenImage() (awsapi.Image, *result) {
	if f.image.err != nil {
		return awsapi.Image{}, f.unseen(f.image.err)
	}
	if f.image.absent {
		return awsapi.Image{}, f.noImage()
	}
	return f.image.value, nil
}

func ofImage(look func(*facts, awsapi.Image) *result) func(*facts) *result {
	return func(f *facts) *result {
		i, not := f.seenImage()
		if not != nil {
			return not
		}
		return look(f, i)
	}
}

func checkImageOwner(f *facts, i awsapi.Image) *result {
	switch {
	case i.OwnerAlias == "amazon":
		return good("Amazon's, account %s", i.Owner)
	case f.account.err != nil:
		return f.unseen(f.account.err)
	case i.Owner != f.account.value:
		return maybe("aws ec2 describe-images --image-ids "+i.ID,
			"the image belongs to the account %s, but your account is %s", i.Owner, f.account.value)
	}
	return good("your account's, %s", i.Owner)
}

func checkImageENA(_ *facts, i awsapi.Image) *result {
	if !i.ENA {
		return bad("aws ec2 modify-instance-attribute --ena-support --instance-id INSTANCE",
			"ENA is off; set ena_support = true in the build, or turn ENA on for a stopped instance and create the "+
				"image again")
	}
	return good("ENA is on")
}

func checkArchitecture(f *facts, i awsapi.Image) *result {
	switch {
	case f.target.NodeClass != nil:
		return good("Karpenter starts only instance types for %s", i.Architecture)
	case f.architectures.err != nil:
		return f.unseen(f.architectures.err)
	case f.architectures.absent:
		return maybe(typesFor(i.Architecture), "the image is for %s, but %s names no instance type", i.Architecture,
			f.launch.value.From)
	case !slices.Contains(f.architectures.value, i.Architecture):
		return bad(typesFor(i.Architecture), "the image is for %s, but %s runs %s",
			i.Architecture, f.launch.value.Type, strings.Join(f.architectures.value, ", "))
	}
	return good("both are for %s", i.Architecture)
}

func typesFor(architecture string) string {
	return "aws ec2 describe-instance-types --filters Name=processor-info.supported-architecture,Values=" +
		architecture + " --query InstanceTypes[].InstanceType --output text"
}

func checkClusterTag(f *facts) *result {
	if awsapi.IsNotFound(f.cluster.err) { // the name may be wrong
		return f.unseen(f.cluster.err)
	}
	key := "kubernetes.io/cluster/" + f.target.Cluster
	if f.managed() || f.target.NodeClass != nil {
		return good("%s adds %s=owned", f.maker(), key)
	}
	value, there := f.launch.value.Tags[key]
	if value == "owned" || value == "shared" {
		return good("%s=%s", key, value)
	}
	said := fmt.Sprintf("%s has no tag %s=owned", f.launch.value.From, key)
	if there {
		said = fmt.Sprintf("%s is %q, but must be owned", key, value)
	}
	if f.target.Instance != "" {
		return bad(fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=%s,Value=owned", f.target.Instance, key),
			"%s", said)
	}
	return maybe(f.newVersion(map[string]any{"TagSpecifications": f.tagged(key, "owned")}),
		"%s; the Auto Scaling group may add the tag", said)
}

// tagged are all tags of the launch template, with one more tag for its instances.
func (f *facts) tagged(key, value string) []types.LaunchTemplateTagSpecification {
	all := slices.Clone(f.launch.value.AllTags)
	i := slices.IndexFunc(all, func(t types.LaunchTemplateTagSpecification) bool {
		return t.ResourceType == types.ResourceTypeInstance
	})
	if i < 0 {
		i, all = len(all), append(all, types.LaunchTemplateTagSpecification{ResourceType: types.ResourceTypeInstance})
	}
	others := slices.DeleteFunc(slices.Clone(all[i].Tags), func(t types.Tag) bool { return aws.ToString(t.Key) == key })
	all[i].Tags = append(others, types.Tag{Key: &key, Value: &value})
	return all
}

func checkMetadata(f *facts) *result {
	l := f.launch.value
	if l.NoMetadata && f.target.Instance != "" {
		return bad("aws ec2 modify-instance-metadata-options --http-endpoint enabled --instance-id "+f.target.Instance,
			"the metadata service is off for %s", l.From)
	}
	if l.NoMetadata {
		options := map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": 2}
		maps.Copy(options, l.Metadata)
		options["HttpEndpoint"] = "enabled"
		return bad(f.newVersion(map[string]any{"MetadataOptions": options}),
			"the metadata service is off in %s", l.From)
	}
	if _, tagged := l.Tags["kubernetes.io/cluster/"+f.target.Cluster]; l.MetadataTags && (tagged || f.managed()) {
		options := map[string]any{}
		maps.Copy(options, l.Metadata)
		options["InstanceMetadataTags"] = "disabled"
		return bad(f.newVersion(map[string]any{"MetadataOptions": options}),
			"%s has tags in the metadata service: EC2 then refuses tags with a slash, such as kubernetes.io/cluster/%s",
			l.From, f.target.Cluster)
	}
	said := "the metadata service is on"
	if l.Tokens != "" {
		said += ", tokens are " + l.Tokens
	}
	if l.HopLimit == 1 {
		said += ", and pods cannot reach the service (hop limit 1)"
	}
	return good("%s", said)
}

func checkUserData(f *facts) *result {
	switch {
	case awsapi.IsNotFound(f.cluster.err): // the name may be wrong
		return f.unseen(f.cluster.err)
	case len(f.launch.value.UserData) == 0 && f.userDataElsewhere() != "":
		return good("%s writes it", f.userDataElsewhere())
	case len(f.launch.value.UserData) == 0 && f.target.NodeClass != nil:
		return bad(f.newVersion(nil), "%s has no user data, and Karpenter writes none for amiFamily Custom",
			f.launch.value.From)
	case len(f.launch.value.UserData) == 0:
		return bad(f.userDataOf(f.family()), "%s has no user data", f.launch.value.From)
	case f.unmergeable() != nil:
		return f.unmergeable()
	case f.userData.err != nil:
		return bad(f.userDataOf(f.family()), "%v", f.userData.err)
	}
	r, c := f.userData.value, f.cluster.value
	remedy := f.userDataOf(r.Family)
	var wrong []string
	for _, p := range r.Problems {
		if !p.Warning {
			wrong = append(wrong, p.String())
		}
	}
	if len(wrong) > 0 && f.target.NodeClass != nil {
		return bad("kubectl edit ec2nodeclass "+f.target.NodeClass.Name, "%s: %s", f.launch.value.From,
			strings.Join(wrong, "; "))
	}
	if len(wrong) > 0 {
		return bad(remedy, "as %s: %s", r.Family, strings.Join(wrong, "; "))
	}
	if by := f.userDataElsewhere(); by != "" {
		return good("merged with the user data of %s", by)
	}
	family := r.Family
	if f.target.NodeClass != nil {
		family = f.target.NodeClass.family()
	}
	if not := f.fits(family); not != nil {
		return not
	}
	for _, pair := range [][3]string{
		{"cluster", r.Cluster.Name, f.target.Cluster}, {"endpoint", r.Cluster.Endpoint, c.Endpoint},
		{"certificate authority", r.Cluster.CA, c.CA},
		{"service network", r.Cluster.CIDR, c.ServiceCIDR},
	} {
		if pair[1] != "" && pair[2] != "" && pair[1] != pair[2] {
			return bad(remedy, "the %s in the user data is %s, but should be %s", pair[0], pair[1], pair[2])
		}
	}
	return good("%s, for this cluster", family)
}
