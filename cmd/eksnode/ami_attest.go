//go:build !agent

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/packercheck"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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

func amiAttestCommand() *cobra.Command {
	var a attestation
	cmd := newCommand("attest SOURCE", named("a disk image, a snapshot or an AMI", 1), a.run)
	bind(cmd, targets{"key": &a.key, "statement": &a.statement})
	cmd.Flags().StringArrayVar(&a.materials, "material", nil, "")
	cmd.Flags().StringArrayVar(&a.templates, "template", nil, optionHelp("amiimport", "templates")+"; may be repeated")
	required(cmd, [2]string{"key", "name a "}, [2]string{"statement", "name a "})
	a.auditFlags(cmd)
	a.disk = sourceFlags(cmd, awsapi.AttestPolicy)
	partitionFlag(cmd, &a.disk.partition)
	return cmd
}

func (a *attestation) run(cmd *cobra.Command, args []string) error {
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
	if err := a.disk.choose(cmd, args[0]); err != nil {
		return err
	}
	if err := a.check(scrub.ToAudit); err != nil {
		return err
	}
	if err := surface.MayCreate(a.statement); err != nil {
		return fmt.Errorf("--statement: %w", err)
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
