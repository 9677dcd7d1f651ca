//go:build !agent

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// building holds the flags of `eksnode build`.
type building struct {
	spec  provisioner.Spec
	local provisioner.Local
	disk  diskbuild.Build
	// file is the spec file.
	file            string
	dryRun, verbose bool
	// command is the eksnode for another architecture than this machine's.
	command string
	// twice compares the disk with that of a second build.
	twice  bool
	output string
	report reportFile
	// ami is the import that follows.
	ami importing
}

func buildCommand() *cobra.Command {
	var b building
	cmd := newCommand("build", cobra.NoArgs, b.run)
	f := cmd.Flags()
	options(f, &b.disk.Spec, "base", "base_checksum", "base_arch", "disk_size", "root_file_system")
	f.StringVarP(&b.disk.Image, "image", "o", "", optionHelp("diskbuild", "image"))
	bind(cmd, targets{
		"force": &b.disk.Force, "node-command": &b.command, "spec": &b.file,
		"dry-run": &b.dryRun, "check-reproducible": &b.twice, "ami": &b.ami.spec.Name, "verbose": &b.verbose,
		"report": &b.report.name,
	})
	partitionFlag(cmd, &b.disk.Partition)
	options(f, &b.spec)
	options(f, &b.local, "lock_file", "cache_folder")
	awsFlags(cmd, &b.ami.aws)
	formatFlag(cmd, &b.output, "text", "json")
	return cmd
}

// buildTask is what the work in the mounted disk gets.
type buildTask struct {
	Provision rootTask
	Scrub     scrub.Spec
}

// built is what `eksnode build --output json` prints.
type built struct {
	Image string `json:"image,omitempty"`
	// Size is that of the disk in bytes, and Base the path or address of the base image.
	Size      int64        `json:"size,omitempty"`
	Base      string       `json:"base"`
	Provision plan.Report  `json:"provision"`
	Scrub     *plan.Report `json:"scrub,omitempty"`
	// Differs are the files that a second build makes otherwise; nil without one.
	Differs *[]diskdiff.File `json:"differs,omitempty"`
	AMI     *imported        `json:"ami,omitempty"`
}

// passed says whether the disk may be kept.
func (b built) passed() bool {
	return b.Provision.Result.ExitCode() == 0 && b.Scrub != nil && b.Scrub.Result.ExitCode() == 0
}

func (b *building) check(cmd *cobra.Command) error {
	if b.dryRun { // the copy is in this folder, and ends with the run
		b.disk.Image = filepath.Join(os.TempDir(), "eksnode-dry-run.raw")
	}
	if !b.disk.IsCloud() && b.ami.spec.Name == "" {
		if err := onlyWith(cmd, "ami, or an AMI or a snapshot as --base", awsFlagNames...); err != nil {
			return err
		}
	}
	if b.ami.spec.Name != "" {
		if err := b.ami.spec.Validate(); err != nil {
			return fmt.Errorf("--ami: %w", err)
		}
	}
	if b.file != "" {
		if err := errors.Join(alone(cmd.Flags(),
			append(slices.Clone(awsFlagNames), "base", "base-checksum", "base-arch", "image", "force", "disk-size",
				"root-file-system", "partition", "ami")...), readSpec(b.file, &b.spec)); err != nil {
			return err
		}
	}
	if err := errors.Join(readLocal(b.local, &b.spec), b.disk.Ready()); err != nil {
		return err
	}
	err := b.spec.Validate()
	if b.file != "" {
		err = inFields(err)
	}
	return err
}

// begin marks an earlier report as unfinished, as reportFile.begin does.
func (b *building) begin(cmd *cobra.Command) error {
	return b.report.begin(cmd, b.dryRun, func() ([]byte, error) {
		return built{Base: b.disk.Base, Provision: begun(agent.Provision, "")}.report(b.report.name)
	})
}

func (b *building) run(cmd *cobra.Command, _ []string) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	if err := b.begin(cmd); err != nil {
		return err
	}
	began := time.Now()
	cache, err := b.local.Cache()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("making the cache's folder: %w", err)
	}
	if b.disk.Folder, err = os.Open(cache); err != nil {
		return fmt.Errorf("opening the cache's folder: %w", err)
	}
	defer b.disk.Folder.Close()
	if b.command != "" {
		if b.disk.Program, err = os.Open(b.command); err != nil {
			return fmt.Errorf("--node-command: %w", err)
		}
		defer b.disk.Program.Close()
		b.command = diskaudit.Program
	}
	b.local.CacheFolder = cache
	var made built
	if b.disk.IsCloud() {
		kept, err := b.download(cmd)
		if err != nil {
			return err
		}
		defer kept.Close(true)
		made.Base, b.disk.Base, b.disk.File = b.disk.Base, kept.Path, kept.Path
	} else {
		transfer := newMeter(cmd.ErrOrStderr())
		say := func(text string) { transfer.say("%s", text) }
		b.disk.File, made.Base, err = b.disk.Find(ctx, b.local.CacheFolder, say, transfer.fetched)
		if transfer.end(); err != nil {
			return err
		}
	}
	b.disk.Progress = cmd.ErrOrStderr()
	b.local.CacheFolder = diskaudit.WorkFolder
	b.disk.Input = buildTask{
		Provision: rootTask{
			Spec: b.spec, Local: b.local, Verbose: b.verbose, Command: b.command, Flags: b.file == "", DryRun: b.dryRun,
		},
		Scrub: scrub.Spec{Audit: scrub.AuditFails},
	}
	base := made.Base
	notes, err := b.disk.Run(ctx, &made, func() bool { return made.passed() })
	made.Base = base
	if err != nil {
		return err
	}
	made.Provision.Warnings = append(made.Provision.Warnings, notes...)
	if made.passed() {
		made.Image = b.disk.Image
		if info, err := os.Stat(b.disk.Image); err == nil {
			made.Size = info.Size()
		}
	}
	took := time.Since(began)
	if made.Image != "" && b.twice {
		if made.Differs, err = b.again(ctx); err != nil {
			return fmt.Errorf("building a second time, for --check-reproducible: %w", err)
		}
	}
	var importing error
	if made.Image != "" && b.ami.spec.Name != "" {
		var r amiimport.Result
		r, importing = b.ami.do(cmd, made.Image)
		out := importedOf(r, importing)
		made.AMI = &out
	}
	return errors.Join(b.finish(cmd, made, took), auditCode(importing))
}

