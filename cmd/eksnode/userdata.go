//go:build !agent

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

func userdataCommand() *cobra.Command {
	var families strings.Builder
	for _, family := range userdata.Families() {
		fmt.Fprintf(&families, "  %-13s %s\n", family.ID, family.About)
	}
	cmd := &cobra.Command{
		Use:   "userdata",
		Short: "Write and check user data of every image family",
		Long: `With this user data, an instance joins a cluster at first boot.

Families:
` + strings.TrimRight(families.String(), "\n"),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(renderCommand(), checkCommand())
	return cmd
}

// rendering are the flags of `eksnode userdata render`.
type rendering struct {
	family, carrying string
	description      string
	output           string
	// cluster is the name of an EKS cluster to describe; empty with description.
	cluster string
	node    userdata.Node
	aws     awsapi.Options
}

func renderCommand() *cobra.Command {
	var f rendering
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Write user data for an image family",
		Long: `The file of --description describes cluster and node, the same for all families.
With --cluster, the cluster is read from AWS and flags describe the node.`,
		Example: `  eksnode userdata render --family al2023 --description node.yaml
  eksnode userdata render --family bottlerocket --cluster my-cluster --label team=a
  eksnode userdata render --family karpenter --carrying al2023 --description node.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.family, "family", "", "image family: "+strings.Join(userdata.IDs(), ", "))
	cmd.Flags().StringVar(&f.carrying, "carrying", "al2023", "image family of the nodes, for karpenter and eksctl")
	cmd.Flags().StringVar(&f.description, "description", "", "YAML or JSON file with cluster and node; - is standard input")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", clusterHelp+" to read from AWS, instead of --description")
	cmd.Flags().StringToStringVar(&f.node.Labels, "label", nil, "node labels, with --cluster")
	cmd.Flags().StringSliceVar(&f.node.Taints, "taint", nil, "node taints as key=value:Effect, with --cluster")
	cmd.Flags().IntVar(&f.node.MaxPods, "max-pods", 0, "maximum number of pods on the node, with --cluster (default: from the instance type)")
	cmd.Flags().StringVar(&f.node.AMI, "ami", "", "AMI ID for karpenter and eksctl, with --cluster")
	cmd.Flags().StringVar(&f.node.Role, "role", "", roleHelp+" for karpenter, with --cluster")
	forms(cmd, map[string]func(string) error{
		"cluster": awsnames.ClusterName().Check, "ami": awsnames.ImageID().Check, "role": roleForm,
		"family": func(id string) error { _, err := userdata.ByID(id); return err },
	})
	required(cmd, [2]string{"family", "use one of " + strings.Join(userdata.IDs(), ", ")})
	formatFlag(cmd, &f.output, "text", "json")
	awsFlags(cmd, &f.aws)
	return cmd
}

func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return surface.ReadAll("standard input", standardInput(cmd))
	}
	return surface.ReadFile(name)
}

// readAuth reads the ConfigMap aws-auth, which is nil without a name.
func readAuth(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	text, err := readInput(cmd, name)
	if err != nil {
		return nil, fmt.Errorf("reading aws-auth: %w", err)
	}
	return append([]byte{}, text...), nil
}

func (f rendering) run(cmd *cobra.Command) error {
	if f.cluster == "" {
		if err := onlyWith(cmd, "cluster", "label", "taint", "max-pods", "ami", "role"); err != nil {
			return err
		}
	}
	node, err := f.describe(cmd)
	if err != nil {
		return err
	}
	text, err := userdata.Render(f.family, f.carrying, node)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return writeJSON(cmd.OutOrStdout(), map[string]string{"family": f.family, "user_data": string(text)})
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// describe reads the description, or describes the cluster.
func (f rendering) describe(cmd *cobra.Command) (userdata.Node, error) {
	switch {
	case f.description == "" && f.cluster == "":
		return userdata.Node{}, errors.New("--description is missing; name the file with cluster and node, or an EKS cluster with --cluster")
	case f.description != "" && f.cluster != "":
		return userdata.Node{}, errors.New("--description and --cluster exclude each other; use one of them")
	case f.description != "":
		text, err := readInput(cmd, f.description)
		if err != nil {
			return userdata.Node{}, fmt.Errorf("reading the description: %w", err)
		}
		node, err := userdata.ParseNode(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.description, err)
		}
		return node, err
	}
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return userdata.Node{}, err
	}
	c, err := a.Cluster(cmd.Context(), f.cluster)
	if err != nil {
		return userdata.Node{}, err
	}
	n := f.node
	n.Role = n.Role[strings.LastIndex(n.Role, "/")+1:] // of an ARN
	n.Region = a.Region
	n.Cluster = describedCluster(c)
	return n, nil
}

// describedCluster is a cluster as user data needs it.
func describedCluster(c awsapi.Cluster) userdata.Cluster {
	told := userdata.Cluster{Name: c.Name, Endpoint: c.Endpoint, CA: c.CA, CIDR: c.ServiceCIDR}
	if c.Outpost {
		told.Outpost = c.ID
	}
	return told
}

func checkCommand() *cobra.Command {
	var family, output string
	var merged bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Report errors in user data",
		Long: `Check prints each error with its line and field. FILE - is standard input. The
exit code is 0 without errors, 1 with errors, and 2 when the family is unknown or
the file cannot be read.`,
		Example: "  eksnode userdata check user-data.txt\n  eksnode userdata check user-data.txt --output sarif",
		Args:    named("a file with user data", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := readInput(cmd, args[0])
			if err != nil {
				return fmt.Errorf("reading the user data: %w", err)
			}
			check := userdata.Check
			if merged {
				check = userdata.CheckMerged
			}
			r, err := check(content, family)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			text := func(p *printer) { p.problems(args[0], r) }
			return judge("userdata check", r.Cases(args[0]), r, text).print(cmd, output)
		},
	}
	cmd.Flags().StringVar(&family, "family", "", "image family (default: detected from the user data)")
	cmd.Flags().BoolVar(&merged, "merged", false, "accept user data without a cluster, for EKS or Karpenter to merge with theirs")
	formatFlag(cmd, &output, "text", "json", "sarif", "junit")
	return cmd
}

func (p *printer) problems(file string, r userdata.Report) {
	for _, problem := range r.Problems {
		separator := ": "
		if problem.Line > 0 {
			separator = ":"
		}
		p.line("%s%s%s", file, separator, problem)
	}
	var readers strings.Builder
	for _, reader := range r.Readers {
		verb := "reads"
		if !reader.Reads {
			verb = "does not read"
		}
		fmt.Fprintf(&readers, "; %s %s it", reader.Image, verb)
	}
	if r.Failed() {
		p.line("FAIL: the user data is not valid for %s%s", r.Family, readers.String())
	} else {
		p.line("PASS: user data for %s%s", r.Family, readers.String())
	}
}
