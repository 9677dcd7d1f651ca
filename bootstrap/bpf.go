package bootstrap

import (
	"context"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// bpf mounts the bpf file system, in which eBPF programs pin maps and programs.
// systemd mounts it itself since version 238.
type bpf struct{}

func (bpf) ID() string    { return "bpf-file-system" }
func (bpf) Phase() string { return "disks" }

// Plan implements plan.Item. Done means that the bpf file system is mounted, or
// that the kernel does not support it.
func (bpf) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	const where = "/sys/fs/bpf"
	there, err := h.Exists(where)
	if err != nil || !there {
		return plan.Answer{}, err
	}
	mounted, err := h.Files.IsMountPoint(where)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("looking at %s: %w", where, err)
	}
	if mounted {
		return plan.Answer{}, nil
	}
	c := host.Command{Argv: []string{"mount", "-t", "bpf", "bpf", where}}
	return plan.Acts(plan.Action{Verb: plan.Run, Target: c.String(), Reason: "network policies keep their eBPF programs there", Do: func(ctx context.Context, _ plan.Progress) error {
		_, err := h.Run(ctx, c)
		return err
	}}), nil
}
