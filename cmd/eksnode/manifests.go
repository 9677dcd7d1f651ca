//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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
	var list strings.Builder
	for _, m := range clustersetup.Table() {
		fmt.Fprintf(&list, "  %-16s %s\n", m.ID, m.About)
	}
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the resources that self-managed nodes need to join",
		Long: `Manifests reads the cluster from AWS and prints input for kubectl and the AWS CLI.
It changes nothing. It reads what exists, and prints only what is missing. Without
--only, it prints all manifests with headings; with --only, one manifest to pipe.
A manifest that would not work, or would take access away, is a comment with the
reason; with --only, it is an error.

The VPC CNI gets a role of its own by EKS Pod Identity, so that pods on the nodes
do not share its permissions. A role that it has already stays. With
--cni-permissions node, the nodes' role gets the permissions.

No manifest replaces resources that exist. With --aws-auth, the current ConfigMap
is merged with the new entry, and the API server refuses the result if the
ConfigMap has changed in between. Without --aws-auth, the API server refuses the
manifest where the ConfigMap exists.

Manifests:
` + strings.TrimRight(list.String(), "\n"),
		Example: `  # Print all manifests
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node

  # Add the node role to aws-auth
  kubectl get configmap aws-auth -n kube-system -o yaml |
    eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only aws-auth --aws-auth - |
    kubectl apply -f -

  # Make the role, its policies and its instance profile
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only role | sh
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only policies | sh

  # Print the launch template
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only launch-template --ami ami-0123456789abcdef0 --instance-profile nodes

  # Print Karpenter's EC2NodeClass, with the AMI of an SSM parameter
  eksnode manifests --cluster my-cluster --role arn:aws:iam::123456789012:role/node --only nodeclass --ami resolve:ssm:/eksnode/debian/1.36/amd64`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.node.Cluster, "cluster", "", clusterHelp)
	cmd.Flags().StringVar(&f.node.Role, "role", "", roleHelp)
	cmd.Flags().BoolVar(&f.node.Windows, "windows", false, "nodes run Windows")
	cmd.Flags().StringVar(&f.only, "only", "", "manifest to print, such as aws-auth (default: all)")
	cmd.Flags().StringVar(&f.awsAuth, "aws-auth", "", "YAML file with the current ConfigMap aws-auth, from kubectl; - is standard input")
	cmd.Flags().StringVar(&f.node.AMI, "ami", "", "AMI ID for the launch template and the EC2NodeClass, or resolve:ssm:PARAMETER")
	cmd.Flags().StringVar(&f.node.InstanceType, "instance-type", "", "instance type for the launch template")
	cmd.Flags().StringVar(&f.node.Profile, "instance-profile", "", "name of the instance profile (default: the role's, or the role's name)")
	cmd.Flags().StringVar(&f.family, "family", "al2023", "image family for the launch template and the EC2NodeClass; windows with --windows")
	choiceFlag(cmd, &f.cni, "cni-permissions", "where the VPC CNI gets its permissions", cniByPodIdentity, cniOnNode)
	cmd.Flags().BoolVar(&f.node.SSM, "ssm", false, "also attach the policy for Session Manager")
	cmd.Flags().IntVar(&f.node.Volumes.Size, "volume-size", 0, "size of the root volume in GiB (default: the AMI's, at least 20)")
	cmd.Flags().StringVar(&f.node.Volumes.Key, "kms-key", "", "KMS key for the root volume (default: the account's key for EBS)")
	cmd.Flags().IntVar(&f.node.Volumes.Rate, "volume-initialization-rate", 0, "rate from 100 to 300 MiB/s at which EBS loads the AMI's snapshots")
	forms(cmd, map[string]func(string) error{
		"cluster": awsnames.ClusterName().Check, "role": roleForm, "ami": awsnames.Image,
		"instance-type": awsnames.InstanceType().Check, "instance-profile": awsnames.ProfileName().Check,
		"only": func(id string) error { _, err := clustersetup.ByID(id); return err },
	})
	required(cmd, [2]string{"cluster", "set the " + clusterHelp}, [2]string{"role", "set the " + roleHelp})
	policyFlag(cmd, "", func() (string, error) { return awsapi.Policy("EksnodeManifests", awsapi.SetupActions()) })
	awsFlags(cmd, &f.aws)
	return cmd
}

func (f *manifestsFlags) run(cmd *cobra.Command) error {
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
		if err := onlyWith(cmd, "ami", "instance-type", "family", "volume-size", "kms-key", "volume-initialization-rate"); err != nil {
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
			return fmt.Errorf("--only %s: %w for these nodes; launch-template and nodeclass need --ami, vpc-cni needs --windows, cni-role needs --cni-permissions %s", f.only, err, cniByPodIdentity)
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
	if awsnames.RoleName().Check(role) != nil || cluster.Account == "" {
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
