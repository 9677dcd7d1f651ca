package aptmirror

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
)

// Debian's own addresses, used for an archive that the host's apt does not name
// (a host that is not Debian, or has no apt).
const (
	debianArchive   = "http://deb.debian.org/debian"
	securityArchive = "http://deb.debian.org/debian-security"
)

// Upstream says where the archives come from and through which proxy.
type Upstream struct {
	// Archives maps the first part of a request's path to the URL that serves
	// what follows.
	Archives map[string]string
	// Proxy is apt's Acquire::http::Proxy, empty where apt has none (the usual
	// proxy environment variables count then, as for apt), "DIRECT" for none at
	// all.
	Proxy string
}

// HostUpstream reads from the host's apt which mirror and proxy it uses. It falls back
// to deb.debian.org for what apt does not say, and on a host without apt.
func HostUpstream(ctx context.Context) (Upstream, error) {
	targets, err := output(ctx, "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		return Upstream{}, err
	}
	settings, err := output(ctx, "apt-config", "dump", "--format", "%f %v%n", "Acquire::http::Proxy")
	if err != nil {
		return Upstream{}, err
	}
	return parse(targets, settings), nil
}

// output runs an apt command; a host without it has nothing to say.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for the host's mirror: %w", name, err)
	}
	return string(out), nil
}

// parse takes the lines "LABEL URI" of indextargets and "KEY VALUE" of
// apt-config. The labels are those of Debian's Release files.
func parse(targets, settings string) Upstream {
	upstream := Upstream{Archives: map[string]string{
		"debian":          debianArchive,
		"debian-security": securityArchive,
	}}
	archives := map[string]string{"Debian": "debian", "Debian-Security": "debian-security"}
	seen := map[string]bool{}
	for line := range strings.Lines(targets) {
		label, uri, _ := strings.Cut(strings.TrimSpace(line), " ")
		archive, known := archives[label]
		// apt also knows mirror+file:, cdrom: and others that http cannot fetch.
		fetchable := strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
		if known && fetchable && !seen[archive] {
			seen[archive] = true
			upstream.Archives[archive] = strings.TrimSuffix(uri, "/")
		}
	}
	for line := range strings.Lines(settings) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "Acquire::http::Proxy" {
			upstream.Proxy = value
		}
	}
	return upstream
}

// locate returns upstream's URL of a request's path.
func (u Upstream) locate(name string) (*url.URL, error) {
	archive, rest, _ := strings.Cut(name, "/")
	base, known := u.Archives[archive]
	if !known || rest == "" {
		return nil, fmt.Errorf("%q is in no archive that is mirrored here", name)
	}
	source, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("reading the mirror's address: %w", err)
	}
	return source.JoinPath(rest), nil
}

// proxy follows apt: its own setting first, then the environment.
func (u Upstream) proxy(r *http.Request) (*url.URL, error) {
	switch u.Proxy {
	case "":
		return http.ProxyFromEnvironment(r)
	case "DIRECT":
		return nil, nil
	}
	return url.Parse(u.Proxy)
}
