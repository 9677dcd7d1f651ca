package scrub

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// wipe makes removed files unreadable on the disk, after all other items. A
// disk does not show whether it was wiped, so the item is done only when this
// run has done it.
type wipe struct{ wiped []string } // file systems

func (*wipe) ID() string    { return "free-space" }
func (*wipe) Phase() string { return "wipe" }

// Plan implements plan.Item: it plans every file system of the machine that is
// on a disk, each once.
func (w *wipe) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	points, err := diskPoints(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	seen := slices.Clone(w.wiped)
	for _, p := range points {
		space, err := h.Files.Space(p)
		if err != nil {
			return plan.Answer{}, err
		}
		if space.ReadOnly {
			continue // nothing was removed here
		}
		fileSystem, err := h.Files.FileSystem(p)
		if err != nil {
			return plan.Answer{}, err
		}
		if slices.Contains(seen, fileSystem) {
			continue
		}
		seen = append(seen, fileSystem)
		answer.Act(plan.Action{Verb: plan.Wipe, Target: p,
			Reason: "removed files stay readable in the blocks of a snapshot until they are discarded or overwritten",
			Do: func(ctx context.Context, progress plan.Progress) error {
				err := clear(ctx, h, p, progress)
				if err == nil {
					w.wiped = append(w.wiped, fileSystem)
				}
				return err
			}})
	}
	return answer, nil
}

// diskPoints are the root and the mount points of the machine's own disks.
func diskPoints(h *host.Host) ([]string, error) {
	if !h.IsLive() {
		mounted, err := h.Files.IsMountPoint("/")
		if err != nil {
			return nil, err
		}
		if !mounted {
			return nil, errors.New("the image root is a folder on a file system of this machine, and wiping would " +
				"fill that file system: mount the image itself, or do not wipe free space")
		}
	}
	mounts, err := h.Files.MountsBelow("/")
	if err != nil {
		return nil, err
	}
	homes, _, err := rule.Homes(h)
	if err != nil {
		return nil, err
	}
	points := []string{"/"}
	for _, m := range mounts {
		if !strings.HasPrefix(m.Source, "/dev/") {
			continue
		}
		foreign, err := h.Files.Foreign(m.Path, sweptAbove(m.Path, homes), false)
		if err != nil {
			return nil, err
		}
		if foreign == nil {
			points = append(points, m.Path)
		}
	}
	return points, nil
}

// sweptAbove returns the folder above a mount point in which rules remove
// files, or the mount point itself if there is none.
func sweptAbove(name string, homes []string) string {
	for _, home := range homes {
		if name == home || strings.HasPrefix(name, home+"/") {
			return path.Dir(home)
		}
	}
	for _, dir := range []string{"/home", "/tmp", "/var/log", "/var/tmp"} {
		if strings.HasPrefix(name, dir+"/") {
			return dir
		}
	}
	return name
}

// clear discards the free space below a mount point. On a disk without discard,
// it fills the free space with zeros. On a disk that discards only pieces
// larger than the smallest file, it does both, because small freed pieces would
// stay readable.
func clear(ctx context.Context, h *host.Host, name string, progress plan.Progress) error {
	space, err := h.Files.Space(name)
	if err != nil {
		return err
	}
	_, err = h.Trim(name)
	unsupported := errors.Is(err, errors.ErrUnsupported)
	if err != nil && !unsupported {
		return err
	}
	if !unsupported && space.DiscardBytes <= space.BlockBytes {
		return nil
	}
	if _, err = h.ZeroFreeSpace(ctx, name, progress); err != nil || unsupported {
		return err
	}
	_, err = h.Trim(name) // frees the blocks of the zeros
	return err
}
