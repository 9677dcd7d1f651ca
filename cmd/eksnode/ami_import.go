//go:build !agent

package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// importing holds the flags of `eksnode ami import`.
type importing struct {
	aws    awsapi.Options
	spec   amiimport.Spec
	folder string
	output string
	dryRun bool
}

func amiImportCommand() *cobra.Command {
	var i importing
	cmd := newCommand("import DISK", named("the path of a disk image", 1), i.run)
	options(cmd.Flags(), &i.spec)
	bind(cmd, targets{"dry-run": &i.dryRun, "cache-folder": &i.folder})
	policyFlag(cmd, i.needed)
	formatFlag(cmd, &i.output, "text", "json")
	awsFlags(cmd, &i.aws)
	return cmd
}

// needed is the policy for the regions and keys of the flags.
func (i *importing) needed() (string, error) {
	scope := awsapi.Scope{Sign: i.spec.StatementKey != "", Approve: i.spec.Watermark != ""}
	if i.aws.Region != "" {
		scope.Regions = slices.Compact(slices.Sorted(slices.Values(append(i.spec.Regions, i.aws.Region))))
	}
	for _, key := range append(slices.Collect(maps.Values(i.spec.RegionKeys)), i.spec.KMSKey) {
		if strings.HasPrefix(key, "arn:") {
			scope.Keys = append(scope.Keys, key)
		}
	}
	slices.Sort(scope.Keys)
	return awsapi.ImportPolicy(scope)
}

func (i *importing) run(cmd *cobra.Command, args []string) error {
	made, err := i.do(cmd, args[0])
	printed := answer(cmd, i.output, importedOf(made, err), func(p *printer) { p.imported(made) })
	return auditCode(errors.Join(printed, err))
}

// auditCode adds the exit code of a failed audit to the error of an import.
func auditCode(err error) error {
	if found, ok := errors.AsType[*amiimport.AuditError](err); ok {
		return errors.Join(exitError(found.Report.Result.ExitCode()), err)
	}
	return err
}

// do imports a disk, and prints only progress.
func (i *importing) do(cmd *cobra.Command, disk string) (amiimport.Result, error) {
	meter := newMeter(cmd.ErrOrStderr())
	made, err := amiimport.Import{
		Spec: i.spec, Disk: disk, Folder: i.folder, DryRun: i.dryRun,
		Open: connecting(i.aws), Say: meter.say, Progress: meter.upload,
	}.Run(cmd.Context())
	meter.end()
	return made, err
}

// imported is what `eksnode ami import --output json` prints.
type imported struct {
	Image  *importedImage  `json:"image"`
	Copies []importedImage `json:"copies"`
	Disk   *amiimport.Disk `json:"disk"`
	// Upload counts blocks of 512 KiB: sent, resumed and inherited ones.
	Upload map[string]int `json:"upload"`
	Audit  *plan.Report   `json:"audit"`
	Error  string         `json:"error,omitempty"`
}

type importedImage struct {
	ID        string   `json:"id"`
	Region    string   `json:"region"`
	Snapshots []string `json:"snapshots"`
}

// importedOf is the result for JSON. After a failure, it has what was found so far.
func importedOf(r amiimport.Result, failed error) imported {
	out := imported{Copies: []importedImage{}, Audit: r.Audit}
	if failed != nil {
		out.Error = surface.InFlags(failed)
	}
	if r.Disk.Format != "" {
		out.Disk = &r.Disk
	}
	if u := r.Upload; u.Snapshot.ID != "" {
		out.Upload = map[string]int{"sent": u.Sent, "resumed": u.Resumed, "inherited": u.Inherited}
	}
	if r.Image.ID != "" {
		out.Image = &importedImage{r.Image.ID, r.Image.Region, r.Image.Snapshots}
	}
	for _, c := range r.Copies {
		out.Copies = append(out.Copies, importedImage{c.ID, c.Region, c.Snapshots})
	}
	return out
}

func (p *printer) imported(r amiimport.Result) {
	if r.Audit != nil {
		p.report(*r.Audit, false)
	}
	if d := r.Disk; d.Architecture != "" {
		p.line("disk: %s, volume of %d GiB, %s in use (%s of 512 KiB), %s, boot mode %s", d.Format, d.VolumeGiB,
			show.Size(d.Used), show.Count(d.Blocks, "block"), d.Architecture, d.BootMode)
		p.line("digest: %s", d.Digest)
	}
	if u := r.Upload; u.Snapshot.ID != "" {
		p.line("snapshot: %s, %s sent, %s from an earlier run, %s from the parent", u.Snapshot.ID, blocks(u.Sent),
			blocks(u.Resumed), blocks(u.Inherited))
	}
	for _, image := range append([]awsapi.Image{r.Image}, r.Copies...) {
		if image.ID != "" {
			p.line("AMI: %s in %s", image.ID, image.Region)
		}
	}
}

func blocks(n int) string { return show.Size(snapshot.Bytes(n)) }
