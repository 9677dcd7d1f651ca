package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

func renderBottlerocket(n Node, _ Family) ([]byte, error) {
	if len(n.KubeletArgs) > 0 {
		return nil, fmt.Errorf("kubeletArgs: Bottlerocket's kubelet takes no flags, only the settings of settings.kubernetes")
	}
	if n.Cluster.Outpost != "" {
		return nil, fmt.Errorf("cluster.outpost: local clusters on Outposts have no Bottlerocket nodes")
	}
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s = %s\n", key, tomlText(value)) }
	b.WriteString("[settings.kubernetes]\n")
	line("cluster-name", n.Cluster.Name)
	line("api-server", n.Cluster.Endpoint)
	line("cluster-certificate", n.Cluster.CA)
	line("cluster-dns-ip", n.Cluster.DNS())
	if n.MaxPods > 0 {
		fmt.Fprintf(&b, "max-pods = %d\n", n.MaxPods)
	}
	if len(n.Labels) > 0 {
		b.WriteString("\n[settings.kubernetes.node-labels]\n")
		for _, name := range slices.Sorted(maps.Keys(n.Labels)) {
			line(tomlText(name), n.Labels[name])
		}
	}
	if len(n.Taints) > 0 {
		b.WriteString("\n[settings.kubernetes.node-taints]\n")
		byKey := map[string][]string{}
		for _, text := range n.Taints {
			t, err := parseTaint(text)
			if err != nil {
				return nil, err
			}
			byKey[t.key] = append(byKey[t.key], tomlText(t.value+":"+t.effect))
		}
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			fmt.Fprintf(&b, "%s = [%s]\n", tomlText(key), strings.Join(byKey[key], ", "))
		}
	}
	return []byte(b.String()), nil
}

// tomlText is a TOML string. What reaches it has been checked and holds neither
// quotes nor control characters.
func tomlText(text string) string { return `"` + text + `"` }

func isBottlerocket(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		return strings.HasPrefix(line, "[settings") || strings.HasPrefix(line, "settings.") || strings.HasPrefix(line, "[[settings")
	}
	return false
}

func checkBottlerocket(c *checker, text string) {
	document, err := nodeconfig.ReadTOML([]byte(text))
	if err != nil {
		line, said := tomlError(err)
		c.fail(line, "", "it is not TOML: %s", said)
		return
	}
	s := settings{c, tomlLines(text)}
	for _, name := range slices.Sorted(maps.Keys(document)) {
		if name != "settings" {
			s.fail([]string{name}, "unknown table; everything stands below settings")
		}
	}
	s.walk([]string{"settings"}, document["settings"], settingsTree())
	kubernetes, _ := lookup(document, "settings", "kubernetes").(map[string]any)
	get := func(name string) string { value, _ := kubernetes[name].(string); return value }
	c.report.Cluster = Cluster{Name: get("cluster-name"), Endpoint: get("api-server"), CA: get("cluster-certificate")}
	for _, name := range []string{"cluster-name", "api-server", "cluster-certificate"} {
		if kubernetes[name] == nil && kubernetes["standalone-mode"] != true && !c.clusterElsewhere {
			s.fail([]string{"settings", "kubernetes", name}, "is missing; `aws eks describe-cluster` tells it")
		}
	}
	if ca, err := nodeconfig.Unbase64(get("cluster-certificate")); err == nil && len(ca) > 0 {
		name := []string{"settings", "kubernetes", "cluster-certificate"}
		c.authority(s.lineOf(name), strings.Join(name, "."), ca)
	}
	labels, _ := lookup(document, "settings", "kubernetes", "node-labels").(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if value, ok := labels[name].(string); ok {
			for _, said := range labelProblems(name, value) {
				s.fail([]string{"settings", "kubernetes", "node-labels", name}, "%s", said)
			}
		}
	}
	c.taints = append(c.taints, bottlerocketTaints(lookup(document, "settings", "kubernetes", "node-taints"))...)
}

func lookup(value any, path ...string) any {
	for _, name := range path {
		table, _ := value.(map[string]any)
		value = table[name]
	}
	return value
}

// bottlerocketTaints gives taints kubectl's form.
func bottlerocketTaints(value any) []string {
	table, _ := value.(map[string]any)
	var taints []string
	for key, value := range table {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			text, _ := one.(string)
			if rest, bare := strings.CutPrefix(text, ":"); bare {
				taints = append(taints, key+":"+rest)
			} else {
				taints = append(taints, key+"="+text)
			}
		}
	}
	return taints
}
