//go:build !agent

package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// building holds the flags of `eksnode build`.
type building struct {
	spec  provisioner.Spec
	local provisioner.Local
	disk  diskbuild.Build
	// file is the spec file, base and sum are the base image's name and checksum.
	file, base, sum string
	dryRun, verbose bool
	output, report  string
	to              *destination
}

func buildCommand() *cobra.Command {
	var b building
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Turn a cloud image into an EKS node image, without a machine",
		Long: `Build copies a distribution's cloud image, provisions the copy, scrubs and audits
it, and writes the disk image for eksnode ami import. No instance, virtual machine,
SSH or key is needed, only Linux and root. Programs of the image run in a sandbox.
The base image is not changed. After a failure or an audit with findings, no file
is written.`,
		Example: `  sudo eksnode build --base debian-13 --kubernetes-version 1.36.3 --image node.qcow2
  sudo eksnode build --base image.qcow2 --disk-size 20 --spec spec.yaml --image node.raw`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&b.base, "base", "", "base image: a raw, qcow2 or VHD file, an http or https address, or a name such as "+distros.CloudImages()[0])
	f.StringVar(&b.sum, "base-checksum", "", "SHA-256 or SHA-512 of the base image; required for an address")
	f.StringVarP(&b.disk.File, "image", "o", "", "disk image to write: FILE.raw, FILE.img or FILE.qcow2")
	f.BoolVar(&b.disk.Force, "force", false, "replace the disk image if there is one")
	f.Int64Var(&b.disk.SizeGiB, "disk-size", 0, "size of the disk in GiB (default: that of the base image)")
	f.IntVar(&b.disk.Root, "partition", 0, "number of the root partition (default: found by its type, label or content)")
	f.StringVar(&b.file, "spec", "", "YAML or JSON file with all options of provision, instead of flags")
	options(f, provisionHelp(), &b.spec)
	options(f, provisionHelp(), &b.local, "lock_file", "cache_folder")
	f.BoolVar(&b.dryRun, "dry-run", false, "print the plan of provision and write no disk image")
	formatFlag(cmd, &b.output, "text", "json")
	f.StringVar(&b.report, "report", "", "file for the JSON report")
	f.BoolVar(&b.verbose, "verbose", false, "print every step, rule and action, also where nothing changes")
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
}

// passed says whether the disk may be kept.
func (b built) passed() bool {
	return b.Provision.Result.ExitCode() == 0 && b.Scrub != nil && b.Scrub.Result.ExitCode() == 0
}

func (b *building) check(cmd *cobra.Command) error {
	if b.base == "" {
		return fmt.Errorf("--base is missing: name a disk image, or one of %s", strings.Join(distros.CloudImages(), ", "))
	}
	if b.disk.File == "" && !b.dryRun {
		return errors.New("--image is missing: name the disk image to write, such as --image node.qcow2")
	}
	if b.dryRun { // the copy is in this folder, and ends with the run
		b.disk.File = filepath.Join(os.TempDir(), "eksnode-dry-run.raw")
	}
	if b.file != "" {
		if err := errors.Join(alone(cmd.Flags(), "base", "base-checksum", "image", "force", "disk-size", "partition"), readSpec(b.file, &b.spec)); err != nil {
			return err
		}
	}
	if err := errors.Join(readLockInto(b.local.LockFile, &b.spec), b.local.Check(b.spec), b.disk.Validate()); err != nil {
		return err
	}
	err := b.spec.Validate()
	if b.file != "" {
		err = inFields(err)
	}
	return err
}

