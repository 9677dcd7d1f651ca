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

// Upstream is the source of the archives, and the proxy to reach it.
type Upstream struct {
	// Archives maps the first part of a request's path to the URL of the archive.
	Archives map[string]string
	// Proxy is apt's Acquire::http::Proxy. It is empty when apt has none, and then
	// the usual proxy variables of the environment count, as in apt. "DIRECT" means
	// no proxy.
	Proxy string
}

// HostUpstream reads mirror and proxy from the host's apt. It uses
// deb.debian.org for archives without a mirror, and on a host without apt.
func HostUpstream(ctx context.Context) (Upstream, error) {
	u := Upstream{Archives: map[string]string{
		"debian": "http://deb.debian.org/debian", "debian-security": "http://deb.debian.org/debian-security",
	}}
	proxy, err := output(ctx, "apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy")
	if err != nil {
		return u, err
	}
	u.Proxy, _, _ = strings.Cut(proxy, "\n")
	// The labels are those of Debian's Release files.
	for label, archive := range map[string]string{"Debian": "debian", "Debian-Security": "debian-security"} {
		uris, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: "+label)
		if err != nil {
			return u, err
		}
		for uri := range strings.Lines(uris) {
			// apt also has mirror+file:, cdrom: and other methods that HTTP cannot
			// replace.
			if strings.HasPrefix(uri, "http") {
				u.Archives[archive] = strings.TrimSuffix(strings.TrimSpace(uri), "/")
				break
			}
		}
	}
	return u, nil
}

// output runs an apt command. The output is empty on a host without apt.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("reading the host's mirror with %s: %w", name, err)
	}
	return string(out), nil
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
