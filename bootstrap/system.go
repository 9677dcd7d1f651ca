package bootstrap

import (
	"context"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// system makes systemd and systemd-resolved read their changed files.
type system struct{ files []render.File }

func (system) ID() string    { return "system" }
func (system) Phase() string { return string(Config) }

// reader is a service and the command that makes the service read its files.
type reader struct {
	service render.Service
	argv    []string
	why     string
}

// Plan implements plan.Item. Done means that both services have read their current
// files.
func (s system) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	if !h.HasSystemd() {
		return plan.Answer{}, nil
	}
	var answer plan.Answer
	for _, r := range []reader{
		{render.Systemd, []string{"systemctl", "daemon-reload"}, "systemd must read the services' environments"},
		{render.Resolved, []string{"systemctl", "restart", "systemd-resolved.service"}, "systemd-resolved must read its DNS servers"},
	} {
		sum := digest(s.files, r.service)
		current, err := service.IsStartedWith(h, string(r.service), sum)
		if err != nil {
			return plan.Answer{}, err
		}
		if current {
			continue
		}
		if r.service == render.Resolved {
			there, err := h.HasUnit("systemd-resolved.service")
			if err != nil {
				return plan.Answer{}, err
			}
			if !there {
				return plan.Answer{}, fmt.Errorf("spec.instance.network needs systemd-resolved, which is not installed")
			}
		}
		answer.Act(plan.Action{Verb: plan.Run, Target: host.Command{Argv: r.argv}.String(), Reason: r.why,
			Do: func(ctx context.Context, _ plan.Progress) error {
				if _, err := h.Run(ctx, host.Command{Argv: r.argv}); err != nil {
					return err
				}
				return service.RecordStart(h, string(r.service), sum)
			}})
	}
	return answer, nil
}

// digest returns the digest of the files that a service reads, or an empty text
// when the service reads none. An empty text equals the missing record of a
// service that was never started.
func digest(files []render.File, of render.Service) string {
	var d service.Digest
	for _, f := range files {
		if slices.Contains(f.Of, of) {
			d.Add(f.Path, f.Content)
		}
	}
	if d.IsEmpty() {
		return ""
	}
	return d.Sum()
}

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
