package provisioner

import (
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const fstab = "/etc/fstab"

// swap turns swap off, because a kubelet does not start with swap: now, in
// fstab(5), and in zram-generator(8), which the field swap configures. In a container and in an
// offline root, the kernel's swap belongs to another machine and stays.
func (n *node) swap() step {
	return step{"swap", func(_ context.Context, h *host.Host) ([]plan.Action, error) {
		var g gathered
		g.add(planFstab(h))
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
	}}
}

// planFstab plans to comment out the lines of swap.
func planFstab(h *host.Host) ([]plan.Action, error) {
	text, err := h.Content(fstab)
	if err != nil {
		return nil, fmt.Errorf("reading fstab: %w", err)
	}
	without := withoutSwap(string(text))
	if without == string(text) {
		return nil, nil
	}
	attr, err := h.Files.Attributes(fstab)
	if err != nil {
		return nil, fmt.Errorf("reading fstab: %w", err)
	}
	return []plan.Action{{Verb: plan.Write, Target: fstab, Reason: noSwap,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(fstab, []byte(without), attr) }}}, nil
}

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
