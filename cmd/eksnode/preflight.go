//go:build !agent

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
)

// preflightFlags are those of `eksnode preflight`.
type preflightFlags struct {
	target  preflight.Target
	aws     awsapi.Options
	awsAuth string
	output  string
	policy  bool
}

func preflightCommand() *cobra.Command {
	var f preflightFlags
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Say why nodes would not join a cluster, before they are started",
		Long: `Preflight looks at a cluster and at an instance, a launch template or an image
together, and at roles and networks between them. Each check is OK, FAIL, WARN or
UNKNOWN, with what was seen and a command that remedies it. It changes nothing.
It exits with 1 when a check fails, otherwise with 2 when one could not look,
otherwise with 0.`,
		Example: `  eksnode preflight --cluster my-cluster --launch-template nodes
  eksnode preflight --cluster my-cluster --instance i-0123456789abcdef0 --output junit
  eksnode preflight --cluster my-cluster --ami ami-0123456789abcdef0
  eksnode preflight --policy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.target.Cluster, "cluster", "", "the cluster's name")
	cmd.Flags().StringVar(&f.target.Instance, "instance", "", "id of an instance that should join, or has not")
	cmd.Flags().StringVar(&f.target.Template, "launch-template", "", "id or name of the launch template that nodes are started with")
	cmd.Flags().StringVar(&f.target.TemplateVersion, "launch-template-version", "$Default", "its version: a number, $Latest or $Default")
	cmd.Flags().StringVar(&f.target.AMI, "ami", "", "id of an image, where there is no launch template yet")
	cmd.Flags().StringSliceVar(&f.target.Subnets, "subnet", nil, "subnets that nodes are started in (default: the instance's, or the cluster's)")
	cmd.Flags().StringVar(&f.target.Kubelet, "kubelet-version", "", "the image's kubelet (default: by the image's tag "+preflight.KubernetesTag+")")
	cmd.Flags().StringVar(&f.awsAuth, "aws-auth", "", "file with the ConfigMap aws-auth, as kubectl prints it in YAML; - is standard input")
	formatFlag(cmd, &f.output, "text", "json", "sarif", "junit")
	cmd.Flags().BoolVar(&f.policy, "policy", false, "print the IAM policy that a preflight needs, and do nothing")
	awsFlags(cmd, &f.aws)
	return cmd
}

func (f *preflightFlags) run(cmd *cobra.Command) error {
	if f.policy {
		text, err := preflight.Policy()
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
		}
		return err
	}
	if f.target.Template == "" {
		if err := onlyWith(cmd, "launch-template", "launch-template-version"); err != nil {
			return err
		}
	}
	if err := f.target.Validate(); err != nil {
		return fmt.Errorf("%w; say it with --cluster, and one of --instance, --launch-template and --ami", err)
	}
	if f.awsAuth != "" {
		text, err := readInput(cmd, f.awsAuth)
		if err != nil {
			return fmt.Errorf("reading aws-auth: %w", err)
		}
		f.target.AWSAuth = append([]byte{}, text...)
	}
	a, err := awsapi.Open(cmd.Context(), f.aws)
	if err != nil {
		return err
	}
	r, err := preflight.Run(cmd.Context(), a, f.target)
	if err != nil {
		return err
	}
	printers := verdictPrinters("preflight", preflightVerdicts(r), r.ExitCode())
	printers["text"] = func(w io.Writer) error { return printPreflight(w, r) }
	printers["json"] = func(w io.Writer) error { return writeJSON(w, r) }
	if err := printers[f.output](cmd.OutOrStdout()); err != nil {
		return err
	}
	if code := r.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}

// screen is how wide what people read is.
const screen = 80

func printPreflight(w io.Writer, r preflight.Report) error {
	p := newPrinter(w)
	p.line("%s and the cluster %s", r.Target, r.Cluster)
	const column = 31 // where evidence begins
	for _, f := range r.Findings {
		for i, line := range wrap(f.Evidence, screen-column) {
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
	if len(r.LeftOut) > 0 {
		for _, line := range wrap("left out, as they need an instance or a launch template: "+strings.Join(r.LeftOut, ", "), screen) {
			p.line("%s", line)
		}
	}
	p.line("%d OK, %d FAIL, %d WARN, %d UNKNOWN", r.Count(preflight.OK), r.Count(preflight.Fail), r.Count(preflight.Warn), r.Count(preflight.Unknown))
	return p.err
}

// wrap breaks a text at spaces; a word that is too long stays whole.
func wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// continued breaks a command between its words, so that a shell still reads one.
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
	lines := []string{""}
	for _, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			*last += ` \`
			lines = append(lines, word)
		}
	}
	return lines
}

// preflightVerdicts are the checks' answers.
func preflightVerdicts(r preflight.Report) []verdict {
	levels := map[preflight.Verdict]string{preflight.Fail: isError, preflight.Warn: isWarning, preflight.Unknown: isUnknown}
	var list []verdict
	for _, f := range r.Findings {
		list = append(list, verdict{rule: f.Check, name: f.Check + ": " + f.Question, page: "reference/preflight.md", level: levels[f.Verdict], text: f.Evidence, remedy: f.Remedy})
	}
	return list
}
