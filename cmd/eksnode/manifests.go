//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// manifestsFlags holds the flags of `eksnode manifests`.
type manifestsFlags struct {
	node    clustersetup.Node
	aws     awsapi.Options
	only    string
	awsAuth string
	family  string
}

func manifestsCommand() *cobra.Command {
	var f manifestsFlags
	var list strings.Builder
	for _, m := range clustersetup.Table() {
		fmt.Fprintf(&list, "  %-16s %s\n", m.ID, m.About)
	}
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the resources that self-managed nodes need to join",
		Long: `Manifests reads the cluster from AWS and prints input for kubectl and the AWS CLI.
It changes nothing. Without --only, it prints all manifests with headings; with
--only, one manifest to pipe. No manifest replaces resources that exist. With
--aws-auth, the current ConfigMap is merged with the new entry, and the API server
refuses the result if the ConfigMap has changed in between. Without --aws-auth,
the API server refuses the manifest where the ConfigMap exists.

Manifests:
` + strings.TrimRight(list.String(), "\n"),
		Example: `  # Print all manifests
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node

  # Add the node role to aws-auth
  kubectl get configmap aws-auth -n kube-system -o yaml |
    eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only aws-auth --aws-auth - |
    kubectl apply -f -

  # Print the launch template
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only launch-template --ami ami-0123456789abcdef0 --instance-profile nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.node.Cluster, "cluster", "", "cluster name")
	cmd.Flags().StringVar(&f.node.Role, "role", "", "ARN of the node IAM role")
	cmd.Flags().BoolVar(&f.node.Windows, "windows", false, "nodes run Windows")
	cmd.Flags().StringVar(&f.only, "only", "", "manifest to print, such as aws-auth (default: all)")
	cmd.Flags().StringVar(&f.awsAuth, "aws-auth", "", "YAML file with the current ConfigMap aws-auth, from kubectl; - is standard input")
	cmd.Flags().StringVar(&f.node.AMI, "ami", "", "AMI ID for the launch template")
	cmd.Flags().StringVar(&f.node.InstanceType, "instance-type", "", "instance type for the launch template")
	cmd.Flags().StringVar(&f.node.Profile, "instance-profile", "", "name of the instance profile for the launch template")
	cmd.Flags().StringVar(&f.family, "family", "al2023", "image family for the user data in the launch template; windows with --windows")
	awsFlags(cmd, &f.aws)
	return cmd
}

func (f *manifestsFlags) run(cmd *cobra.Command) error {
	chosen := clustersetup.Table()
	if f.only != "" {
		one, err := clustersetup.ByID(f.only)
		if err != nil {
			return fmt.Errorf("--only: %w", err)
		}
		chosen = []clustersetup.Manifest{one}
	}
	if err := f.node.Validate(); err != nil {
		return err
	}
	if f.node.AMI == "" {
		if err := onlyWith(cmd, "ami", "instance-type", "instance-profile", "family"); err != nil {
			return err
		}
	}
	if err := wellFormed(given{"--role", f.node.Role, awsnames.RoleARN().Check}, given{"--ami", f.node.AMI, awsnames.Image},
		given{"--instance-type", f.node.InstanceType, awsnames.InstanceType().Check}, given{"--instance-profile", f.node.Profile, awsnames.ProfileName().Check}); err != nil {
		return err
	}
	if f.awsAuth != "" {
		text, err := readInput(cmd, f.awsAuth)
		if err != nil {
			return fmt.Errorf("reading aws-auth: %w", err)
		}
		f.node.AWSAuth = append([]byte{}, text...)
	}
	if err := f.ask(cmd); err != nil {
		return err
	}
	for i, m := range chosen {
		text, err := m.Write(f.node)
		switch {
		case errors.Is(err, clustersetup.ErrNotNeeded) && f.only == "":
			continue
		case errors.Is(err, clustersetup.ErrNotNeeded):
			return fmt.Errorf("--only %s: %w for these nodes; launch-template needs --ami, vpc-cni needs --windows", f.only, err)
		case err != nil:
			return err
		}
		if f.only == "" {
			text = fmt.Sprintf("# %s: %s\n%s", m.ID, m.About, text)
			if i > 0 {
				text = "\n" + text
			}
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	return nil
}

// ask reads the cluster from AWS.
func (f *manifestsFlags) ask(cmd *cobra.Command) error {
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	c, err := a.Cluster(cmd.Context(), f.node.Cluster)
	if err != nil {
		return err
	}
	f.node.IPv6 = c.IPFamily == "ipv6"
	f.node.SecurityGroups = []string{c.ClusterSecurityGroup}
	if f.node.Subnets, err = untagged(cmd.Context(), a, c); err != nil {
		return err
	}
	if f.node.AMI == "" {
		return nil
	}
	family := f.family
	if f.node.Windows {
		family = "windows"
	}
	f.node.UserData, err = userdata.Render(family, "", userdata.Node{Cluster: describedCluster(c)})
	return err
}

// untagged lists the subnets that need the tag of the cluster: clusters up to 1.18
// require the tag. A tag that exists, of any value, stays.
func untagged(ctx context.Context, a *awsapi.AWS, c awsapi.Cluster) ([]string, error) {
	_, minor, _ := strings.Cut(c.Version, ".")
	if n, err := strconv.Atoi(minor); err != nil || n > 18 {
		return nil, nil
	}
	all, err := a.Subnets(ctx, c.Subnets)
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