func (b *building) run(cmd *cobra.Command) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	if b.report != "" {
		var err error
		if b.to, err = openDestination(ctx, b.report); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
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
	b.local.CacheFolder = cache
	var made built
	if b.disk.Base, made.Base, err = b.get(ctx, cmd.ErrOrStderr()); err != nil {
		return err
	}
	b.disk.Progress = cmd.ErrOrStderr()
	b.local.CacheFolder = diskaudit.WorkFolder
	b.disk.Input = buildTask{
		Provision: rootTask{Spec: b.spec, Local: b.local, Verbose: b.verbose, Flags: b.file == "", DryRun: b.dryRun},
		Scrub:     scrub.Spec{Audit: scrub.AuditFails},
	}
	base := made.Base
	notes, err := b.disk.Run(ctx, &made, func() bool { return made.passed() })
	made.Base = base
	if err != nil {
		return err
	}
	made.Provision.Warnings = append(made.Provision.Warnings, notes...)
	if made.passed() {
		made.Image = b.disk.File
		if info, err := os.Stat(b.disk.File); err == nil {
			made.Size = info.Size()
		}
	}
	return b.finish(cmd, made, time.Since(began))
}

// finish prints the result, and writes the report.
func (b *building) finish(cmd *cobra.Command, made built, took time.Duration) error {
	var errs []error
	if b.to != nil {
		text, err := json.MarshalIndent(made, "", "  ")
		errs = append(errs, err, b.to.write(append(text, '\n')))
	}
	out := newPrinter(cmd.OutOrStdout())
	if b.output == "json" {
		errs = append(errs, writeJSON(cmd.OutOrStdout(), made))
	} else {
		errs = append(errs, printReport(out, made.Provision, b.verbose))
		if made.Scrub != nil {
			errs = append(errs, printReport(out, *made.Scrub, b.verbose))
		}
		if made.Image != "" {
			out.line("%s from %s in %s; next: eksnode ami import %s --ami-name NAME", shown(made.Image), made.Base, show.Length(took), show.ShellWord(made.Image))
		}
		errs = append(errs, out.err)
	}
	errs = append(errs, resultError(made.Provision))
	if made.Scrub != nil {
		errs = append(errs, resultError(*made.Scrub))
	}
	return errors.Join(errs...)
}

// get returns the path of the base image, and how a person knows it.
func (b *building) get(ctx context.Context, errOut io.Writer) (file, name string, err error) {
	base := asset.Base{URL: b.base, Sum: b.sum}
	_, missing := os.Stat(b.base)
	switch {
	case strings.HasPrefix(b.base, "https://") || strings.HasPrefix(b.base, "http://"):
		if b.sum == "" {
			return "", "", fmt.Errorf("--base-checksum is missing: give the SHA-256 or SHA-512 of %s; nothing is used without one", b.base)
		}
	case missing == nil || strings.ContainsRune(b.base, filepath.Separator):
		if b.sum != "" {
			err = asset.CheckSum(ctx, b.base, b.sum)
		}
		if err != nil {
			err = fmt.Errorf("checking the base image %s: %w", b.base, err)
		}
		return b.base, b.base, err
	default:
		image, err := distros.CloudImageByName(b.base, runtime.GOARCH)
		if err != nil {
			return "", "", fmt.Errorf("--base: %w", err)
		}
		base.URL, base.Sums = image.URL, image.Sums
	}
	newPrinter(errOut).line("base image: %s", base.URL)
	transfer := newMeter(errOut)
	defer transfer.end()
	file, err = asset.NewCache(b.local.CacheFolder, asset.NewFetcher(asset.UsualPatience())).Base(ctx, base, transfer.fetched)
	return file, base.URL, err
}

// buildInside works in the mounted disk.
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
	if err := sameArch(h); err != nil {
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

// sameArch refuses a disk whose programs this machine cannot run.
func sameArch(h *host.Host) error {
	shell, err := h.Files.Open("/bin/sh")
	if err != nil {
		return fmt.Errorf("the image has no shell, so it is no Linux system that can be built: %w", err)
	}
	defer shell.Close()
	program, err := elf.NewFile(shell)
	if err != nil {
		return fmt.Errorf("reading /bin/sh of the image: %w", err)
	}
	wanted := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if program.Machine != wanted {
		is := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[program.Machine]
		return fmt.Errorf("the base image is for %s, but this machine is %s: build on a machine of that architecture", cmp.Or(is, program.Machine.String()), runtime.GOARCH)
	}
	return nil
}
