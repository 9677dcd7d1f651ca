//go:build !agent

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

type preflightFlags struct {
	target  preflight.Target
	aws     awsapi.Options
	awsAuth string
	class   string
	output  string
}

func preflightCommand() *cobra.Command {
	var f preflightFlags
	cmd := newCommand("preflight", cobra.NoArgs, f.run)
	f.target.TemplateVersion = "$Default"
	bind(cmd, targets{
		"cluster": &f.target.Cluster, "instance": &f.target.Instance, "launch-template": &f.target.Template,
		"launch-template-version": &f.target.TemplateVersion, "nodegroup": &f.target.NodeGroup,
		"nodeclass": &f.class, "ami": &f.target.AMI, "role": &f.target.Role, "subnet": &f.target.Subnets,
		"kubelet-version": &f.target.Kubelet, "aws-auth": &f.awsAuth,
	})
	forms(cmd, map[string]func(string) error{
		"cluster": awsnames.ClusterName.Check, "instance": awsnames.InstanceID.Check,
		"launch-template": awsnames.LaunchTemplate, "launch-template-version": awsnames.TemplateVersion,
		"nodegroup": awsnames.NodegroupName.Check, "ami": awsnames.Image, "role": roleForm,
		"subnet": awsnames.SubnetID.Check,
	})
	required(cmd, [2]string{"cluster", "set the "})
	formatFlag(cmd, &f.output, "text", "json", "sarif", "junit")
	policyFlag(cmd, preflight.Policy)
	awsFlags(cmd, &f.aws)
	return cmd
}

func (f *preflightFlags) run(cmd *cobra.Command, _ []string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	var err error
	if f.target.AWSAuth, err = readAuth(cmd, f.awsAuth); err != nil {
		return err
	}
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	r, err := preflight.Run(cmd.Context(), a, f.target)
	if err != nil {
		return err
	}
	return judge("preflight", preflightCases(r), r, func(p *printer) { p.preflight(r) }).print(cmd, f.output)
}

// check refuses flags that do not fit together, and reads the EC2NodeClass.
func (f *preflightFlags) check(cmd *cobra.Command) error {
	targets := given(cmd, "instance", "launch-template", "nodegroup", "nodeclass", "ami")
	switch {
	case len(targets) == 0:
		return errors.New("the nodes are missing; use one of --instance, --launch-template, --nodegroup, " +
			"--nodeclass and --ami")
	case len(targets) > 1:
		return fmt.Errorf("%s exclude each other; use one of them", strings.Join(targets, " and "))
	case f.target.Template == "":
		if err := onlyWith(cmd, "launch-template", "launch-template-version"); err != nil {
			return err
		}
	}
	owner := map[string]string{"--nodegroup": "a node group", "--nodeclass": "an EC2NodeClass"}[targets[0]]
	if set := given(cmd, "role", "subnet"); owner != "" && len(set) > 0 {
		return fmt.Errorf("%s and %s exclude each other: %s names its own", set[0], targets[0], owner)
	}
	if f.class == "-" && f.awsAuth == "-" {
		return errors.New("--nodeclass and --aws-auth cannot both read standard input; pass a file for one of them")
	}
	if targets[0] != "--nodeclass" {
		return nil
	}
	text, err := readInput(cmd, f.class)
	if err != nil {
		return fmt.Errorf("reading the EC2NodeClass: %w", err)
	}
	f.target.NodeClass, err = preflight.ReadNodeClass(f.class, text)
	return err
}

// screen is the width of text output, in columns.
const screen = 80

func (p *printer) preflight(r preflight.Report) {
	p.line("%s and the cluster %s", r.Target, r.Cluster)
	const column = 31 // of the evidence
	for _, f := range r.Findings {
		lines := wrap(f.Evidence, screen-column)
		if len(f.Unchecked) > 0 {
			lines = append(lines, wrap("not checked either: "+strings.Join(f.Unchecked, ", "), screen-column)...)
		}
		for i, line := range lines {
			verdict, check := string(f.Verdict), f.Check
			if i > 0 {
				verdict, check = "", ""
			}
			p.line("%-8s %-21s %s", verdict, check, line)
		}
		for i, line := range continued(f.Remedy, screen-6) {
			p.line("%s%s", map[bool]string{true: "  ", false: "    "}[i == 0], line)
		}
	}
	p.leftOut("as they need settings of nodes, which an AMI alone does not have", r.LeftOut)
	p.leftOut("as they need a role; --role names it", r.NeedRole)
	more := ""
	if n := r.Unchecked(); n > 0 {
		more = fmt.Sprintf(", %d not checked", n)
	}
	p.line("%d OK, %d FAIL, %d WARN, %d UNKNOWN%s", r.Count(preflight.OK), r.Count(preflight.Fail),
		r.Count(preflight.Warn), r.Count(preflight.Unknown), more)
}

// leftOut prints which checks were left out.
func (p *printer) leftOut(why string, checks []string) {
	if len(checks) > 0 {
		for _, line := range wrap("left out, "+why+": "+strings.Join(checks, ", "), screen) {
			p.line("%s", line)
		}
	}
}

// wrap breaks a text at spaces; a word that is too long stays whole.
func wrap(text string, width int) []string { return show.Wrap(strings.Fields(text), width, "") }

// continued breaks a command between words, so that a shell still reads one command.
func continued(command string, width int) []string {
	if command == "" {
		return nil
	}
	var words []string
	quoted := false
	for _, word := range strings.Split(command, " ") {
		if quoted {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		// A quote within quotes is written '\''.
		quoted = quoted != (strings.Count(strings.ReplaceAll(word, `'\''`, ""), "'")%2 == 1)
	}
	return show.Wrap(words, width, ` \`)
}

func preflightCases(r preflight.Report) (list []plan.Case) {
	page, questions := plan.About{Page: "reference/preflight.md"}, map[string]string{}
	for _, c := range preflight.Table() {
		questions[c.ID] = c.Question
	}
	for _, f := range r.Findings {
		c := plan.Case{ID: f.Check, Name: f.Check + ": " + f.Question, About: page, Text: f.Evidence, Remedy: f.Remedy}
		switch f.Verdict {
		case preflight.Fail:
			c.Level = plan.Fails
		case preflight.Warn:
			c.Level = plan.Warns
		case preflight.Unknown:
			c.Error = f.Evidence
		}
		list = append(list, c)
		for _, id := range f.Unchecked {
			list = append(list, plan.Case{
				ID: id, Name: id + ": " + questions[id], About: page,
				Skipped: "not checked, for the reason of " + f.Check,
			})
		}
	}
	return list
}
