//go:build linux

// Command proof proves eksnode on a real AWS account, for `make aws` and `make aws-clean`.
// It prints its steps, the least IAM policy and an estimate, and asks. Its steps are
// scripts of eksnode and the AWS CLI: the report of a failed step has the script to repeat.
// Everything that a run creates is deleted at its end, also after Ctrl-C. `make aws-clean`
// deletes what a killed run left.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

type options struct {
	region, other, cluster, account, only, run, disk, base, kubernetes, skip, eksnode, folder, share string
	settle, console, family, packer, repository, patience                                            string
	pause                                                                                            time.Duration
	yes, clean, policy, unchecked                                                                    bool
}

func main() {
	var o options
	text := func(to *string, name, value, usage string) { flag.StringVar(to, name, value, usage) }
	text(&o.region, "region", "", "AWS region")
	text(&o.other, "other-region", "us-east-1", "second AWS region, for copies")
	text(&o.cluster, "cluster", "", "existing EKS cluster (default: a new one)")
	text(&o.account, "account", "", "refuse every other account")
	text(&o.only, "only", "", "steps to run, with those that they need (default: all)")
	text(&o.run, "run", strings.ToLower(rand.Text()[:8]), "value of the tag eksnode-proof")
	text(&o.disk, "disk", "", "node disk (default: a build from -base)")
	text(&o.base, "base", "debian-13", "base of the build, such as arch")
	text(&o.share, "share", "", "account to share an AMI with (default: none)")
	text(&o.packer, "packer", "", "path of packer, for AMIs by amazon-ebs (default: none)")
	text(&o.repository, "repository", ".", "folder of this repository, with its examples")
	text(&o.kubernetes, "kubernetes", lifecycle.Kubernetes(), "Kubernetes version of the build")
	text(&o.skip, "skip-rules", "", "rules that audits skip (default: none)")
	text(&o.eksnode, "eksnode", "bin/eksnode", "path of the command eksnode")
	text(&o.folder, "folder", "build/aws", "folder of the state and the report")
	text(&o.settle, "settle", "15", "seconds until IAM's changes are visible")
	text(&o.console, "console", "180", "seconds until an instance's console has its first boot")
	text(&o.family, "ip-family", "ipv4", "IP family of the cluster, ipv4 or ipv6")
	text(&o.patience, "patience", "1800", "seconds after which a step that waits in vain fails")
	flag.DurationVar(&o.pause, "pause", 15*time.Second, "time between two looks at a resource")
	flag.BoolVar(&o.yes, "yes", false, "do not ask")
	flag.BoolVar(&o.unchecked, "unchecked", false, "do not ask IAM whether the caller has all permissions")
	flag.BoolVar(&o.clean, "clean", false, "only delete what earlier runs left")
	flag.BoolVar(&o.policy, "policy", false, "print the least IAM policy and exit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.main(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func (o options) main(ctx context.Context, in io.Reader, out io.Writer) error {
	var only []string
	if o.only != "" {
		only = strings.Split(o.only, ",")
	}
	given := map[string]string{"cluster": o.cluster, "share": o.share, "packer": o.packer, "family": o.family}
	all, err := chosen(only, given)
	if err != nil {
		return err
	}
	eksnode, err := filepath.Abs(o.eksnode)
	if err != nil {
		return err
	}
	least, err := policy(eksnode, o.repository, all)
	if err != nil {
		return err
	}
	if o.policy {
		_, err := io.WriteString(out, least)
		return err
	}
	p, err := o.open(ctx, eksnode, out)
	if err != nil {
		return err
	}
	if o.clean {
		return p.clean(ctx)
	}
	if err := p.load(); err != nil {
		return err
	}
	minutes, dollars := estimate(all)
	fmt.Fprintf(out, "Account %s, regions %s and %s, IP family %s, tag eksnode-proof=%s.\n\nSteps:\n",
		p.state.Vars["account"],
		p.state.Vars["region"], o.other, o.family, p.state.Vars["run"])
	for _, s := range all {
		fmt.Fprintf(out, "  %-10s %2d min  %s\n", s.Name, s.Minutes, s.Does)
	}
	for _, s := range steps {
		if only == nil && s.Asks != "" && given[s.Asks] == "" {
			fmt.Fprintf(out, "  %-10s left out: it needs %s=\n", s.Name, strings.ToUpper(s.Asks))
		}
	}
	fmt.Fprintf(out, "\nLeast IAM policy:\n%s\nEstimate: %d minutes with the teardown, USD %.2f.\n", least, minutes, dollars)
	if !o.unchecked {
		if err := p.check(ctx, least); err != nil {
			return fmt.Errorf("nothing was created: %w", err)
		}
	}
	if !o.yes {
		fmt.Fprint(out, "Create these resources? [yes/no] ")
		if answer, _ := bufio.NewReader(in).ReadString('\n'); strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was created")
		}
	}
	return p.prove(ctx, all)
}

