package rules

import (
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func proxyRule() rule.Rule {
	return reports(rule.Rule{
		ID: "proxy-left", Phase: rule.Inspect, Groups: []string{"network"},
		Why:         "every node would send its requests to a proxy of the build, which it may not reach; the proxy of nodes is set by node_proxy or by user data",
		Regenerated: "nothing", Source: "apt.conf(5), dnf.conf(5), systemd-system.conf(5), curl(1), wget(1)",
	}, proxies)
}

// proxies are files in which programs keep their proxies beside other settings.
var proxies = []leftover{
	{program: "apt", paths: []string{"/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*"}, says: saying(`(?mi)^\s*Acquire::(https?|ftp)::Proxy\b`),
		advice: "remove the proxy from the file"},
	{program: "dnf, yum", paths: []string{"/etc/dnf/dnf.conf", "/etc/yum.conf", "/etc/yum.repos.d/*.repo"},
		says: saying(`(?mi)^\s*proxy\s*=\s*[^\s_]`), advice: "remove the proxy from the file"},
	{program: "zypper", paths: []string{"/etc/sysconfig/proxy"}, says: saying(`(?mi)^\s*(https?|ftp)_proxy\s*=\s*["']?[a-z]`), advice: "remove the proxy from the file"},
	{program: "a shell or systemd", paths: []string{
		"/etc/environment", "/etc/environment.d/*", "/etc/profile", "/etc/profile.d/*", "/etc/bashrc", "/etc/bash.bashrc",
		"/etc/systemd/system.conf", "/etc/systemd/system.conf.d/*", "/etc/systemd/system/*.service.d/*", "/etc/default/*",
		"~/.bashrc", "~/.profile", "~/.bash_profile",
	}, says: saying(`(?mi)^[^#\n]*\b(https?|ftp|all)_proxy\s*=\s*["']?[a-z0-9]`), advice: "remove the proxy from the file"},
	{program: "curl, wget", paths: []string{"/etc/curlrc", "/etc/wgetrc", "~/.curlrc", "~/.wgetrc"},
		says: saying(`(?mi)^\s*-{0,2}(proxy|(https?|ftp)_proxy)\s*[=:\s]\s*["']?[a-z0-9]`), advice: "remove the proxy from the file"},
	{program: "git", paths: []string{"/etc/gitconfig", "~/.gitconfig"}, says: saying(`(?mi)^\s*proxy\s*=\s*\S`), advice: "remove the proxy from the file"},
}
