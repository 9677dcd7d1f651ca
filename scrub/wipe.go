package scrub

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// wipe makes removed files unreadable in the disk's blocks, after everything
// else. Nobody can see on a disk that it was wiped, so it is to do until this
// run has done it.
type wipe struct{ wiped []string } // file systems

func (*wipe) ID() string    { return "free-space" }
func (*wipe) Phase() string { return "wipe" }

// Plan implements plan.Item: every file system of the machine that is on a
// disk, once, however often it is mounted.
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
			continue // nothing was removed there either
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
			Reason: "removed files stay readable in a snapshot's blocks until they are discarded or overwritten",
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
			return nil, errors.New("the root is a folder on a file system of this machine, whose free space is not the image's: mount the image itself, or leave the free space")
		}
	}
	mounts, err := h.Files.MountsBelow("/")
	if err != nil {
		return nil, err
	}
	homes, err := Homes(h)
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

// sweptAbove is the folder above a mount point inside which rules go; the mount
// point itself where there is none.
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

// clear discards the free space below a mount point. Where the disk knows no
// discard it is filled with zeros; where it discards only pieces larger than a
// file's smallest, both: what shares a piece with a file would else stay.
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
	_, err = h.Trim(name) // gives back what the zeros took
	return err
}
