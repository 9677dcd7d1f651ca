//go:build !agent

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// userdataFlags are those of `eksnode userdata`.
type userdataFlags struct {
	family, carrying string
	description      string
	check            string
	output           string
	// cluster is asked for instead of being described.
	cluster string
	node    userdata.Node
	aws     awsapi.Options
}

func userdataCommand() *cobra.Command {
	var f userdataFlags
	var families strings.Builder
	for _, family := range userdata.Families() {
		fmt.Fprintf(&families, "  %-13s %s\n", family.ID, family.About)
	}
	cmd := &cobra.Command{
		Use:   "userdata",
		Short: "Write user data for any family of images, or check what you have",
		Long: `Userdata writes what an instance needs at its first boot to join a cluster, from
one description in YAML or straight from the cluster, whatever the family. With
--check it reads user data instead and prints everything that is wrong with it,
each with its line and field; it exits with 0 when nothing is, 1 when something
is, and 2 when it could not tell.

Families:
` + strings.TrimRight(families.String(), "\n"),
		Example: `  eksnode userdata --family al2023 --description node.yaml
  eksnode userdata --family bottlerocket --cluster my-cluster --label team=a
  eksnode userdata --family karpenter --carrying al2023 --description node.yaml
  eksnode userdata --check user-data.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.misplaced(cmd); err != nil {
				return err
			}
			if f.check != "" {
				return f.report(cmd)
			}
			return f.write(cmd)
		},
	}
	cmd.Flags().StringVar(&f.family, "family", "", "write, or check as, user data of this family; a check finds it out when it is not named")
	cmd.Flags().StringVar(&f.carrying, "carrying", "al2023", "family of the machine, for karpenter and eksctl")
	cmd.Flags().StringVar(&f.description, "description", "", "file that describes cluster and node (YAML or JSON); - is standard input")
	cmd.Flags().StringVar(&f.check, "check", "", "file with user data to check; - is standard input")
	cmd.Flags().StringVar(&f.output, "output", "text", "how to print what a check found: text or json")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "ask AWS about this cluster, instead of --description")
	cmd.Flags().StringToStringVar(&f.node.Labels, "label", nil, "with --cluster: labels of the node")
	cmd.Flags().StringSliceVar(&f.node.Taints, "taint", nil, "with --cluster: taints of the node, as key=value:Effect")
	cmd.Flags().IntVar(&f.node.MaxPods, "max-pods", 0, "with --cluster: how many pods the node takes (default: the machine decides)")
	cmd.Flags().StringVar(&f.node.AMI, "ami", "", "with --cluster: the image's id, for karpenter and eksctl")
	cmd.Flags().StringVar(&f.node.Role, "role", "", "with --cluster: the node role's name, for karpenter")
	awsFlags(cmd, &f.aws)
	return cmd
}

// misplaced says which flags would do nothing.
func (f userdataFlags) misplaced(cmd *cobra.Command) error {
	if f.check == "" {
		if err := onlyWith(cmd, "check", "output"); err != nil {
			return err
		}
	}
	if f.cluster == "" {
		return onlyWith(cmd, "cluster", "label", "taint", "max-pods", "ami", "role")
	}
	if f.check != "" {
		return errors.New("--cluster and --check: one writes user data, the other reads it")
	}
	return nil
}

// readInput reads a file, or standard input for "-".
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return readBounded("standard input", standardInput(cmd))
	}
	return readFile(name)
}

func (f userdataFlags) write(cmd *cobra.Command) error {
	if f.family == "" {
		return fmt.Errorf("--family: name one of %s, or check what you have with --check", strings.Join(userdata.IDs(), ", "))
	}
	node, err := f.describe(cmd)
	if err != nil {
		return err
	}
	text, err := userdata.Render(f.family, f.carrying, node)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// describe reads the description, or asks AWS.
func (f userdataFlags) describe(cmd *cobra.Command) (userdata.Node, error) {
	switch {
	case f.description == "" && f.cluster == "":
		return userdata.Node{}, errors.New("--description: name the file that describes cluster and node, or a cluster with --cluster")
	case f.description != "" && f.cluster != "":
		return userdata.Node{}, errors.New("--description and --cluster: name one of them")
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
	n.Region = a.Region
	n.Cluster = describedCluster(c)
	return n, nil
}

// describedCluster is what user data says of a cluster.
func describedCluster(c awsapi.Cluster) userdata.Cluster {
	told := userdata.Cluster{Name: c.Name, Endpoint: c.Endpoint, CA: c.CA, CIDR: c.ServiceCIDR}
	if c.Outpost {
		told.Outpost = c.ID
	}
	return told
}

func (f userdataFlags) report(cmd *cobra.Command) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output: %q is not known; known: json, text", f.output)
	}
	if f.description != "" {
		return errors.New("--description and --check: one writes user data, the other reads it")
	}
	text, err := readInput(cmd, f.check)
	if err != nil {
		return fmt.Errorf("reading the user data: %w", err)
	}
	r, err := userdata.Check(text, f.family)
	if err != nil {
		return fmt.Errorf("%s: %w", f.check, err)
	}
	if err := f.print(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	if r.Failed() {
		return exitError(1)
	}
	return nil
}

func (f userdataFlags) print(w io.Writer, r userdata.Report) error {
	if f.output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	p := &printer{w: w}
	for _, problem := range r.Problems {
		separator := ": "
		if problem.Line > 0 {
			separator = ":"
		}
		p.line("%s%s%s", f.check, separator, problem)
	}
	switch {
	case r.Failed():
		p.line("FAIL: it is not right for %s", r.Family)
	default:
		p.line("PASS: user data for %s", r.Family)
	}
	return p.err
}
