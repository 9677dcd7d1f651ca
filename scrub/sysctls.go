package scrub

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// sysctlRules has the rule for kernel settings.
func sysctlRules() []Rule {
	return []Rule{
		{
			ID: "kernel-settings", Phase: Inspect, Groups: []string{"assets", "network"}, Verb: Report, ofNodes: true,
			Paths: []string{"/etc/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf"}, Owner: "hardened base images, administrators",
			Why:         "files that systemd reads later override the settings that the kubelet and pods need; hardening, for example, turns forwarding off",
			Regenerated: "nothing", Source: "sysctl.d(5), CIS benchmarks' net.ipv4.ip_forward",
			Find: sysctlsAgainst,
		},
	}
}

// nodeSettings are the kernel settings that every node needs, and what happens
// if a file sets another value.
var nodeSettings = map[string]struct{ value, otherwise string }{
	"kernel.panic":                       {"10", "a kubelet that protects kernel defaults does not start"},
	"kernel.panic_on_oops":               {"1", "a kubelet that protects kernel defaults does not start"},
	"vm.overcommit_memory":               {"1", "a kubelet that protects kernel defaults does not start"},
	"net.ipv4.ip_forward":                {"1", "pods have no network"},
	"net.ipv4.conf.all.forwarding":       {"1", "pods have no network"},
	"net.bridge.bridge-nf-call-iptables": {"1", "services cannot be reached from pods behind bridges"},
}

// sysctlFolders are the folders of systemd-sysctl. A file hides files of the
// same name in later folders (sysctl.d(5)).
var sysctlFolders = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"}

// setting is the last line that sets a kernel setting.
type setting struct {
	file  string
	line  int
	value string
}

// sysctlsAgainst reports files that set values at boot with which no node
// works, as hardening does.
func sysctlsAgainst(_ context.Context, h *host.Host) (plan.Answer, error) {
	if node, err := isNode(h); err != nil || !node {
		return plan.Answer{}, err
	}
	last, err := sysctls(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range slices.Sorted(maps.Keys(nodeSettings)) {
		want := nodeSettings[name]
		if s, set := last[name]; set && s.value != want.value {
			answer.Find(s.file, fmt.Sprintf("line %d sets %s = %s, and no later file sets %s: %s", s.line, name, s.value, want.value, want.otherwise))
		}
	}
	return answer, nil
}

// sysctls returns what systemd-sysctl sets at boot, by name.
func sysctls(h *host.Host) (map[string]setting, error) {
	files := map[string]string{} // of the first folder, by name
	for _, dir := range sysctlFolders {
		entries, err := afero.ReadDir(h.Files, dir)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, hidden := files[e.Name()]; !hidden && path.Ext(e.Name()) == ".conf" {
				files[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	last := map[string]setting{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := h.Content(files[name])
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimPrefix(strings.TrimSpace(line), "-")
			key, value, set := strings.Cut(line, "=")
			if !set || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			last[dotted(strings.TrimSpace(key))] = setting{files[name], number, strings.TrimSpace(value)}
		}
	}
	// If a setting has two names, the later line wins.
	if one, all := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]; one.file != "" && all.file != "" {
		if later(one, all) {
			delete(last, "net.ipv4.conf.all.forwarding")
		} else {
			delete(last, "net.ipv4.ip_forward")
		}
	}
	return last, nil
}

func later(a, b setting) bool {
	if a.file == b.file {
		return a.line > b.line
	}
	return path.Base(a.file) > path.Base(b.file)
}

// dotted returns a name as sysctl prints it. In a name with slashes, dots are
// part of the name of an interface.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}
