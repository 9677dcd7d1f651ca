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

// HostUpstream reads from the host's apt which mirror and proxy it uses. What
// apt does not say, and a host without apt, gets deb.debian.org.
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
			// apt also knows mirror+file:, cdrom: and others that http cannot fetch.
			if strings.HasPrefix(uri, "http") {
				u.Archives[archive] = strings.TrimSuffix(strings.TrimSpace(uri), "/")
				break
			}
		}
	}
	return u, nil
}

// output runs an apt command; a host without it has nothing to say.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("asking %s for the host's mirror: %w", name, err)
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
