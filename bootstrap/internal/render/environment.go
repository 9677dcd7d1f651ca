package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// environmentFiles are systemd's drop-ins of environment variables. Those of
// every service have the lowest rank: what a unit sets itself wins.
func environmentFiles(n *node.Node) ([]File, error) {
	var files []File
	for _, service := range slices.Sorted(maps.Keys(n.Environment)) {
		variables := n.Environment[service]
		if len(variables) == 0 {
			continue
		}
		f := File{Mode: 0o644, Of: []Service{Systemd, Service(service)}}
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

// escape writes a value so that systemd reads it as it is: backslash and quotes
// as in C (systemd.syntax(7)), percent signs twice (systemd.unit(5)).
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(value)
}

// resolvedFiles give systemd-resolved the user's servers. They lie in /run: the
// next boot writes them again, or does not.
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
	return []File{{Path: ResolvedConfig, Mode: 0o644, Content: []byte(text), Why: "who resolves names", Of: []Service{Resolved}}}, nil
}
