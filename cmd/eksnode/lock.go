//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/registry"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

func arches() []string { return []string{"amd64", "arm64"} }

// locking holds the flags of `eksnode lock`.
type locking struct {
	file       string
	kubernetes []string
	images     []string
	arches     []string
	distros    []string
	spec       provisioner.Spec
	local      provisioner.Local
	accept     bool
	update     bool
	looks      bool
	only       map[string]bool // the assets to lock; nil means all
}

func lockCommand() *cobra.Command {
	var l locking
	cmd := newCommand("lock", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return l.run(cmd.Context(), cmd.OutOrStdout())
	})
	f := cmd.Flags()
	l.file = "eksnode.lock.json"
	l.arches = arches()
	bind(cmd, targets{
		"file": &l.file, "kubernetes-version": &l.kubernetes, "arch": &l.arches, "distro": &l.distros,
		"images": &l.images, "update": &l.update, "check": &l.looks, "accept-changes": &l.accept,
	})
	options(f, &l.spec, "source", "eks_build_date", "source_url", "allow_http", "containerd", "versions", "checksums")
	options(f, &l.local, "image_archives", "cache_folder")
	for _, one := range []string{"update", "check"} {
		for _, other := range []string{"kubernetes-version", "arch", "distro", "containerd", "images"} {
			cmd.MarkFlagsMutuallyExclusive(one, other)
		}
	}
	cmd.MarkFlagsMutuallyExclusive("update", "check")
	cmd.MarkFlagsMutuallyExclusive("check", "accept-changes")
	return cmd
}

func (l *locking) run(ctx context.Context, out io.Writer) error {
	var err error
	file, lock := &destination{exists: true}, &asset.Lock{}
	if !l.looks { // a check writes nothing
		if file, err = openDestination(ctx, l.file); err != nil {
			return fmt.Errorf("--file: %w", err)
		}
	}
	if file.exists {
		if lock, err = provisioner.ReadLock(l.file); err != nil {
			return fmt.Errorf("--file: %w", err)
		}
	}
	fetcher := asset.NewFetcher(asset.UsualPatience())
	var to map[string]string
	if (l.update || l.looks) && len(lock.Assets)+len(lock.Images) > 0 {
		moved := 0
		if to, moved, err = l.moves(ctx, fetcher, lock, out); err != nil {
			return err
		}
		switch {
		case moved == 0:
			fmt.Fprintf(out, "%s has the newest of everything\n", l.file)
			return nil
		case l.looks:
			return exitError(1)
		}
		l.kubernetes = slices.Compact(slices.Sorted(maps.Values(to)))
	}
	if err := l.newest(ctx, fetcher, out); err != nil {
		return err
	}
	if len(l.kubernetes) == 0 && len(l.images) == 0 {
		for _, a := range lock.Assets {
			if !slices.Contains(l.kubernetes, a.Kubernetes) {
				l.kubernetes = append(l.kubernetes, a.Kubernetes)
			}
		}
	}
	if len(l.kubernetes) == 0 && len(l.images) == 0 {
		why := "does not exist"
		if file.exists {
			why = "has no versions"
		}
		instead := ""
		if l.update {
			instead = ", without --update"
		}
		return fmt.Errorf("the lock file %s %s; name the kubelets with --kubernetes-version, such as 1.36.3%s",
			l.file, why, instead)
	}
	if err := l.check(); err != nil {
		return err
	}
	if l.local.CacheFolder, err = l.local.Cache(); err != nil {
		return err
	}
	for _, version := range l.kubernetes {
		for _, arch := range l.arches {
			if err := l.machine(ctx, fetcher, lock, version, arch, out); err != nil {
				return err
			}
		}
	}
	if err := l.lockImages(ctx, lock, out); err != nil {
		return err
	}
	dropOld(lock, to)
	return writeLock(file, lock)
}

