//go:build !agent

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/registry"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// lockImages locks the digest of each image's tag.
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
			return fmt.Errorf("locking the image %s: the digest of the tag is now %s; use this digest, or leave out the digest", r, digest)
		}
		lock.PutImage(asset.LockedImage{Name: r.Name, Digest: digest})
		word := "unchanged"
		switch {
		case !was:
			word = "new"
		case old != digest:
			word = "changed"
		}
		fmt.Fprintf(out, "%-9s image %s, %s\n", word, r.Name, digest)
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
