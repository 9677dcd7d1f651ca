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
	cmd := newCommand("userdata", cobra.NoArgs, showHelp)
	for _, family := range userdata.Families() {
		cmd.Long += fmt.Sprintf("\n  %-13s %s", family.ID, family.About)
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
	cmd := newCommand("render", cobra.NoArgs, f.run)
	f.carrying = "al2023"
	bind(cmd, targets{
		"family": &f.family, "carrying": &f.carrying, "description": &f.description, "cluster": &f.cluster,
		"label": &f.node.Labels, "taint": &f.node.Taints, "max-pods": &f.node.MaxPods, "ami": &f.node.AMI,
		"role": &f.node.Role,
	})
	cmd.Flags().Lookup("family").Usage = ": " + strings.Join(userdata.IDs(), ", ")
	forms(cmd, map[string]func(string) error{
		"cluster": awsnames.ClusterName.Check, "ami": awsnames.ImageID.Check, "role": roleForm,
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

func (f *rendering) run(cmd *cobra.Command, _ []string) error {
	if f.cluster == "" {
		node := []string{"label", "taint", "max-pods", "ami", "role"}
		if err := onlyWith(cmd, "cluster", append(node, awsFlagNames...)...); err != nil {
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
		return userdata.Node{}, errors.New("--description is missing; name the file with cluster and node, or an " +
			"EKS cluster with --cluster")
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
	cmd := newCommand("check FILE", named("a file with user data", 1), func(cmd *cobra.Command, args []string) error {
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
	})
	bind(cmd, targets{"family": &family, "merged": &merged})
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
