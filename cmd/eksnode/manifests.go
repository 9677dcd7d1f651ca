//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
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
