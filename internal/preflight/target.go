package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// fitsAccount returns an error when the role belongs to another account: IAM shows
// only roles of the caller's account, and instances can use no other.
func (t Target) fitsAccount(account string) error {
	if of := awsnames.Split(t.Role).Account; of != "" && account != "" && of != account {
		return fmt.Errorf("role: %s belongs to the account %s, but the credentials are for %s; instances can use only "+
			"roles of their own account", t.Role, of, account)
	}
	return nil
}

// named is what the target names, in words and as flags.
func (t Target) named() (said string, flags []string) {
	switch {
	case t.Instance != "":
		return "instance " + t.Instance, []string{"--instance", t.Instance}
	case t.Template != "":
		return fmt.Sprintf("launch template %s, version %s", t.Template, t.TemplateVersion),
			[]string{"--launch-template", t.Template, "--launch-template-version", "'" + t.TemplateVersion + "'"}
	case t.NodeGroup != "":
		return "node group " + t.NodeGroup, []string{"--nodegroup", t.NodeGroup}
	case t.NodeClass != nil:
		return "EC2NodeClass " + t.NodeClass.Name, []string{"--nodeclass", show.ShellWord(t.NodeClass.file())}
	}
	return "image " + t.AMI, []string{"--ami", t.AMI}
}

func (t Target) String() string {
	said, _ := t.named()
	if t.Role != "" {
		said += ", role " + t.Role
	}
	return said
}

func (t Target) command(more string) string {
	_, flags := t.named()
	words := append([]string{"eksnode preflight --cluster", t.Cluster}, flags...)
	for _, flag := range [][2]string{
		{"--role", t.Role}, {"--subnet", strings.Join(t.Subnets, ",")}, {"--kubelet-version", t.Kubelet},
	} {
		if flag[1] != "" {
			words = append(words, flag[0], flag[1])
		}
	}
	return strings.TrimSpace(strings.Join(append(words, more), " "))
}

// selected is what the selectors of an EC2NodeClass select.
type selected struct {
	subnets, groups fact[[]string]
	image           fact[awsapi.Image]
	// found says what each selector found, for evidence. nothing are the terms that
	// found nothing, and empty the selectors that found nothing at all.
	found, nothing, empty []string
}

func words(t term) string {
	var list []string
	for _, pair := range [][2]string{{"id", t.ID}, {"name", t.Name}, {"owner", t.Owner},
		{"ssmParameter", t.SSMParameter}} {
		if pair[1] != "" {
			list = append(list, pair[0]+" "+pair[1])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.Tags)) {
		list = append(list, "tag "+key+"="+t.Tags[key])
	}
	return printable(strings.Join(list, ", "))
}

func selector(t term) awsapi.Selector {
	return awsapi.Selector{ID: t.ID, Name: t.Name, Owner: t.Owner, Tags: t.Tags}
}

func (f *facts) selectedBy(ctx context.Context, a *awsapi.AWS, c *NodeClass) selected {
	var s selected
	s.subnets = s.resolve("spec.subnetSelectorTerms", "subnet", c.Subnets, func(t term) ([]string, error) {
		return a.SelectSubnets(ctx, selector(t))
	})
	s.groups = s.resolve("spec.securityGroupSelectorTerms", "security group", c.Groups, func(t term) ([]string, error) {
		return a.SelectSecurityGroups(ctx, selector(t))
	})
	if c.publisher() != "" {
		s.image.absent = true
		return s
	}
	images := map[string]awsapi.Image{}
	ids := s.resolve("spec.amiSelectorTerms", "image", c.AMIs, func(t term) ([]string, error) {
		found, err := selectImages(ctx, a, t)
		var ids []string
		for _, i := range found {
			ids = append(ids, i.ID)
			images[i.ID] = i
		}
		return ids, err
	})
	s.image = after(ids, func([]string) fact[awsapi.Image] {
		return fact[awsapi.Image]{value: newest(images, time.Now())}
	})
	return s
}

// resolve resolves the terms of a selector, without duplicates and in order.
func (s *selected) resolve(field, kind string, terms []term, look func(term) ([]string, error)) fact[[]string] {
	var found, nothing []string
	for i, t := range terms {
		ids, err := look(t)
		if err != nil {
			return fact[[]string]{err: fmt.Errorf("resolving %s[%d]: %w", field, i, err)}
		}
		if len(ids) == 0 {
			nothing = append(nothing, fmt.Sprintf("%s[%d] selects no %s: %s", field, i, kind, words(t)))
		}
		found = append(found, ids...)
	}
	if len(found) == 0 {
		s.empty = append(s.empty, nothing...)
		return fact[[]string]{err: errors.New(strings.Join(nothing, "; "))}
	}
	s.nothing = append(s.nothing, nothing...)
	found = unique(found)
	s.found = append(s.found, strings.Join(found, " "))
	return fact[[]string]{value: found}
}

// selectImages finds the images of a term, as Karpenter does. A parameter names one.
func selectImages(ctx context.Context, a *awsapi.AWS, t term) ([]awsapi.Image, error) {
	if t.SSMParameter == "" {
		return a.SelectImages(ctx, selector(t))
	}
	id, err := a.Parameter(ctx, t.SSMParameter)
	if err != nil {
		if awsapi.IsNotFound(err) {
			err = nil // Karpenter ignores the term
		}
		return nil, err
	}
	return a.SelectImages(ctx, awsapi.Selector{ID: id})
}

