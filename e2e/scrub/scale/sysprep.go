package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

// sysprepFiles is the size of the pods' state on the disk of both.
const sysprepFiles = 10_000

// sysprep lets virt-sysprep, and a scrub with the audit that verifies it, clean
// the same disk: the base system with the state of pods.
func (m *measurement) sysprep(ctx context.Context, section *report.Section) (err error) {
	// Its appliance boots a kernel, which the base system has.
	if err := base.Install(ctx, m.log, "guestfs-tools", "qemu-system-x86", "qemu-utils"); err != nil {
		return fmt.Errorf("%w (or leave virt-sysprep out)", err)
	}
	system, err := base.Debian{}.Prepare(ctx, m.log)
	if err != nil {
		return err
	}
	kernels, err := filepath.Glob(filepath.Join(system, "lib/modules/*"))
	if err != nil || len(kernels) != 1 {
		return errors.Join(err, fmt.Errorf("looking for the base system's kernel: there are %d", len(kernels)))
	}
	kernel := filepath.Base(kernels[0])
	// supermin lists this folder even when it is told another.
	if err := os.MkdirAll("/lib/modules", 0o755); err != nil {
		return err
	}

	d, err := newDisk(ctx, m.folder, "ext4", 200_000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	if err := m.fill(ctx, d, system); err != nil {
		return err
	}
	prepare := func(ctx context.Context) error { return d.restore(ctx) }
	nothing := func(context.Context) (contest.Counts, error) { return nil, nil }
	const scrub = `mount -o loop "$2" "$3"
"$1" scrub --yes --audit off --root "$3"
"$1" audit --skip-rules assets --root "$3"
umount "$3"`
	outcome, err := contest.Contest{
		Name: "a disk with Debian 12 and the state of pods", Rounds: 1, Now: m.Now, Log: m.log,
		Contestants: []contest.Contestant{
			{Name: "eksnode scrub and audit", Prepare: prepare, Check: nothing, Run: func(ctx context.Context) (contest.Counts, error) {
				return run(ctx, "/", []string{"sh", "-ec", scrub, "sh", m.Eksnode, d.file, d.point})
			}},
			{Name: "virt-sysprep", Prepare: prepare, Check: nothing, Run: func(ctx context.Context) (contest.Counts, error) {
				return run(ctx, "/", []string{"env", "LIBGUESTFS_BACKEND=direct", "LIBGUESTFS_BACKEND_SETTINGS=force_tcg",
					"SUPERMIN_KERNEL=" + filepath.Join(system, "boot", "vmlinuz-"+kernel), "SUPERMIN_KERNEL_VERSION=" + kernel,
					"SUPERMIN_MODULES=" + kernels[0], "LIBGUESTFS_CACHEDIR=" + m.folder, "virt-sysprep", "--format", "raw", "-a", d.file})
			}},
		},
	}.Run(ctx)
	if err != nil {
		return err
	}
	section.Contests = append(section.Contests, outcome)
	section.Goals = append(section.Goals, report.NewGoal("scrub and audit of a disk: time to virt-sysprep's", outcome.Ratio(1), 0.05))
	section.Notes = append(section.Notes, "virt-sysprep boots its appliance under emulation; where virtual machines run natively it takes less")
	return nil
}

// fill puts the base system and the state of pods on the disk.
func (m *measurement) fill(ctx context.Context, d *disk, system string) error {
	if err := d.mount(ctx); err != nil {
		return err
	}
	if err := command(ctx, "cp", "-a", system+"/.", d.point); err != nil {
		return err
	}
	release, err := os.ReadFile(filepath.Join(d.point, "etc/os-release"))
	if err != nil {
		return err
	}
	accounts, err := os.ReadFile(filepath.Join(d.point, "etc/passwd"))
	if err != nil {
		return err
	}
	_, err = Generate(d.point, sysprepFiles)
	return errors.Join(err,
		os.WriteFile(filepath.Join(d.point, "etc/os-release"), release, 0o644),
		os.WriteFile(filepath.Join(d.point, "etc/passwd"), accounts, 0o644),
		d.unmount(), d.keep())
}
