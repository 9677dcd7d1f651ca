package provisioner

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// noProxy has the names that do not use the field proxy.
func (s Spec) noProxy() []string {
	return append([]string{"localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254"}, s.NoProxy...)
}

// buildProxy is the environment of programs that download; none without the field
// proxy. No file has them.
func (s Spec) buildProxy() []string {
	if s.Proxy == "" {
		return nil
	}
	all := proxyVariables(s.Proxy, s.noProxy())
	return show.Each(slices.Sorted(maps.Keys(all)), func(name string) string { return name + "=" + all[name] })
}

// proxyVariables are the variables of a proxy, which programs read in small or large letters.
func proxyVariables(proxy string, direct []string) map[string]string {
	all := map[string]string{"http_proxy": proxy, "https_proxy": proxy, "no_proxy": strings.Join(direct, ",")}
	for name, value := range maps.Clone(all) {
		all[strings.ToUpper(name)] = value
	}
	return all
}

// fetcher downloads assets, through the field proxy if it is set.
func (s Spec) fetcher(p asset.Patience) *asset.Fetcher {
	if s.Proxy == "" {
		return asset.NewFetcher(p)
	}
	direct := strings.Join(s.noProxy(), ",")
	through := (&httpproxy.Config{HTTPProxy: s.Proxy, HTTPSProxy: s.Proxy, NoProxy: direct}).ProxyFunc()
	return asset.NewProxied(p, func(r *http.Request) (*url.URL, error) { return through(r.URL) })
}

// proxy refuses what is no address of a proxy, and what are no names that do not use it.
func (p *problems) proxy(of surface.Name, proxy string, password bool, field surface.Name, names []string) {
	if why := badAddress(proxy, password); proxy != "" && why != "" {
		p.add("%s: %s", of, why)
	}
	if len(names) > 0 && proxy == "" {
		p.add("%s has no effect without %s", field, of)
	}
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, ", \t\r\n\"'\\") {
			p.add("%s: %q is not one name, address or network", field, name)
		}
	}
}

// badAddress says why a text is not the address of a proxy or a mirror; empty if it is
// one. Only a proxy of the build may have a password: everything else is in the image.
func badAddress(text string, password bool) string {
	const form = "must begin with http:// or https:// and a host, such as https://mirror.example:8443"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "the address " + form // the error would contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Sprintf("%q %s", u.Redacted(), form)
	case u.User != nil && !password:
		return fmt.Sprintf("%q has a user or a password, which everyone with the image could read", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(text, "\"\\ "):
		return fmt.Sprintf("%q must have a host, a port and a path alone", u.Redacted())
	}
	return ""
}
