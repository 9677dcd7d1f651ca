//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

type manifestsFlags struct {
	node    clustersetup.Node
	aws     awsapi.Options
	only    string
	awsAuth string
	family  string
	cni     string
}

// The values of --cni-permissions.
const cniByPodIdentity, cniOnNode = "pod-identity", "node"

func manifestsCommand() *cobra.Command {
	var f manifestsFlags
	cmd := newCommand("manifests", cobra.NoArgs, f.run)
	for _, m := range clustersetup.Table() {
		cmd.Long += fmt.Sprintf("\n  %-16s %s", m.ID, m.About)
	}
	f.family = "al2023"
	bind(cmd, targets{
		"cluster": &f.node.Cluster, "role": &f.node.Role, "windows": &f.node.Windows, "only": &f.only,
		"aws-auth": &f.awsAuth, "ami": &f.node.AMI, "instance-type": &f.node.InstanceType,
		"instance-profile": &f.node.Profile, "family": &f.family, "ssm": &f.node.SSM,
		"volume-size": &f.node.Volumes.Size, "kms-key": &f.node.Volumes.Key,
		"volume-initialization-rate": &f.node.Volumes.Rate,
	})
	choiceFlag(cmd, &f.cni, "cni-permissions", cniByPodIdentity, cniOnNode)
	forms(cmd, map[string]func(string) error{
		"cluster": awsnames.ClusterName.Check, "role": roleForm, "ami": awsnames.Image,
		"instance-type": awsnames.InstanceType.Check, "instance-profile": awsnames.ProfileName.Check,
		"only": func(id string) error { _, err := clustersetup.ByID(id); return err },
	})
	required(cmd, [2]string{"cluster", "set the "}, [2]string{"role", "set the "})
	policyFlag(cmd, func() (string, error) { return awsapi.Policy("EksnodeManifests", awsapi.SetupActions()) })
	awsFlags(cmd, &f.aws)
	return cmd
}

func (f *manifestsFlags) run(cmd *cobra.Command, _ []string) error {
	chosen := clustersetup.Table()
	if f.only != "" {
		one, err := clustersetup.ByID(f.only)
		if err != nil {
			return err
		}
		chosen = []clustersetup.Manifest{one}
	}
	if err := f.node.Volumes.Validate(); err != nil {
		return err
	}
	f.node.CNIOnNode = f.cni == cniOnNode
	if f.node.AMI == "" {
		if err := onlyWith(cmd, "ami", "instance-type", "family", "volume-size", "kms-key",
			"volume-initialization-rate"); err != nil {
			return err
		}
	}
	if f.node.Windows {
		if err := notWith(cmd, "windows", "family"); err != nil {
			return err
		}
	}
	var err error
	if f.node.AWSAuth, err = readAuth(cmd, f.awsAuth); err != nil {
		return err
	}
	if err := f.ask(cmd); err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), chosen)
}