// again builds the disk a second time, and returns the files that differ.
func (b *building) again(ctx context.Context) (*[]diskdiff.File, error) {
	folder, err := os.MkdirTemp(filepath.Dir(b.disk.Image), ".eksnode-second-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	second := b.disk
	second.Image = filepath.Join(folder, "disk"+filepath.Ext(b.disk.Image))
	var made built
	if _, err := second.Run(ctx, &made, func() bool { return made.passed() }); err != nil {
		return nil, err
	}
	if !made.passed() {
		return nil, errors.Join(resultError(made.Provision.Result), errors.New("the build failed"))
	}
	var disks [2]diskdiff.Disk
	for n, file := range []string{b.disk.Image, second.Image} {
		if disks[n], err = diskdiff.Open(file, b.disk.Partition); err != nil {
			return nil, err
		}
		defer disks[n].Image.Close()
	}
	r, err := diskdiff.Compare(ctx, disks[0], disks[1], folder)
	return &r.Files, err
}

// download gets the disk of an AMI or a snapshot, which becomes the parent of the AMI.
func (b *building) download(cmd *cobra.Command) (*snapshot.Disk, error) {
	m := newMeter(cmd.ErrOrStderr())
	defer m.end()
	cache, err := diskCache(b.local, m)
	if err != nil {
		return nil, err
	}
	kept, root, err := b.disk.Download(cmd.Context(), b.ami.aws, cache)
	if err != nil {
		return nil, err
	}
	if b.ami.aws.Region = root.AWS.Region; root.Image.ID != "" {
		b.ami.spec.ParentAMI = root.Image.ID
	} else {
		b.ami.spec.ParentSnapshot = root.Snapshot
	}
	return kept, nil
}

func (b *building) finish(cmd *cobra.Command, made built, took time.Duration) error {
	var errs []error
	if to := b.report.to; to != nil {
		errs = append(errs, b.report.write(made.report(b.report.name)), made.Provision.WriteTailoring(to.path))
	}
	errs = append(errs, answer(cmd, b.output, made, func(p *printer) { b.print(p, made, took) }))
	if made.Differs != nil && len(*made.Differs) > 0 {
		errs = append(errs, exitError(1))
	}
	errs = append(errs, resultError(made.Provision.Result))
	if made.Scrub != nil {
		errs = append(errs, resultError(made.Scrub.Result))
	}
	return errors.Join(errs...)
}

func (b *building) print(p *printer, made built, took time.Duration) {
	p.report(made.Provision, b.verbose)
	if made.Scrub != nil {
		p.report(*made.Scrub, b.verbose)
	}
	if made.Image != "" {
		p.line("%s from %s in %s%s", shown(made.Image), made.Base, show.Length(took), b.next(made))
	}
	if made.Differs != nil {
		p.line("second build: %s differ", show.Count(len(*made.Differs), "file"))
		for _, f := range *made.Differs {
			p.line("  %s: %s (%s)", f.Path, strings.Join(f.Differs, ", "), cmp.Or(f.Package, f.Group))
		}
	}
}

// next says what became of the disk image, or what a person can do with it.
func (b *building) next(made built) string {
	if made.AMI != nil && made.AMI.Image != nil {
		return fmt.Sprintf("; the AMI is %s in %s", made.AMI.Image.ID, made.AMI.Image.Region)
	}
	if made.AMI != nil {
		return ""
	}
	parent := ""
	if b.ami.spec.ParentAMI != "" {
		parent = " --parent-ami " + b.ami.spec.ParentAMI
	}
	return fmt.Sprintf("; next: eksnode ami import %s --ami-name NAME%s", show.ShellWord(made.Image), parent)
}

func (b built) report(file string) ([]byte, error) {
	if !page.Is(file) {
		return plan.EncodeJSON(b)
	}
	reports := []plan.Report{b.Provision}
	if b.Scrub != nil {
		reports = append(reports, *b.Scrub)
	}
	return page.Of(file, "eksnode build "+filepath.Base(b.Image)+" from "+b.Base, nil, reports...)
}

func buildInside(ctx context.Context, root string, input []byte) ([]byte, error) {
	var t buildTask
	if err := json.Unmarshal(input, &t); err != nil {
		return nil, fmt.Errorf("reading the task: %w", err)
	}
	h, err := host.Mounted(root)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := diskbuild.CanRun(h); err != nil {
		return nil, err
	}
	var made built
	if made.Provision, err = provisionRoot(ctx, h, t.Provision); err != nil {
		return nil, err
	}
	made.Provision.Machine.Root = "/"
	if made.Provision.Result.ExitCode() == 0 && !t.Provision.DryRun {
		out := output{verbose: t.Provision.Verbose}
		sink, stop := out.watch(&cobra.Command{}, agent.Scrub)
		r, _ := eksnode.Scrub(ctx, h, t.Scrub, eksnode.Options{Sink: sink}) // the report has the error too
		stop()
		r.Machine.Root = "/"
		made.Scrub = &r
	}
	return json.Marshal(made)
}
