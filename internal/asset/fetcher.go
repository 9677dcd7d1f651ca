package asset

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Fetcher fetches files over HTTP and HTTPS, and from folders of the machine that
// it runs on. Make one with NewFetcher.
type Fetcher struct {
	client   *http.Client
	attempts int
	wait     time.Duration
	stall    time.Duration
	pieces   sync.Pool // of *[]byte, each with pieceSize bytes
}

// A large file comes in pieces over several connections, because most sites give a
// single connection far less than a machine's bandwidth. On machines with two
// processors more than sixteen connections and more than 4 MiB bring nothing. The
// memory is their product.
const (
	connections = 16
	pieceSize   = 4 << 20
)

// Patience says how long a Fetcher tries.
type Patience struct {
	// Attempts is how often a request for one file is sent, at least once.
	Attempts int
	// Wait is the pause before the second attempt. It doubles with each attempt.
	Wait time.Duration
	// Stall is how long a server may send nothing before an attempt fails.
	Stall time.Duration
}

// UsualPatience survives a short failure of a mirror: five attempts with 7.5
// seconds of waiting in total.
func UsualPatience() Patience {
	return Patience{Attempts: 5, Wait: 500 * time.Millisecond, Stall: time.Minute}
}

// NewFetcher makes a Fetcher. It uses the proxy of the environment (HTTPS_PROXY and
// related variables).
func NewFetcher(p Patience) *Fetcher { return NewProxied(p, http.ProxyFromEnvironment) }

// NewProxied makes a Fetcher that uses the proxy of a function; see http.Transport.
func NewProxied(p Patience, proxy func(*http.Request) (*url.URL, error)) *Fetcher {
	transport := &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: connections,
		ReadBufferSize:      64 << 10,
		// Not nil turns HTTP/2 off: it would put all pieces on one connection.
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression: true, // the sum is that of the file itself
	}
	return newFetcher(transport, p)
}

func newFetcher(through http.RoundTripper, p Patience) *Fetcher {
	return &Fetcher{
		client: &http.Client{Transport: through, CheckRedirect: keepTLS}, attempts: max(p.Attempts, 1), wait: p.Wait,
		stall:  p.Stall,
		pieces: sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }},
	}
}

// downgradeError is a redirect from https to http.
type downgradeError struct{ host string }

func (e *downgradeError) Error() string {
	return fmt.Sprintf("the server redirects from https to http at %q, where the file can be replaced on the way",
		e.host)
}

// Final says that another attempt would get the same redirect.
func (e *downgradeError) Final() bool { return true }

// keepTLS refuses redirects from https to http.
func keepTLS(req *http.Request, via []*http.Request) error {
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return &downgradeError{req.URL.Host}
	}
	if len(via) >= mostRedirects {
		return fmt.Errorf("the server redirects more than %d times", mostRedirects)
	}
	return nil
}

// mostRedirects is the limit of package http.
const mostRedirects = 10

// Through is this Fetcher with another transport: wrap gets this Fetcher's
// transport and returns one that, for example, logs in. When an error of that
// transport has a method Final that returns true, the request is not repeated.
func (f *Fetcher) Through(wrap func(http.RoundTripper) (http.RoundTripper, error)) (*Fetcher, error) {
	transport, err := wrap(f.client.Transport)
	if err != nil {
		return nil, err
	}
	return newFetcher(transport, Patience{f.attempts, f.wait, f.stall}), nil
}

// Open opens the file at an address from a byte on. The caller verifies the
// content. After a broken connection a new one fetches the rest.
func (f *Fetcher) Open(ctx context.Context, address string, from int64) (io.ReadCloser, error) {
	return f.open(ctx, address, from)
}

func (f *Fetcher) exists(ctx context.Context, address string) (bool, error) {
	if isFile(address) {
		file, err := openFile(address, 0)
		if err == nil {
			_ = file.Close() // opened for reading only
		}
		return err == nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.stall)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return false, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return false, bare(err)
	}
	_ = resp.Body.Close() // a HEAD's body is empty
	return !absent(resp.StatusCode), nil
}

