package provisioner

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const fstab = "/etc/fstab"

// swap turns swap off, because a kubelet does not start with swap: now, in fstab(5), and in
// zram-generator(8), which the field swap configures. In a container and in an offline root,
// the kernel's swap belongs to another machine and stays.
func (n *node) swap(_ context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	g.add(plan.Edits(h, plan.Edit{Path: fstab, Target: fstab, Why: noSwap, Change: withoutSwap}))
	g.add(n.planZram(h))
	active, err := activeSwap(h)
	g.add(nil, err)
	for _, name := range active {
		if n.spec.Swap == swapZram && strings.HasPrefix(name, "/dev/zram") {
			continue
		}
		g.actions = append(g.actions, plan.Command(h, noSwap, "swapoff", name))
	}
	return g.all()
}

// withoutSwap comments out the lines of swap.
func withoutSwap(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 3 && !strings.HasPrefix(f[0], "#") && f[2] == "swap" {
			out.WriteString("# no swap on a node: ")
		}
		out.WriteString(line)
	}
	return out.String()
}

// activeSwap lists the swap in use on a running machine.
func activeSwap(h *host.Host) ([]string, error) {
	if contained, err := inContainer(h); err != nil || contained || !h.HasSystemd() {
		return nil, err
	}
	text, err := h.Content("/proc/swaps")
	if err != nil {
		return nil, fmt.Errorf("reading the active swap: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], "/") {
			names = append(names, show.Unescape(f[0]))
		}
	}
	return names, nil
}

// The files of zram-generator(8). A file in /etc replaces the vendor's file of the
// same name, and a link to /dev/null hides that file.
const (
	zramGenerator = "/usr/lib/systemd/system-generators/zram-generator"
	zramConfig    = "/etc/systemd/zram-generator.conf"
	zramDropIns   = "/etc/systemd/zram-generator.conf.d"
)

const noSwap = "a kubelet does not start with swap"

// planZram plans a configuration without devices for zram-generator, which makes
// swap in memory at each boot, and hides the vendor's drop-ins. Drop-ins of an
// administrator are an error.
func (n *node) planZram(h *host.Host) ([]plan.Action, error) {
	if n.spec.Swap == swapZram {
		return plan.Files(h, []plan.File{textFile(zramConfig, "[zram0]\nzram-size = min(ram / 2, 4096)\n",
			"swap asks for swap in memory")})
	}
	installed, err := h.Exists(zramGenerator)
	if err != nil || !installed {
		return nil, err
	}
	if err := refuseDropIns(h); err != nil {
		return nil, err
	}
	var masks []distros.Masked
	for _, folder := range []string{"/usr/lib", "/usr/local/lib"} {
		names, err := dropIns(h, folder+"/systemd/zram-generator.conf.d")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			mask := distros.Masked{Path: path.Join(zramDropIns, name), Why: noSwap}
			if !slices.Contains(masks, mask) {
				masks = append(masks, mask)
			}
		}
	}
	var g gathered
	g.add(plan.Files(h, []plan.File{
		textFile(zramConfig, "# Without a device: a kubelet does not start with swap.\n", noSwap),
	}))
	g.add(planMasks(h, masks))
	return g.all()
}

// refuseDropIns returns an error about an administrator's drop-in that hides
// nothing.
func refuseDropIns(h *host.Host) error {
	names, err := dropIns(h, zramDropIns)
	if err != nil {
		return err
	}
	for _, name := range names {
		name = path.Join(zramDropIns, name)
		if to, err := h.Files.ReadlinkIfPossible(name); err != nil || to != nothing {
			return fmt.Errorf("%s configures swap in memory, with which a kubelet does not start: remove the file",
				name)
		}
	}
	return nil
}

func dropIns(h *host.Host, folder string) ([]string, error) {
	entries, err := entries(h, folder)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of zram-generator: %w", err)
	}
	names := show.Each(entries, fs.FileInfo.Name)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".conf") }), nil
}