func (f *manifestsFlags) print(w io.Writer, chosen []clustersetup.Manifest) error {
	for i, m := range chosen {
		text, err := m.Write(f.node)
		var blocked *clustersetup.BlockedError
		switch {
		case errors.Is(err, clustersetup.ErrNotNeeded) && f.only == "":
			continue
		case errors.Is(err, clustersetup.ErrNotNeeded):
			return fmt.Errorf("--only %s: %w for these nodes; launch-template and nodeclass need --ami, vpc-cni "+
				"needs --windows, cni-role needs --cni-permissions %s", f.only, err, cniByPodIdentity)
		case errors.As(err, &blocked) && f.only == "":
			text = clustersetup.Comment("Not possible: " + blocked.Reason)
		case err != nil:
			return err
		}
		if f.only == "" {
			text = fmt.Sprintf("# %s: %s\n%s", m.ID, m.About, text)
			if i > 0 {
				text = "\n" + text
			}
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// roleARN is the ARN of a role that is named by its name or ARN. A role that does not
// exist yet will have no path, and will be in the cluster's account.
func roleARN(ctx context.Context, a *awsapi.AWS, c awsapi.Cluster, role string) (string, error) {
	cluster := awsnames.Split(c.ARN)
	if awsnames.RoleName.Check(role) != nil || cluster.Account == "" {
		return role, nil
	}
	found, err := a.Role(ctx, role)
	if awsapi.IsNotFound(err) {
		return fmt.Sprintf("arn:%s:iam::%s:role/%s", cluster.Partition, cluster.Account, role), nil
	}
	return found.ARN, err
}

// ask reads the cluster from AWS, and what exists for the nodes.
func (f *manifestsFlags) ask(cmd *cobra.Command) error {
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	c, err := a.Cluster(cmd.Context(), f.node.Cluster)
	if err != nil {
		return err
	}
	if f.node.Role, err = roleARN(cmd.Context(), a, c, f.node.Role); err != nil {
		return err
	}
	r := &setupReader{ctx: cmd.Context(), aws: a, node: &f.node, only: f.only}
	if f.node.Subnets, err = r.untagged(c); err != nil {
		return err
	}
	f.node.Family = f.family
	if f.node.Windows {
		f.node.Family = "windows"
	}
	for _, known := range userdata.Families() {
		if known.ID == f.node.Family {
			f.node.KarpenterFamily = known.Karpenter
		}
	}
	if err := r.all(c); err != nil || f.node.AMI == "" || !r.wants("launch-template") {
		return err
	}
	f.node.UserData, err = userdata.Render(f.node.Family, "", userdata.Node{Cluster: describedCluster(c)})
	return err
}

// setupReader reads what exists for the chosen manifests.
type setupReader struct {
	ctx  context.Context
	aws  *awsapi.AWS
	node *clustersetup.Node
	only string
}

// wants says whether one of the manifests is printed.
func (r *setupReader) wants(ids ...string) bool {
	return r.only == "" || slices.Contains(ids, r.only)
}

// unread keeps a denial as a comment of manifests. Other errors end the command.
func (r *setupReader) unread(err error, ids ...string) error {
	if err == nil || !errors.As(err, new(*awsapi.DeniedError)) {
		return err
	}
	if r.node.Found.Unread == nil {
		r.node.Found.Unread = map[string][]string{}
	}
	for _, id := range ids {
		r.node.Found.Unread[id] = append(r.node.Found.Unread[id], err.Error())
	}
	return nil
}

// all reads everything for the chosen manifests. The roles of other accounts cannot
// be read.
func (r *setupReader) all(c awsapi.Cluster) error {
	r.node.Found.Cluster = c
	role, account := awsnames.Split(r.node.Role), awsnames.Split(c.ARN).Account
	foreign := account != "" && role.Account != account
	name := role.Resource[strings.LastIndex(role.Resource, "/")+1:]
	ipv6 := c.IPFamily == "ipv6" && (r.wants("cni-role") || !foreign && r.node.CNIOnNode && r.wants("policies"))
	for _, read := range []struct {
		needed bool
		from   func() error
		by     []string // the manifests that read it
	}{
		{!foreign && r.wants("role", "policies", "access-entry", "launch-template"),
			func() error { return r.role(name) }, []string{"role", "policies", "access-entry"}},
		{!foreign && r.wants("role"), func() error { return r.profile(name) }, []string{"role"}},
		{!foreign && r.wants("access-entry", "aws-auth") && c.AuthenticationMode != "CONFIG_MAP", r.entry,
			[]string{"access-entry", "aws-auth"}},
		{!r.node.CNIOnNode && r.wants("cni-role"), r.cni, []string{"cni-role"}},
		{ipv6, func() error { return r.ipv6Policy(role.Partition, account) }, []string{"cni-role", "policies"}},
	} {
		if read.needed {
			if err := r.unread(read.from(), read.by...); err != nil {
				return err
			}
		}
	}
	if r.node.AMI == "" || !r.wants("launch-template", "nodeclass") {
		return nil
	}
	return r.image()
}

// present keeps what was read. What does not exist is empty, and no error.
func present[T any](to **T, value T, err error) error {
	if err != nil && !awsapi.IsNotFound(err) {
		return err
	}
	*to = &value
	return nil
}

func (r *setupReader) role(name string) error {
	role, err := r.aws.Role(r.ctx, name)
	if err == nil && role.ARN != r.node.Role {
		return fmt.Errorf("--role: the account has no role %s; the role %s is %s", r.node.Role, name, role.ARN)
	}
	if kept := present(&r.node.Found.Role, role, err); kept != nil || err != nil {
		return kept
	}
	r.node.Found.Profiles, err = r.aws.ProfilesOf(r.ctx, name)
	return r.unread(err, "role")
}

// profile reads the instance profile that the role should have, unless the role has
// it.
func (r *setupReader) profile(role string) error {
	name := cmp.Or(r.node.Profile, role)
	if has := r.node.Found.Profiles; slices.Contains(has, name) || r.node.Profile == "" && len(has) > 0 {
		return nil
	}
	p, err := r.aws.Profile(r.ctx, name)
	return present(&r.node.Found.Profile, p, err)
}

func (r *setupReader) entry() error {
	e, err := r.aws.AccessEntry(r.ctx, r.node.Cluster, r.node.Role)
	return present(&r.node.Found.Entry, e, err)
}

// cni reads how the VPC CNI gets its permissions.
func (r *setupReader) cni() error {
	addons, err := r.aws.Addons(r.ctx, r.node.Cluster)
	if err != nil {
		return err
	}
	cni := &clustersetup.CNI{}
	for _, addon := range addons {
		switch addon.Name {
		case "vpc-cni":
			cni.Addon, cni.IRSA, cni.Configuration = true, addon.Role, addon.Configuration
		case "eks-pod-identity-agent":
			cni.Agent = true
		}
	}
	r.node.Found.CNI = cni
	if cni.IRSA != "" || r.node.Found.NoPodIdentity() != "" {
		return nil
	}
	associations, err := r.aws.PodIdentities(r.ctx, r.node.Cluster, "kube-system", "aws-node")
	if err != nil {
		return err
	}
	if len(associations) > 0 { // a service account has at most one
		cni.PodIdentity = *associations[0].RoleArn
		return nil
	}
	role, err := r.aws.Role(r.ctx, clustersetup.CNIRole)
	return present(&r.node.Found.CNIRole, role, err)
}

func (r *setupReader) ipv6Policy(partition, account string) error {
	arn := "arn:" + partition + ":iam::" + account + ":policy/" + clustersetup.IPv6Policy
	text, err := r.aws.PolicyDocument(r.ctx, arn)
	return present(&r.node.Found.IPv6Policy, text, err)
}

// image reads the AMI. A rate needs the snapshots of one AMI, so a parameter then
// gets its present version.
func (r *setupReader) image() error {
	if r.node.Volumes.Rate != 0 {
		pinned, err := r.aws.Pinned(r.ctx, r.node.AMI)
		if err != nil {
			return err
		}
		r.node.AMI = pinned
	}
	i, err := r.aws.Image(r.ctx, r.node.AMI)
	if err != nil {
		return err
	}
	r.node.Found.Image = &i
	return nil
}

// untagged lists the subnets that need the tag of the cluster: clusters up to 1.18
// require the tag. A tag that exists, of any value, stays.
func (r *setupReader) untagged(c awsapi.Cluster) ([]string, error) {
	if minor, known := version.Minor(c.Version); !known || minor > 18 {
		return nil, nil
	}
	all, err := r.aws.Subnets(r.ctx, c.Subnets)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, s := range all {
		if _, tagged := s.Tags["kubernetes.io/cluster/"+c.Name]; !tagged {
			list = append(list, s.ID)
		}
	}
	return list, nil
}
