package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// environmentFiles returns systemd's drop-ins with environment variables. A unit's
// own variables override the variables for all services.
func environmentFiles(n *node.Node) ([]File, error) {
	var files []File
	for _, service := range slices.Sorted(maps.Keys(n.Environment)) {
		variables := n.Environment[service]
		if len(variables) == 0 {
			continue
		}
		f := File{Mode: secretMode, Of: []Service{Systemd, Service(service)}}
		section, setting := "Service", "Environment"
		f.Path, f.Why = ServiceEnvironment(service), "the environment of "+service
		if service == nodeconfig.DefaultEnvironment {
			section, setting = "Manager", "DefaultEnvironment"
			f.Path, f.Why = SystemEnvironment, "the environment of every service"
			f.Of = []Service{Systemd, Kubelet, Containerd}
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%s\n[%s]\n", Mark, section)
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			fmt.Fprintf(&text, "%s=\"%s=%s\"\n", setting, name, escape(variables[name]))
		}
		f.Content = []byte(text.String())
		files = append(files, f)
	}
	return files, nil
}

// escape quotes a value for systemd: backslashes and quotes as in C
// (systemd.syntax(7)), percent signs doubled (systemd.unit(5)).
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(value)
}

// resolvedFiles returns systemd-resolved's drop-in with the user's DNS servers. The
// file is in /run, so a reboot removes it.
func resolvedFiles(n *node.Node) ([]File, error) {
	if len(n.Network.Nameservers)+len(n.Network.Domains) == 0 {
		return nil, nil
	}
	text := "[Resolve]\n"
	if len(n.Network.Nameservers) > 0 {
		text += "DNS=" + strings.Join(n.Network.Nameservers, " ") + "\n"
	}
	if len(n.Network.Domains) > 0 {
		text += "Domains=" + strings.Join(n.Network.Domains, " ") + "\n"
	}
	return []File{{Path: ResolvedConfig, Mode: 0o644, Content: []byte(text), Why: "the DNS servers of systemd-resolved", Of: []Service{Resolved}}}, nil
}
