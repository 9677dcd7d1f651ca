package rules

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// unusedSwapFiles plans the removal of swap files. A swap file in use is a
// finding: its memory must go elsewhere first.
func unusedSwapFiles(d *rule.Draft) {
	var active []string
	if d.Host.HasSystemd() {
		for line := range strings.Lines(string(d.Content("/proc/swaps"))) {
			name, _, _ := strings.Cut(line, " ")
			active = append(active, name)
		}
	}
	for _, name := range d.Paths[1:] {
		switch {
		case !d.IsFile(name):
		case slices.Contains(active, name):
			d.Find(name, "in use as swap: run swapoff "+name+" and remove its line from /etc/fstab")
		default:
			d.Remove(name, "it holds memory of the build")
		}
	}
	fstabWithoutSwapFiles(d, active)
}

// fstabWithoutSwapFiles plans fstab(5) without the lines of removed swap files:
// a boot would wait for them.
func fstabWithoutSwapFiles(d *rule.Draft, active []string) {
	text := string(d.Content(d.Paths[0]))
	left := rule.WithoutLines(text, func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 2 && f[2] == "swap" && slices.Contains(d.Paths[1:], f[0]) && !slices.Contains(active, f[0])
	})
	if left != text {
		d.Write(plan.Write, d.Paths[0], []byte(left), "names a swap file that the scrub removes")
	}
}

// mountUnit is a unit in /etc/systemd/system that mounts the disks of an
// instance store, or a folder on them.
type mountUnit struct {
	path        string // of the file of the unit
	description string
	what, where string
	bind        bool
}

func (u mountUnit) name() string { return path.Base(u.path) }

// instanceStoreUnits returns the mount units that a first boot wrote: `eksnode
// init` marks its units, and Amazon's setup-local-disks has its own
// description. Bind mounts of folders on these disks are included, and come
// first, so that units can be unmounted in this order.
func instanceStoreUnits(d *rule.Draft, files string) []mountUnit {
	var binds, disks, others []mountUnit
	d.OwnTexts(d.Glob(files), func(name string, text []byte) {
		u := parseMountUnit(name, text)
		own := isInits(text) || amazonMount().MatchString(u.description) ||
			strings.HasPrefix(u.where, "/mnt/k8s-disks/")
		switch {
		case !own:
			others = append(others, u)
		case u.bind:
			binds = append(binds, u)
		default:
			disks = append(disks, u)
		}
	})
	for _, u := range others {
		onDisk := func(disk mountUnit) bool { return strings.HasPrefix(u.what, disk.where+"/") }
		if u.bind && slices.ContainsFunc(disks, onDisk) {
			binds = append(binds, u)
		}
	}
	return append(binds, disks...)
}

// amazonMount matches the descriptions of setup-local-disks: of a disk or array,
// and of a folder on it.
var amazonMount = rule.Expression(`^Mount (\S+ on )?EC2 Instance Store NVMe (disk|RAID)`)

// parseMountUnit reads a unit as systemd does: space around lines does not
// count, and setup-local-disks indents every line.
func parseMountUnit(name string, text []byte) mountUnit {
	all := entries(string(text))
	return mountUnit{
		path: name, description: valueOf(all, "unit", "description"), what: valueOf(all, "mount", "what"),
		where: path.Join(valueOf(all, "mount", "where")),
		bind:  slices.Contains(strings.Split(valueOf(all, "mount", "options"), ","), "bind"),
	}
}

// instanceStore unmounts the instance store, so that the other rules see the
// image's own folders below the mounts. Leftover state in these folders would
// be captured unseen.
func instanceStore(d *rule.Draft) {
	if !d.Host.IsLive() {
		d.Answer.NotApplicable = "the rule is for running machines: an image root has no mounts of its own"
		return
	}
	for _, u := range instanceStoreUnits(d, d.Paths[0]) {
		mounted, err := d.Host.Files.IsMountPoint(u.where)
		d.Failed(err)
		if mounted {
			d.Act(plan.Action{Verb: plan.Unmount, Target: u.where,
				Reason: "the instance store hides the image's own files in this folder",
				Do:     func(ctx context.Context, _ plan.Progress) error { return u.unmount(ctx, d.Host) }})
		}
	}
}

// unmount stops the mount unit. It stops containerd during the unmount of
// containerd's folder.
func (u mountUnit) unmount(ctx context.Context, h *host.Host) error {
	if !h.HasSystemd() {
		return h.Unmount(u.where)
	}
	stop := func() error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", u.name()}})
		if err != nil {
			return fmt.Errorf("%w; stop what uses %s", err, u.where)
		}
		return nil
	}
	if u.where != "/var/lib/containerd" {
		return stop()
	}
	return withoutContainerd(ctx, h, stop)
}

// localDisks plans the removal of the units, of the links that enable them, and
// of the array's configuration.
func localDisks(d *rule.Draft) {
	units := instanceStoreUnits(d, d.Paths[1])
	names := slices.DeleteFunc(d.Glob(d.Paths[2]), func(link string) bool {
		dead := rule.Kept([]string{"mnt-k8s*disks-*.mount"}, path.Base(link)) // also without its unit
		return !dead && !slices.ContainsFunc(units, func(u mountUnit) bool { return u.name() == path.Base(link) })
	})
	for _, u := range units {
		names = append(names, u.path)
	}
	for _, name := range append(names, d.Paths[0]) {
		d.Plan(plan.Remove, name, "mounts the disks of another machine")
	}
}
