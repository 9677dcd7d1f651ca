//go:build !agent

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
)

// minorForm is a minor version of Kubernetes 1.
var minorForm = regexp.MustCompile(`^1\.[0-9]+$`)

// newest replaces minor versions by their newest patch releases.
func (l *locking) newest(ctx context.Context, f *asset.Fetcher, out io.Writer) error {
	for i, version := range l.kubernetes {
		if !minorForm.MatchString(version) {
			continue
		}
		patch, err := f.NewestPatch(ctx, version, l.spec.Source, l.spec.SourceURL)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "the newest Kubernetes %s is %s\n", version, patch)
		l.kubernetes[i] = patch
	}
	return nil
}

// moves prints the entries of a lock file that are not the newest, with the pages about
// their changes, and returns the new version for each version of Kubernetes. It selects
// what the lock file has.
func (l *locking) moves(ctx context.Context, f *asset.Fetcher, lock *asset.Lock, out io.Writer) (
	to map[string]string, moved int, err error) {
	to, days := map[string]string{}, map[string]string{}
	l.arches, l.only = nil, map[string]bool{}
	seen := map[string]bool{}
	for _, a := range lock.Assets {
		if l.spec.Source == "" && a.Origin == asset.EKSBucket {
			l.spec.Source = asset.EKSBucket
		}
		if l.only[a.ID] = true; !slices.Contains(l.arches, a.Arch) {
			l.arches = append(l.arches, a.Arch)
		}
	}
	for _, a := range lock.Assets {
		table := asset.Table()
		number := slices.IndexFunc(table, func(r asset.Asset) bool { return r.ID == a.ID })
		minor := strings.TrimSuffix(a.Kubernetes, path.Ext(a.Kubernetes))
		switch {
		case number < 0:
			return nil, 0, l.unusable(a, "this eksnode knows no asset of this name")
		case !minorForm.MatchString(minor):
			return nil, 0, l.unusable(a, "the version must be complete, such as 1.36.3")
		}
		if to[a.Kubernetes] == "" {
			if to[a.Kubernetes], err = f.NewestPatch(ctx, minor, l.spec.Source, l.spec.SourceURL); err != nil {
				return nil, 0, err
			}
			if asset.IsNewer(a.Kubernetes, to[a.Kubernetes]) {
				to[a.Kubernetes] = a.Kubernetes
			}
		}
		row := table[number]
		version, day := to[a.Kubernetes], ""
		switch {
		case a.Origin == asset.EKSBucket && row.EKS != nil:
			if days[version] == "" {
				if days[version], err = f.NewestBuild(ctx, version, l.spec.SourceURL); err != nil {
					return nil, 0, err
				}
			}
			day = days[version]
		case row.Version != "":
			version = cmp.Or(l.spec.Versions[a.ID], row.Version)
			if l.spec.Versions[a.ID] == "" && asset.IsNewer(a.Version, version) {
				version = a.Version
				l.keep(a.ID, version)
			}
		}
		line := fmt.Sprintf("%s %s -> %s", a.ID, strings.TrimSpace(a.Version+" "+a.BuildDate),
			strings.TrimSpace(version+" "+day))
		if (version != a.Version || day != a.BuildDate) && !seen[line] {
			seen[line] = true
			moved++
			fmt.Fprintf(out, "%s  %s\n", line, row.Notes(version))
		}
	}
	for _, i := range lock.Images {
		r, err := image.ParseReference(i.Name)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the lock file: %w", err)
		}
		digest, err := l.resolve(ctx, r)
		if err != nil {
			return nil, 0, err
		}
		l.images = append(l.images, i.Name)
		if digest != i.Digest {
			moved++
			fmt.Fprintf(out, "%s %s -> %s\n", i.Name, i.Digest, digest)
		}
	}
	return to, moved, nil
}

func (l *locking) unusable(a asset.Locked, why string) error {
	return fmt.Errorf("the lock file %s, the entry of %s for Kubernetes %s on %s: %s; create the file again without "+
		"--check and --update", l.file, a.ID, a.Kubernetes, a.Arch, why)
}

// keep locks the version of an asset that is newer than the one of this eksnode.
func (l *locking) keep(id, version string) {
	if l.spec.Versions == nil {
		l.spec.Versions = map[string]string{}
	}
	l.spec.Versions[id] = version
}

// dropOld removes the entries of the versions of Kubernetes that have moved.
func dropOld(lock *asset.Lock, to map[string]string) {
	for _, a := range slices.Clone(lock.Assets) {
		if next := to[a.Kubernetes]; next != "" && next != a.Kubernetes {
			lock.Drop(a.ID, a.Kubernetes, a.Arch)
		}
	}
}