// SelectImages returns the IDs of the images that a class selects in a region. With an
// alias, the images are EKS's own: then the result is empty, and eks says which ones.
func (c *NodeClass) SelectImages(ctx context.Context, a *awsapi.AWS) (ids []string, eks string, err error) {
	if eks = c.publisher(); eks != "" {
		return nil, eks, nil
	}
	for _, t := range c.AMIs {
		found, err := selectImages(ctx, a, t)
		if err != nil {
			return nil, "", fmt.Errorf("resolving the images of the EC2NodeClass %s: %w", c.Name, err)
		}
		ids = append(ids, show.Each(found, func(i awsapi.Image) string { return i.ID })...)
	}
	return ids, "", nil
}

// newest is the image that Karpenter prefers: the newest that is not deprecated.
func newest(images map[string]awsapi.Image, now time.Time) awsapi.Image {
	isOld := func(i awsapi.Image) bool { return !i.Deprecated.IsZero() && !i.Deprecated.After(now) }
	return slices.MinFunc(slices.Collect(maps.Values(images)), func(x, y awsapi.Image) int {
		if isOld(x) != isOld(y) {
			return map[bool]int{true: 1, false: -1}[isOld(x)]
		}
		return cmp.Or(y.Created.Compare(x.Created), strings.Compare(x.ID, y.ID))
	})
}

func checkSelectors(f *facts) *result {
	edit := "kubectl get ec2nodeclass " + f.target.NodeClass.Name + " -o yaml"
	switch unseen := f.unseen(f.selected.subnets.err, f.selected.groups.err, f.selected.image.err); {
	case len(f.selected.empty) > 0:
		r := bad(edit, "%s", strings.Join(f.selected.empty, "; "))
		if f.subnets.err != nil { // the checks of the subnets cannot run
			return r.because(causeOf(f.subnets.err))
		}
		return r
	case unseen != nil:
		return unseen
	case len(f.selected.nothing) > 0:
		return maybe(edit, "%s; Karpenter uses what the other terms select", strings.Join(f.selected.nothing, "; "))
	}
	return good("%s", strings.Join(f.selected.found, "; "))
}

// checkClass checks the settings of an EC2NodeClass that EC2 refuses, or that do
// something else than they seem to.
func checkClass(f *facts) *result {
	c := f.target.NodeClass
	edit := "kubectl edit ec2nodeclass " + c.Name
	wrong, doubtful := f.deviceFaults(c)
	alias := c.alias()
	switch n, ok := version.Minor(f.cluster.value.Version); {
	case ok && strings.HasPrefix(alias, "al2@") && n >= 33:
		wrong = append(wrong, fmt.Sprintf("the alias %s has no images for Kubernetes %s; the last are for 1.32", alias,
			f.cluster.value.Version))
	case ok && strings.HasPrefix(alias, "windows2025@") && n < 35:
		wrong = append(wrong, fmt.Sprintf("the alias %s has no images for Kubernetes %s; the first are for 1.35", alias,
			f.cluster.value.Version))
	}
	for _, fault := range c.kubeletFaults() {
		doubtful = append(doubtful, fault+" (only Karpenter after 1.14 accepts all fields of the kubelet)")
	}
	if c.Version == "v1beta1" {
		doubtful = append(doubtful, "karpenter.k8s.aws/v1beta1 needs Karpenter 0.32 to 1.0; newer versions "+
			"know only v1")
	}
	switch {
	case len(wrong) > 0:
		return bad(edit, "%s", strings.Join(append(wrong, doubtful...), "; "))
	case len(doubtful) > 0:
		return maybe(edit, "%s", strings.Join(doubtful, "; "))
	}
	return good("%s, family %s", c.Version, cmp.Or(c.AMIFamily, "of the alias "+alias))
}

// deviceFaults checks the block devices against the image and the rules of EC2
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html).
func (f *facts) deviceFaults(c *NodeClass) (wrong, doubtful []string) {
	root := f.image.value.RootDevice
	onRoot := root == ""
	for i, d := range c.Devices {
		at := fmt.Sprintf("blockDeviceMappings[%d]", i)
		isRoot := root != "" && d.Name == root
		onRoot = onRoot || isRoot
		if d.Name == "" {
			wrong = append(wrong, at+" has no deviceName")
		}
		e := d.EBS
		if e == nil {
			continue
		}
		plain := e.Encrypted != nil && !*e.Encrypted
		switch {
		case e.Key != "" && (e.Encrypted == nil || plain):
			wrong = append(wrong, at+" has a kmsKeyID, and EC2 refuses the key unless encrypted is true")
		case isRoot && plain && f.image.value.Encrypted:
			wrong = append(wrong, at+" sets encrypted to false, but the image is encrypted")
		}
		if isRoot && e.Snapshot != "" && !slices.Contains(f.image.value.Snapshots, e.Snapshot) {
			wrong = append(wrong, fmt.Sprintf("%s has the snapshot %s, but EC2 starts %s only from %s", at,
				printable(e.Snapshot), root, strings.Join(f.image.value.Snapshots, ", ")))
		}
		if e.IOPS > 0 && !slices.Contains([]string{"", "gp3", "io1", "io2"}, e.Type) {
			wrong = append(wrong, fmt.Sprintf("%s sets iops, which the volume type %s does not have", at, e.Type))
		}
		if e.Throughput > 0 && !slices.Contains([]string{"", "gp3"}, e.Type) {
			wrong = append(wrong, fmt.Sprintf("%s sets throughput, which the volume type %s does not have", at, e.Type))
		}
	}
	if len(c.Devices) > 0 && !onRoot {
		doubtful = append(doubtful, fmt.Sprintf("no block device has the name %s of the image's root device: the root "+
			"volume keeps the image's size, and %s is an additional empty disk", root, c.Devices[0].Name))
	}
	return wrong, doubtful
}
