package asset

import (
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// locked completes the choice from the lock file. A choice that contradicts the
// lock file is an error.
func (c Choice) locked(a Asset) (Choice, Locked, error) {
	if c.Lock == nil {
		if c.Origin == "" {
			c.Origin = Upstream
		}
		return c, Locked{}, nil
	}
	l, ok := c.Lock.Find(a.ID, c.Kubernetes, c.Arch)
	_, published := a.from(c.Origin)
	switch {
	case !ok:
		return c, l, fmt.Errorf(`the lock file has no %s for Kubernetes %s on %s; add it with "eksnode lock --kubernetes-version %[2]s --arch %[3]s"`, a.ID, c.Kubernetes, c.Arch)
	case c.Origin != "" && published != l.Origin:
		return c, l, surface.Errorf("%s %q takes %s from %s, but the lock file takes it from %s; correct the %s, or update the lock file", surface.Name("source"), c.Origin, a.ID, published, l.Origin, surface.Field())
	case c.Date != "" && l.BuildDate != "" && c.Date != l.BuildDate:
		return c, l, surface.Errorf("%s is %q, but the lock file has %s of %s; correct the %s, or update the lock file", surface.Name("eks_build_date"), c.Date, a.ID, l.BuildDate, surface.Field())
	case c.Version != "" && c.Version != l.Version:
		return c, l, surface.Errorf("%s is %q, but the lock file has %s; correct the %s, or update the lock file", surface.Name("versions").Key(a.ID), c.Version, l.Version, surface.Field())
	case c.SHA256 != "" && !strings.EqualFold(c.SHA256, l.SHA256):
		return c, l, surface.Errorf("%s is %s, but the lock file has %s; correct the %s, or update the lock file", surface.Name("checksums").Key(a.ID), c.SHA256, l.SHA256, surface.Field())
	}
	c.Origin, c.Date, c.Version, c.SHA256 = l.Origin, l.BuildDate, l.Version, l.SHA256
	return c, l, nil
}

// pin applies a lock entry to a download. An empty entry changes nothing.
func (l Locked) pin(d *Download) error {
	if l.ID == "" {
		return nil
	}
	if d.Published != l.URL {
		return fmt.Errorf("the lock file has %s %s from %s, but this download comes from %s; update the lock file if that is right", l.ID, l.Version, l.URL, d.Published)
	}
	d.SHA256, d.Size, d.PinnedBy = l.SHA256, l.Size, "the lock file"
	return nil
}

// Lock fetches and verifies a download and returns its entry for the lock file. It
// ignores the pins of the present lock file, because it updates them.
func (c *Cache) Lock(ctx context.Context, a Asset, choice Choice, progress plan.Progress) (Locked, error) {
	choice.Lock = nil
	d, err := a.For(choice)
	if err != nil {
		return Locked{}, err
	}
	kept, err := c.Get(ctx, d, progress)
	if err != nil {
		return Locked{}, err
	}
	if err := d.judge(kept.Path, choice.Arch); err != nil {
		return Locked{}, err
	}
	l := Locked{
		ID: d.ID, Kubernetes: choice.Kubernetes, Arch: choice.Arch, Version: d.Version, Origin: d.Origin,
		URL: d.Published, SumFrom: d.sumFrom(), Size: kept.Size, SHA256: kept.SHA256,
	}
	if d.URL != d.Published {
		l.FetchedFrom = recordedFrom(d.URL)
	}
	if d.Origin == EKSBucket {
		l.BuildDate = choice.Date
	}
	return l, nil
}
