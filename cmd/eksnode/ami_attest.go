//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/packercheck"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// attestation holds the flags of `eksnode ami attest`.
type attestation struct {
	selection
	disk      *auditedDisk
	statement string
	key       string
	materials []string
	templates []string
}

const keyHelp = "file with a key in PEM, or the ARN or alias of a KMS key, such as alias/images"

func amiAttestCommand() *cobra.Command {
	var a attestation
	cmd := &cobra.Command{
		Use:   "attest SOURCE",
		Short: "Audit a disk, a snapshot or an AMI, and sign a statement about its content",
		Long: `SOURCE is a disk image, a snapshot ID or an AMI ID. Attest reads and audits the disk as
eksnode audit does, which needs root. Then it writes in-toto statements in signed DSSE
envelopes, one on each line. They are the verification summary of the audit, the bill of
materials, and SLSA's provenance if the image has a manifest. Their subject is the digest
of the disk.
With findings, the summary says FAILED and the exit code is 1. If a rule could not run,
there is no statement and the exit code is 2.`,
		Example: `  sudo eksnode ami attest disk.raw --key key.pem --statement disk.intoto.jsonl
  sudo -E eksnode ami attest ami-0123456789abcdef0 --key alias/images --statement node.intoto.jsonl`,
		Args: named("a disk image, a snapshot or an AMI", 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&a.key, "key", "", keyHelp)
	f.StringVar(&a.statement, "statement", "", "file for the statements")
	f.StringArrayVar(&a.materials, "material", nil, "what the image was made from, as URI=sha256:DIGEST; may be repeated")
	f.StringArrayVar(&a.templates, "template", nil, optionHelp("amiimport", "templates")+"; may be repeated")
	required(cmd, [2]string{"key", "name a " + keyHelp}, [2]string{"statement", "name a file for the statements"})
	a.auditFlags(cmd)
	a.disk = sourceFlags(cmd, awsapi.AttestPolicy)
	return cmd
}

func (a *attestation) run(cmd *cobra.Command, source string) error {
	ctx := cmd.Context()
	var materials []attest.Material
	for _, text := range a.materials {
		m, err := attest.ParseMaterial(text)
		if err != nil {
			return fmt.Errorf("--material: %w", err)
		}
		materials = append(materials, m)
	}
	templates, err := packercheck.Record(a.templates)
	if err != nil {
		return fmt.Errorf("--template: %w", err)
	}
	if err := a.disk.choose(source); err != nil {
		return err
	}
	if err := errors.Join(a.check(scrub.ToAudit), mayCreate(a.statement, filepath.Dir(a.statement))); err != nil {
		return err
	}
	key, err := attest.OpenSigner(ctx, a.key, connecting(a.disk.options()))
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	if err := a.begin(cmd, agent.Audit, true); err != nil {
		return err
	}
	a.disk.whole = true
	sink, stop := a.out.watch(cmd, agent.Audit)
	waiting{sink}.Begin("the audit of the disk", "", 0)
	r, err := a.disk.audit(cmd, a.spec)
	stop()
	if err != nil {
		return err
	}
	if r.Result == plan.Clean || r.Result == plan.Findings {
		e := attest.Evidence{Names: namesOf(r.Machine), Report: r, Manifest: a.disk.made, Materials: materials,
			Templates: templates}
		if _, err := e.Write(ctx, key, a.statement); err != nil {
			return err
		}
		newPrinter(cmd.ErrOrStderr()).line("statement: %s", shown(a.statement))
	}
	return a.out.finish(cmd, r)
}

// namesOf are the names of an audited disk in a statement.
func namesOf(m plan.Machine) []string {
	var names []string
	for _, id := range []string{m.AMI, m.Snapshot} {
		if id != "" {
			names = append(names, m.Region+":"+id)
		}
	}
	if m.Disk != "" {
		names = append(names, filepath.Base(m.Disk))
	}
	return names
}

// connecting opens AWS when a key needs it.
func connecting(o awsapi.Options) func(context.Context) (*awsapi.AWS, error) {
	return func(ctx context.Context) (*awsapi.AWS, error) { return awsapi.Open(ctx, o) }
}