// bare removes the address from an error of package http. The address may contain a
// password, and callers name the place themselves.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// locked completes the choice from the lock file. A choice that contradicts the
// lock file is an error.
func (c Choice) locked(a Asset) (Choice, Locked, error) {
	if c.Lock == nil {
		c.Origin = cmp.Or(c.Origin, Upstream)
		return c, Locked{}, nil
	}
	l, ok := c.Lock.Find(a.ID, c.Kubernetes, c.Arch)
	_, published := a.from(c.Origin)
	switch {
	case !ok:
		return c, l, fmt.Errorf(`the lock file has no %s for Kubernetes %s on %s; add it with "eksnode lock `+
			`--kubernetes-version %[2]s --arch %[3]s"`, a.ID, c.Kubernetes, c.Arch)
	case c.Origin != "" && published != l.Origin:
		return c, l, surface.Errorf("%s %q takes %s from %s, but the lock file takes it from %s; correct the %s, or "+
			"update the lock file", surface.Name("source"), c.Origin, a.ID, published, l.Origin, surface.Field())
	case c.Date != "" && l.BuildDate != "" && c.Date != l.BuildDate:
		return c, l, surface.Errorf("%s is %q, but the lock file has %s of %s; correct the %s, or update the lock file",
			surface.Name("eks_build_date"), c.Date, a.ID, l.BuildDate, surface.Field())
	case c.Version != "" && c.Version != l.Version:
		return c, l, surface.Errorf("%s is %q, but the lock file has %s; correct the %s, or update the lock file",
			surface.Name("versions").Key(a.ID), c.Version, l.Version, surface.Field())
	case c.SHA256 != "" && !strings.EqualFold(c.SHA256, l.SHA256):
		return c, l, surface.Errorf("%s is %s, but the lock file has %s; correct the %s, or update the lock file",
			surface.Name("checksums").Key(a.ID), c.SHA256, l.SHA256, surface.Field())
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
		return fmt.Errorf("the lock file has %s %s from %s, but this download comes from %s; update the lock file if "+
			"that is right", l.ID, l.Version, l.URL, d.Published)
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

// The IDs of the publishers.
const (
	Upstream  = "upstream"
	EKSBucket = "eks-bucket"
)

// Origin is a publisher of assets. A mirror or a folder may have the same files.
type Origin struct {
	// ID names the publisher in the field source.
	ID string
	// Why says which files the publisher has.
	Why string
}

// Origins lists the publishers. The first is the default.
func Origins() []Origin {
	return []Origin{
		{ID: Upstream, Why: "the release sites of Kubernetes and of each project"},
		{ID: EKSBucket, Why: "the kubelet and the credential provider as EKS builds them, from its public bucket; " +
			"the rest from upstream"},
	}
}

// OriginIDs lists the publishers' IDs.
func OriginIDs() []string {
	return show.Each(Origins(), func(o Origin) string { return o.ID })
}

// CheckOrigin returns an error if id is none of OriginIDs.
func CheckOrigin(id string) error {
	if slices.Contains(OriginIDs(), id) {
		return nil
	}
	return surface.Errorf("%s %q is not known; known are %s", surface.Name("source"), id,
		strings.Join(OriginIDs(), ", "))
}

// fileScheme begins the address of a folder with the layout of a mirror.
const fileScheme = "file://"

// isFile says whether an address names a file of the running system.
func isFile(address string) bool { return strings.HasPrefix(address, fileScheme) }

func filePath(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("reading the address of a file: %w", err)
	}
	if u.Host != "" {
		return "", fmt.Errorf("reading the address %s: a file of another machine cannot be read; write file:// and "+
			"an absolute path", address)
	}
	return u.Path, nil
}

func openFile(address string, from int64) (content, error) {
	name, err := filePath(address)
	if err != nil {
		return content{}, err
	}
	file, err := surface.Open(name)
	if err != nil {
		return content{}, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err == nil && from > 0 {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		_ = file.Close() // opened for reading only
		return content{}, err
	}
	return content{file, st.Size()}, nil
}

// NewestPatch returns the newest release of a minor version of Kubernetes, such as 1.36.3
// for 1.36. source is a mirror or a folder; empty means the publisher.
func (f *Fetcher) NewestPatch(ctx context.Context, minor, origin, source string) (string, error) {
	finding := func(err error) error {
		return surface.Errorf("finding the newest Kubernetes %s: %w; name a complete version with %s", minor, err,
			surface.Name("kubernetes_version"))
	}
	kubelet := Table()[0]
	release, published := kubelet.from(origin)
	var names []string
	if source == "" && published == Upstream {
		text, err := f.text(ctx, "https://dl.k8s.io/release/stable-"+minor+".txt")
		if err != nil {
			return "", finding(err)
		}
		names = []string{strings.TrimPrefix(strings.TrimSpace(text), "v")}
	} else {
		folders, err := versionFolders(release.URL, strings.NewReplacer("{kubernetes}", minor, "{version}", minor),
			source, published)
		if err == nil {
			names, err = f.names(ctx, folders[0])
		}
		if err != nil {
			return "", finding(err)
		}
	}
	newest := ""
	for _, name := range names { // the newest last
		if nameForm.MatchString(name) && strings.HasPrefix(name, minor+".") && !strings.Contains(name, "-") {
			newest = name
		}
	}
	if newest == "" {
		return "", finding(errors.New("there is no release of it"))
	}
	return newest, nil
}

// IsNewer reports whether version a is newer than b.
func IsNewer(a, b string) bool { return compareVersions(a, b) > 0 }

// Notes is the page about the changes of a version; empty if there is none.
func (a Asset) Notes(version string) string {
	switch {
	case a.Version == "":
		minor := version[:strings.LastIndexByte(version, '.')]
		return fmt.Sprintf("https://github.com/kubernetes/kubernetes/blob/master/CHANGELOG/CHANGELOG-%s.md#v%s", minor,
			strings.ReplaceAll(version, ".", ""))
	case strings.HasPrefix(a.Catalog, "https://github.com/"):
		return a.Catalog + "/tag/v" + version
	}
	return a.Catalog
}
