//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

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
	var denied *awsapi.DeniedError
	if err == nil || !errors.As(err, &denied) {
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
	found := &r.node.Found
	found.AuthenticationMode, found.AutoMode, found.NoPodIdentity = c.AuthenticationMode, c.AutoMode, noPodIdentity(c)
	found.Account = awsnames.Split(c.ARN).Account
	role := awsnames.Split(r.node.Role)
	foreign := found.Account != "" && role.Account != found.Account
	name := role.Resource[strings.LastIndex(role.Resource, "/")+1:]
	for _, read := range []struct {
		needed bool
		from   func() error
	}{
		{!foreign && r.wants("role", "policies", "access-entry", "launch-template"), func() error { return r.role(name) }},
		{!foreign && r.wants("role"), func() error { return r.profile(name) }},
		{!foreign && r.wants("access-entry", "aws-auth") && c.AuthenticationMode != "CONFIG_MAP", r.entry},
		{!r.node.CNIOnNode && r.wants("cni-role"), r.cni},
		{r.node.IPv6 && (r.wants("cni-role") || !foreign && r.node.CNIOnNode && r.wants("policies")), func() error { return r.ipv6Policy(role.Partition) }},
		{r.node.AMI != "" && r.wants("launch-template", "nodeclass"), r.image},
	} {
		if !read.needed {
			continue
		}
		if err := read.from(); err != nil {
			return err
		}
	}
	return nil
}

// noPodIdentity says why a cluster has no EKS Pod Identity
// (https://docs.aws.amazon.com/eks/latest/userguide/pod-identities.html).
func noPodIdentity(c awsapi.Cluster) string {
	if c.Outpost {
		return "the cluster is on an Outpost"
	}
	if minor, known := version.Minor(c.Version); known && minor < 24 {
		return "Kubernetes " + c.Version + " is older than 1.24"
	}
	return ""
}

func (r *setupReader) role(name string) error {
	readers := []string{"role", "policies", "access-entry"}
	role, err := r.aws.Role(r.ctx, name)
	if awsapi.IsNotFound(err) {
		r.node.Found.Role = &clustersetup.Role{}
		return nil
	}
	if err != nil {
		return r.unread(err, readers...)
	}
	if role.ARN != r.node.Role {
		return fmt.Errorf("--role: the account has no role %s; the role %s is %s", r.node.Role, name, role.ARN)
	}
	profiles, err := r.aws.ProfilesOf(r.ctx, name)
	r.node.Found.Role = &clustersetup.Role{Exists: true, Trust: role.Trust, Policies: role.Policies, Profiles: profiles}
	return r.unread(err, "role")
}

// profile reads the instance profile that the role should have, unless the role has
// it.
func (r *setupReader) profile(role string) error {
	name := r.node.Profile
	name = cmp.Or(name, role)
	if there := r.node.Found.Role; there != nil && (slices.Contains(there.Profiles, name) || r.node.Profile == "" && len(there.Profiles) > 0) {
		return nil
	}
	p, err := r.aws.Profile(r.ctx, name)
	if awsapi.IsNotFound(err) {
		r.node.Found.Profile = &clustersetup.Profile{}
		return nil
	}
	if err != nil {
		return r.unread(err, "role")
	}
	r.node.Found.Profile = &clustersetup.Profile{Exists: true}
	if p.Role != nil {
		r.node.Found.Profile.Role = p.Role.Name
	}
	return nil
}

func (r *setupReader) entry() error {
	e, err := r.aws.AccessEntry(r.ctx, r.node.Cluster, r.node.Role)
	if err != nil && !awsapi.IsNotFound(err) {
		return r.unread(err, "access-entry", "aws-auth")
	}
	r.node.Found.Entry = &clustersetup.Entry{Type: e.Type, Username: e.Username}
	return nil
}

// cni reads how the VPC CNI gets its permissions.
func (r *setupReader) cni() error {
	const id = "cni-role"
	addons, err := r.aws.Addons(r.ctx, r.node.Cluster)
	if err != nil {
		return r.unread(err, id)
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
	if cni.IRSA != "" || r.node.Found.NoPodIdentity != "" {
		return nil
	}
	associations, err := r.aws.PodIdentities(r.ctx, r.node.Cluster, "kube-system", "aws-node")
	if err != nil {
		return r.unread(err, id)
	}
	if len(associations) > 0 { // a service account has at most one
		cni.PodIdentity = *associations[0].RoleArn
		return nil
	}
	role, err := r.aws.Role(r.ctx, clustersetup.CNIRole)
	if err != nil && !awsapi.IsNotFound(err) {
		return r.unread(err, id)
	}
	r.node.Found.CNIRole = &clustersetup.Role{Exists: err == nil, Trust: role.Trust, Policies: role.Policies}
	return nil
}

func (r *setupReader) ipv6Policy(partition string) error {
	arn := "arn:" + partition + ":iam::" + r.node.Found.Account + ":policy/" + clustersetup.IPv6Policy
	text, err := r.aws.PolicyDocument(r.ctx, arn)
	if err != nil && !awsapi.IsNotFound(err) {
		return r.unread(err, "cni-role", "policies")
	}
	r.node.Found.IPv6Policy = &clustersetup.Policy{Exists: err == nil, Document: text}
	return nil
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
	image := &clustersetup.Image{ID: i.ID, RootDevice: i.RootDevice}
	for _, d := range i.Devices {
		if d.Snapshot != "" {
			image.Volumes = append(image.Volumes, clustersetup.Volume{Device: d.Name, Snapshot: d.Snapshot, Size: d.Size, Encrypted: d.Encrypted})
		}
	}
	r.node.Found.Image = image
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