func (l locking) check() error {
	errs := []error{l.checkDistros()}
	for _, version := range l.kubernetes {
		if errs[0] != nil {
			break // each spec would repeat the error
		}
		l.spec.KubernetesVersion = version // decides which assets a distribution downloads
		for _, spec := range l.specs() {
			if err := spec.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("for Kubernetes %s: %w", version, err))
			}
		}
	}
	if len(l.local.ImageArchives) > 0 && len(l.images) == 0 {
		errs = append(errs, errors.New("--image-archives has no effect without --images"))
	}
	for _, text := range l.images {
		if _, err := image.ParseReference(text); err != nil {
			errs = append(errs, fmt.Errorf("--images: %w", err))
		}
	}
	for _, arch := range l.arches {
		if !slices.Contains(arches(), arch) {
			errs = append(errs, fmt.Errorf("--arch: %q is not known; known: %s", arch, strings.Join(arches(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// checkDistros validates --distro and the flags that depend on it.
func (l locking) checkDistros() error {
	var errs []error
	for _, id := range l.distros {
		if _, err := distros.ByID(id); err != nil {
			errs = append(errs, err)
		}
	}
	if l.spec.Containerd != "" && len(l.distros) == 0 {
		errs = append(errs, errors.New("--containerd has no effect without --distro: name the distributions of your "+
			"builds"))
	}
	if len(l.distros) > 0 && len(l.kubernetes) == 0 {
		errs = append(errs, errors.New("--distro has no effect without --kubernetes-version: an image is the same "+
			"on every distribution"))
	}
	return errors.Join(errs...)
}

// specs are the spec for each distribution, or one spec without a distribution. A
// pin of an asset that only another distribution downloads is left out.
func (l locking) specs() []provisioner.Spec {
	if len(l.distros) == 0 {
		return []provisioner.Spec{l.spec}
	}
	var list []provisioner.Spec
	for _, id := range l.distros {
		spec := l.spec
		spec.Distro = id
		elsewhere := func(asset, _ string) bool { return !spec.Downloads(asset) && l.downloads(asset) }
		spec.Versions, spec.Checksums = maps.Clone(spec.Versions), maps.Clone(spec.Checksums)
		maps.DeleteFunc(spec.Versions, elsewhere)
		maps.DeleteFunc(spec.Checksums, elsewhere)
		list = append(list, spec)
	}
	return list
}

func (l locking) downloads(id string) bool {
	if l.only != nil {
		return l.only[id]
	}
	if len(l.distros) == 0 {
		return true
	}
	return slices.ContainsFunc(l.distros, func(distro string) bool {
		spec := l.spec
		spec.Distro = distro
		return spec.Downloads(id)
	})
}

func (l locking) machine(ctx context.Context, f *asset.Fetcher, lock *asset.Lock, version, arch string,
	out io.Writer) error {
	l.spec.KubernetesVersion = version
	date := l.spec.EKSBuildDate
	if l.spec.Source == asset.EKSBucket && date == "" {
		var err error
		if date, err = f.NewestBuild(ctx, version, l.spec.SourceURL); err != nil {
			return err
		}
	}
	for _, a := range asset.Table() {
		if !a.NeededBy(version) || !l.downloads(a.ID) {
			if old, was := lock.Find(a.ID, version, arch); was {
				lock.Drop(a.ID, version, arch)
				fmt.Fprintf(out, "%-9s %s %s for Kubernetes %s on %s\n", "removed", a.ID, old.Version, version, arch)
			}
			continue
		}
		locked, err := asset.NewCache(l.local.CacheFolder, f).Lock(ctx, a, asset.Choice{
			Kubernetes: version, Arch: arch, Version: l.spec.Archive(a.ID), SHA256: l.spec.Checksums[a.ID],
			Origin: l.spec.Source, Date: date, Source: l.spec.SourceURL, AllowHTTP: l.spec.AllowHTTP,
		}, func(int64, int64) {})
		if err != nil {
			return err
		}
		old, was := lock.Find(a.ID, version, arch)
		if l.accept {
			lock.Drop(a.ID, version, arch)
		}
		if err := lock.Put(locked); err != nil {
			if errors.As(err, new(*asset.ChangedError)) {
				return fmt.Errorf("%w with --accept-changes", err)
			}
			return err
		}
		fmt.Fprintf(out, "%-9s %s %s for Kubernetes %s on %s, %s, %s\n", changeOf(was, old == locked), a.ID,
			locked.Version, version, arch, show.Size(locked.Size), locked.SHA256)
	}
	return nil
}

func changeOf(was, same bool) string {
	switch {
	case !was:
		return "new"
	case same:
		return "unchanged"
	default:
		return "changed"
	}
}

func writeLock(to *destination, l *asset.Lock) error {
	data, err := l.Encode()
	if err == nil {
		err = to.write(data)
	}
	if err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	return nil
}

func (l locking) lockImages(ctx context.Context, lock *asset.Lock, out io.Writer) error {
	for _, text := range l.images {
		r, err := image.ParseReference(text)
		if err != nil {
			return fmt.Errorf("--images: %w", err)
		}
		digest, err := l.resolve(ctx, r)
		if err != nil {
			return err
		}
		old, was := lock.Image(r.Name)
		if r.Digest != "" && r.Digest != digest {
			return fmt.Errorf("locking the image %s: the digest of the tag is now %s; use this digest, or leave out "+
				"the digest", r, digest)
		}
		lock.PutImage(asset.LockedImage{Name: r.Name, Digest: digest})
		fmt.Fprintf(out, "%-9s image %s, %s\n", changeOf(was, old == digest), r.Name, digest)
	}
	return nil
}

// resolve returns the digest of a tag, from the archives or else from the registry.
func (l locking) resolve(ctx context.Context, r image.Reference) (string, error) {
	for _, name := range l.local.ImageArchives {
		a, err := image.OpenArchive(name)
		if err != nil {
			return "", err
		}
		digest := a.Resolve(r)
		if err := a.Close(); err != nil {
			return "", err
		}
		if digest != "" {
			return digest, nil
		}
	}
	reg, err := registry.New(awsapi.RegistryLogin(awsapi.Options{}), asset.NewFetcher(asset.UsualPatience()))
	if err != nil {
		return "", err
	}
	return reg.Resolve(ctx, r)
}
