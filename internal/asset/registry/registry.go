// Package registry pulls container images from their registries. It runs on the
// Packer host; machines do not use it.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(keys),
		remote.WithUserAgent("eksnode/"+version.String()))
	if err != nil {
		return nil, fmt.Errorf("preparing to pull images: %w", err)
	}
	return &Registry{
		logins: keys, puller: puller, plain: f, blobs: map[name.Repository]*asset.Fetcher{},
	}, nil
}

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
	if !errors.As(err, new(*transport.Error)) {
		return "", r.explain(ref, err, manifests)
	}
	got, err := r.puller.Get(ctx, tag) // this answer may contain the reason
	if err != nil {
		return "", r.explain(ref, err, manifests)
	}
	return got.Digest.String(), nil
}

// Open implements image.Source.
func (r *Registry) Open(ctx context.Context, ref image.Reference, b image.Blob, manifest bool,
	from int64) (io.ReadCloser, error) {
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
		in, err := transport.NewWithContext(ctx, at.Registry, auth, transport.NewRetry(plain),
			[]string{at.Scope(transport.PullScope)})
		return judging{in}, err
	})
	if err == nil {
		r.blobs[at] = f
	}
	return f, err
}

// judging is a transport that turns a registry's refusals into errors.
type judging struct{ inner http.RoundTripper }

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

func (b blob) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.explain(err)
	}
	return n, err
}

// part is the requested part of an image, named by the ECR permission that it needs
// (https://docs.aws.amazon.com/AmazonECR/latest/userguide/security_iam_id-based-policy-examples.html).
type part string

const (
	manifests part = "ecr:BatchGetImage"
	blobs     part = "ecr:GetDownloadUrlForLayer"
)

// refusals are the answers to a missing or invalid login. ECR answers "bad request"
// to a login for another region and to a malformed login (aws-cli #5317).
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest}

const (
	orArchive = "or give an archive of the image in"
	archives  = surface.Name("image_archives")
)

// explain says what a registry's refusal means and what to do.
func (r *Registry) explain(ref image.Reference, err error, asked part) error {
	var refused *transport.Error
	var login *loginError
	var dns *net.DNSError
	switch {
	case errors.As(err, &login):
		return surface.Errorf("pulling the image %s: %w; %s, %s %s", ref, login, login.remedy, orArchive, archives)
	case errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound:
		return fmt.Errorf("pulling the image %s: the registry does not have the image: %w; check name and digest", ref,
			err)
	case errors.As(err, &refused) && slices.Contains(refusals, refused.StatusCode):
		return r.explainRefusal(ref, refused, asked)
	case errors.As(err, &dns) && dns.IsNotFound:
		return surface.Errorf("pulling the image %s: there is no such registry: %w; check the name, %s %s", ref, err,
			orArchive, archives)
	case errors.As(err, new(net.Error)):
		return surface.Errorf("pulling the image %s: the Packer host cannot reach the registry: %w; check network "+
			"and proxy, %s %s", ref, err, orArchive, archives)
	default:
		return fmt.Errorf("pulling the image %s: %w; try again", ref, err)
	}
}

// permission matches the ECR action in a refusal's text.
var permission = regexp.MustCompile(`ecr:[A-Za-z]+`)

// explainRefusal distinguishes a missing or expired login from a missing
// permission.
func (r *Registry) explainRefusal(ref image.Reference, refused *transport.Error, asked part) error {
	host, _, _ := strings.Cut(ref.Name, "/")
	missing := permission.FindString(refused.Error())
	r.logins.mu.Lock()
	defer r.logins.mu.Unlock()
	if missing == "" && r.logins.own[host] {
		missing = string(asked)
	}
	if missing != "" {
		return surface.Errorf("pulling the image %s: the permission %s is missing: %w; grant it to the identity of "+
			"the Packer host's AWS credentials and, for a repository in another account, in the repository's "+
			"policy; %s %s",
			ref, missing, refused, orArchive, archives)
	}
	return surface.Errorf("pulling the image %s: the registry refuses access: %w; log in on the Packer host with "+
		"docker login (an ECR login expires after 12 hours; without a login, the default AWS credentials are used), "+
		"name a credential helper in ~/.docker/config.json, %s %s", ref, refused, orArchive, archives)
}

// Login returns user and password for a registry's host name. ok is false when it
// has none.
type Login func(ctx context.Context, host string) (user, password string, ok bool, err error)

// logins are the credentials in this order: those of `docker login` or `podman
// login`, those of the credential helpers in Docker's configuration, and those of a
// Login.
type logins struct {
	login Login

	mu  sync.Mutex
	own map[string]bool // hosts whose credentials came from login
}

func (l *logins) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return l.ResolveContext(context.Background(), target)
}

func (l *logins) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	found, err := authn.Resolve(ctx, authn.DefaultKeychain, target)
	if err != nil {
		err = fmt.Errorf("the configuration of docker or podman has no usable login for the registry: %w", err)
		return nil, &loginError{err, "correct ~/.docker/config.json or what it names"}
	}
	if l.login == nil || found != authn.Anonymous {
		return found, nil
	}
	host := target.RegistryStr()
	user, password, ok, err := l.login(ctx, host)
	if err != nil {
		return nil, &loginError{err, "log in to the registry with docker login instead"}
	}
	if !ok {
		return found, nil
	}
	l.mu.Lock()
	l.own[host] = true
	l.mu.Unlock()
	return authn.FromConfig(authn.AuthConfig{Username: user, Password: password}), nil
}

// loginError says why there are no credentials, and what to do.
type loginError struct {
	error
	remedy string
}

func (e *loginError) Unwrap() error { return e.error }
