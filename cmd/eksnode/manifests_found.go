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
