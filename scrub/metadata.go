package scrub

import (
	"context"
	"errors"
	"os"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/containerd"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// metadataRules has the rule for removed containers in containerd's database.
func metadataRules() []Rule {
	return []Rule{
		{
			ID: "containers-metadata", Phase: Unmount, Groups: []string{"kubelet", "containerd", "secrets"}, Verb: plan.Wipe,
			Paths: []string{containerdMeta}, Owner: "containerd",
			Why:         "removed containers and their environment, which may contain secrets, stay readable in free pages of containerd's database; the rule stops containerd for a moment",
			Regenerated: "nothing", Source: "bbolt: pages are freed, not cleared",
			Find: freedContainers,
		},
	}
}

// containerMark is part of every container in containerd's metadata, next to
// its whole specification: environment, arguments, annotations.
const containerMark = "types.containerd.io/opencontainers/runtime-spec"

// freedContainers plans the wiping of containerd's metadata. Its database,
// bbolt, keeps removed data in free pages until new data overwrites them.
func freedContainers(_ context.Context, h *host.Host) (plan.Answer, error) {
	m, err := containerd.ReadMetadata(h)
	if m == nil || err != nil {
		return plan.Answer{}, err
	}
	found, err := m.FreeContains([]byte(containerMark))
	if err = errors.Join(err, m.Close()); err != nil || !found {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Wipe, Target: containerdMeta,
		Reason: "removed containers and their environment stay readable in its free pages",
		Do:     func(ctx context.Context, _ plan.Progress) error { return wipeMetadata(ctx, h) }}), nil
}

// wipeMetadata fills the free pages with zeros.
func wipeMetadata(ctx context.Context, h *host.Host) error {
	if !h.HasSystemd() {
		return fillFreePages(h)
	}
	return withoutContainerd(ctx, h, func() error { return fillFreePages(h) })
}

// withoutContainerd calls a function while containerd is stopped, and then
// starts it again if it was running.
func withoutContainerd(ctx context.Context, h *host.Host, do func() error) (err error) {
	active, err := h.IsActive(ctx, containerdUnit)
	if err != nil {
		return err
	}
	if active {
		defer func() {
			err = errors.Join(err, h.PutBack(ctx, host.Command{Argv: []string{"systemctl", "start", containerdUnit}}))
		}()
		if _, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", containerdUnit}}); err != nil {
			return err
		}
	}
	return do()
}

func fillFreePages(h *host.Host) error {
	if err := h.Files.Unshare(containerdMeta); err != nil {
		return err
	}
	m, err := containerd.OpenMetadata(h, os.O_RDWR)
	if m == nil || err != nil {
		return err
	}
	return errors.Join(m.WipeFree(), m.Close()) // no other program opens the copy before
}
