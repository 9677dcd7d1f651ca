// Package registry pulls container images from their registries. It runs on the
// Packer host; machines do not use it.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// Registry pulls from every registry: the image's name selects the registry. It is
// an image.Source. It fetches blobs as Fetcher fetches downloads: over several
// connections, and interrupted blobs resume.
type Registry struct {
	logins *logins
	puller *remote.Puller
	plain  *asset.Fetcher

	mu    sync.Mutex
	blobs map[name.Repository]*asset.Fetcher // logged in
}

// New makes a Registry. It uses the credentials of the present user and, for hosts
// without any, those of login, which may be nil. It fetches blobs as f does.
func New(login Login, f *asset.Fetcher) (*Registry, error) {
	keys := &logins{login: login, own: map[string]bool{}}
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(keys), remote.WithUserAgent(userAgent()))
	if err != nil {
		return nil, fmt.Errorf("preparing to pull images: %w", err)
	}
	return &Registry{
		logins: keys, puller: puller, plain: f, blobs: map[name.Repository]*asset.Fetcher{},
	}, nil
}

func userAgent() string { return "eksnode/" + version.String() }

// Resolve returns the present digest of a name, for a lock file.
func (r *Registry) Resolve(ctx context.Context, ref image.Reference) (digest string, err error) {
	tag, err := name.NewTag(ref.Name)
	if err != nil {
		return "", fmt.Errorf("reading the image's name %s: %w", ref.Name, err)
	}
	head, err := r.puller.Head(ctx, tag)
	if err == nil {
		return head.Digest.String(), nil
	}
	var refused *transport.Error
	if !errors.As(err, &refused) {
		return "", r.explain(ref, err, manifests)
	}
	got, err := r.puller.Get(ctx, tag) // this answer may contain the reason
	if err != nil {
		return "", r.explain(ref, err, manifests)
	}
	return got.Digest.String(), nil
}

// Open implements image.Source.
func (r *Registry) Open(ctx context.Context, ref image.Reference, b image.Blob, manifest bool, from int64) (io.ReadCloser, error) {
	at, err := name.NewDigest(ref.Repository() + "@" + b.Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the image's name %s: %w", ref, err)
	}
	if manifest {
		got, err := r.puller.Get(ctx, at)
		if err != nil {
			return nil, r.explain(ref, err, manifests)
		}
		return io.NopCloser(bytes.NewReader(got.Manifest[min(from, int64(len(got.Manifest))):])), nil
	}
	fetcher, err := r.fetcher(ctx, at.Repository)
	if err != nil {
		return nil, r.explain(ref, err, blobs)
	}
	address := at.Registry.Scheme() + "://" + at.RegistryStr() + "/v2/" + at.RepositoryStr() + "/blobs/" + b.Digest
	body, err := fetcher.Open(ctx, address, from)
	if err != nil {
		return nil, r.explain(ref, err, blobs)
	}
	return blob{body, func(err error) error { return r.explain(ref, err, blobs) }}, nil
}

// fetcher returns the Fetcher that is logged in to a repository.
func (r *Registry) fetcher(ctx context.Context, at name.Repository) (*asset.Fetcher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.blobs[at]; ok {
		return f, nil
	}
	auth, err := authn.Resolve(ctx, r.logins, at)
	if err != nil {
		return nil, err
	}
	f, err := r.plain.Through(func(plain http.RoundTripper) (http.RoundTripper, error) {
		in, err := transport.NewWithContext(ctx, at.Registry, auth, transport.NewRetry(plain), []string{at.Scope(transport.PullScope)})
		return judging{in}, err
	})
	if err == nil {
		r.blobs[at] = f
	}
	return f, err
}

// judging is a transport that turns a registry's refusals into errors.
type judging struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (j judging) RoundTrip(in *http.Request) (*http.Response, error) {
	out, err := j.inner.RoundTrip(in)
	if err != nil {
		return nil, err
	}
	switch out.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		defer out.Body.Close()
		return nil, refusal{transport.CheckError(out)}
	}
	return out, nil
}

// refusal is an answer that would not change on another attempt.
type refusal struct{ error }

// Final tells asset.Fetcher not to try again.
func (refusal) Final() bool { return true }

func (r refusal) Unwrap() error { return r.error }

// blob is a blob's content that explains its read errors.
type blob struct {
	io.ReadCloser
	explain func(error) error
}

// Read implements io.Reader.
func (b blob) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.explain(err)
	}
	return n, err
}