// open returns a run, after a look at account and regions.
func (o options) open(ctx context.Context, eksnode string, out io.Writer) (*proof, error) {
	if o.region == "" {
		return nil, errors.New("the region is missing: run make aws REGION=eu-west-1")
	}
	if o.family != "ipv4" && o.family != "ipv6" {
		return nil, fmt.Errorf("the IP family %q is neither ipv4 nor ipv6", o.family)
	}
	folder, err := filepath.Abs(o.folder)
	if err != nil {
		return nil, err
	}
	if o.share != "" {
		if err := awsnames.AccountID.Check(o.share); err != nil {
			return nil, fmt.Errorf("the account to share an AMI with: %w", err)
		}
	}
	skip := ""
	if o.skip != "" {
		skip = "--skip-rules=" + o.skip
	}
	repository, err := filepath.Abs(o.repository)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.region))
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &proof{shapes: shapes{}, config: c, eksnode: eksnode, folder: folder, pause: o.pause, out: out, log: log}
	p.state = state{Begun: time.Now().UTC(), Vars: map[string]string{
		"region": o.region, "other": o.other, "cluster": o.cluster, "run": o.run, "disk": o.disk, "base": o.base, "kubernetes": o.kubernetes,
		"skip": skip, "settle": o.settle, "console": o.console, "dir": folder, "account": "unknown", "mine": o.run,
		"eksnode": eksnode, "share": o.share, "packer": o.packer, "repository": repository, "family": o.family,
		"patience": o.patience, "pause": fmt.Sprintf("%.2f", o.pause.Seconds()),
	}}
	found, err := p.shell(ctx, `aws sts get-caller-identity --query Account --output text
aws ec2 describe-regions --region-names "$region" "$other" --query 'Regions[].RegionName' --output text`, nil)
	if err != nil {
		return nil, fmt.Errorf("looking at the account and its regions: %w", err)
	}
	account, regions, _ := strings.Cut(found, "\n")
	for _, region := range []string{o.region, o.other} {
		if !slices.Contains(strings.Fields(regions), region) {
			return nil, fmt.Errorf("the account cannot use the region %s", region)
		}
	}
	if o.region == o.other {
		return nil, fmt.Errorf("the region for copies is %s too: set another one with OTHER", o.other)
	}
	if o.account != "" && account != o.account {
		return nil, fmt.Errorf("the credentials are of the account %s, not of %s", account, o.account)
	}
	p.state.Vars["account"] = account
	return p, nil
}

// clean deletes what earlier runs left.
func (p *proof) clean(ctx context.Context) error {
	p.state.Vars["mine"] = ""
	if left := p.teardown(ctx, func(kind) bool { return true }); len(left) > 0 {
		return fmt.Errorf("not deleted:\n  %s", strings.Join(left, "\n  "))
	}
	fmt.Fprintln(p.out, "Nothing is left.")
	return os.RemoveAll(p.path("state.json"))
}

// prove runs the steps, tears everything down and writes the report.
func (p *proof) prove(ctx context.Context, all []step) error {
	failure := p.run(ctx, all)
	p.calls = nil
	fmt.Fprintln(p.out, "teardown")
	r := report{
		Schema: "eksnode.proof/v1", Eksnode: version.String(), Region: p.state.Vars["region"],
		Family: p.state.Vars["family"], Begun: p.state.Begun, Result: ok, Steps: append([]row{}, p.state.Rows...),
		Left: append([]string{}, p.teardown(context.WithoutCancel(ctx), func(kind) bool { return true })...),
	}
	r.Seconds, r.Dollars = time.Since(r.Begun).Seconds(), p.spent(time.Now())
	if len(r.Left) > 0 {
		failure = errors.Join(failure, fmt.Errorf("not deleted: %s", strings.Join(r.Left, ", ")))
	}
	if failure != nil {
		r.Result, r.Error = failed, failure.Error()
	}
	if err := errors.Join(p.shapes.write(p.path("shapes.json")), r.write(p.path, p.state.Vars["account"])); err != nil {
		return errors.Join(failure, err)
	}
	fmt.Fprintf(p.out, "%s: %s\n", r.Result, p.path("report.md"))
	return errors.Join(failure, os.RemoveAll(p.path("state.json")))
}
