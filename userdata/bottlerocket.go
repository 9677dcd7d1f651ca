package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/BurntSushi/toml"
	pelletier "github.com/pelletier/go-toml/v2"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

func renderBottlerocket(n Node, _ Family) ([]byte, error) {
	if len(n.KubeletArgs) > 0 {
		return nil, errors.New("kubeletArgs: Bottlerocket's kubelet takes no flags, " +
			"only the settings of settings.kubernetes")
	}
	if n.Cluster.Outpost != "" {
		return nil, errors.New("cluster.outpost: local clusters on Outposts have no Bottlerocket nodes")
	}
	if err := n.without("Bottlerocket has none", "maxPodsExpression", "nodeConfigs", "featureGates", "containerd",
		"pre", "post", "parts", "bootstrap", "localStorage.mountPath", "localStorage.disabledMounts"); err != nil {
		return nil, err
	}
	settings, err := n.bottlerocketSettings()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := toml.NewEncoder(&out)
	e.Indent = ""
	err = e.Encode(map[string]any{"settings": settings})
	return out.Bytes(), err
}

// bottlerocketSettings are the settings of a description, without the word settings.
func (n Node) bottlerocketSettings() (map[string]any, error) {
	dns := n.Cluster.dns()
	if list, _ := flagValue(kubelet.Flags()["cluster-dns"], n.Kubelet["clusterDNS"]); list != "" {
		dns = strings.Split(list, ",")
	}
	kubernetes := map[string]any{
		"cluster-name": n.Cluster.Name, "api-server": n.Cluster.Endpoint, "cluster-certificate": n.Cluster.CA,
		"cluster-dns-ip": dns,
	}
	if len(dns) == 1 {
		kubernetes["cluster-dns-ip"] = dns[0]
	}
	if n.MaxPods > 0 {
		kubernetes["max-pods"] = n.MaxPods
	}
	if len(n.Labels) > 0 {
		kubernetes["node-labels"] = n.Labels
	}
	taints := map[string][]string{}
	for _, text := range n.Taints {
		t, err := kubelet.ParseTaint(text)
		if err != nil {
			return nil, err
		}
		taints[t.Key] = append(taints[t.Key], t.Value+":"+t.Effect)
	}
	if len(taints) > 0 {
		kubernetes["node-taints"] = taints
	}
	settings := map[string]string{}
	for setting, takes := range settingsTable().Settings["kubernetes"].(map[string]any) {
		settings[fieldOf(takes)] = setting
	}
	own := map[string]any{}
	var errs []error
	for _, name := range sortedNames(n.Kubelet) {
		setting := settings[name]
		switch {
		case name == "clusterDNS", n.Kubelet[name] == nil: // is there, or is the default
			continue
		case setting == "":
			errs = append(errs, fmt.Errorf("kubelet.%s: Bottlerocket has no setting for it", name))
			continue
		}
		own[setting] = n.Kubelet[name]
		if members, ok := own[setting].(map[string]any); ok {
			texts := map[string]any{}
			for member, inner := range members {
				texts[member] = scalarText(inner)
			}
			own[setting] = texts
		}
	}
	errs = append(errs, overlay(kubernetes, own, "settings.kubernetes"))
	all := map[string]any{"kubernetes": kubernetes}
	if len(n.Network.Nameservers)+len(n.Network.Domains) > 0 {
		dns := map[string]any{"name-servers": n.Network.Nameservers, "search-list": n.Network.Domains}
		maps.DeleteFunc(dns, func(_ string, list any) bool { return len(list.([]string)) == 0 })
		all["dns"] = dns
	}
	network, err := n.bottlerocketProxy()
	if len(network) > 0 {
		all["network"] = network
	}
	errs = append(errs, err)
	switch strings.ToUpper(n.LocalStorage.Strategy) {
	case "", "NONE":
	case nodeconfig.RAID0: // as Karpenter has it
		all["bootstrap-commands"] = map[string]any{"000-mount-instance-storage": map[string]any{
			"commands": [][]string{
				{"apiclient", "ephemeral-storage", "init"},
				{"apiclient", "ephemeral-storage", "bind", "--dirs",
					"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"},
			},
			"mode": "always", "essential": true,
		}}
	default:
		errs = append(errs, fmt.Errorf("localStorage.strategy: Bottlerocket knows RAID0 only"))
	}
	return all, errors.Join(append(errs, overlay(all, n.Settings, "settings"))...)
}

// bottlerocketProxy are the settings of the network.
func (n Node) bottlerocketProxy() (map[string]any, error) {
	network := map[string]any{}
	environment := n.environment()
	for _, service := range sortedNames(environment) {
		for _, name := range sortedNames(environment[service]) {
			value := environment[service][name]
			switch {
			case service == nodeconfig.DefaultEnvironment && name == "HTTPS_PROXY":
				network["https-proxy"] = value
			case service == nodeconfig.DefaultEnvironment && name == "NO_PROXY":
				network["no-proxy"] = strings.Split(value, ",")
			default:
				return nil, fmt.Errorf("environment.%s.%s: Bottlerocket has only HTTPS_PROXY and NO_PROXY, "+
					"for all services", service, name)
			}
		}
	}
	return network, nil
}

// overlay puts settings over others. Another value for the same setting is an
// error.
func overlay(below, above map[string]any, path string) error {
	var errs []error
	for _, name := range sortedNames(above) {
		value, there := below[name]
		a, aIsTable := value.(map[string]any)
		b, bIsTable := above[name].(map[string]any)
		switch {
		case !there:
			below[name] = above[name]
		case aIsTable && bIsTable:
			errs = append(errs, overlay(a, b, path+"."+name))
		case fmt.Sprint(value) != fmt.Sprint(above[name]):
			errs = append(errs, fmt.Errorf("%s.%s: %v contradicts %v of the rest of the description", path, name,
				above[name], value))
		}
	}
	return errors.Join(errs...)
}

// settingsLine is a table, a dotted key or an inline table below settings.
var settingsLine = show.Regexp(`^(\[{1,2} *["']?settings["']? *[].]|["']?settings["']? *(\.|= *\{))`)

func isBottlerocket(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		return settingsLine().MatchString(line)
	}
	return false
}

func checkBottlerocket(c *checker, text string) {
	document, err := nodeconfig.ReadTOML([]byte(text))
	if err != nil {
		line := 0
		if at, ok := errors.AsType[*pelletier.DecodeError](err); ok {
			line, _ = at.Position()
		}
		c.fail(line, "", "it is not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
		return
	}
	s := settings{c, tomlLines(text)}
	for _, name := range sortedNames(document) {
		if name != "settings" {
			s.fail([]string{name}, "unknown table; everything stands below settings")
		}
	}
	s.walk([]string{"settings"}, document["settings"], settingsTable().Settings)
	kubernetes, _ := lookup(document, "settings", "kubernetes").(map[string]any)
	get := func(name string) string { value, _ := kubernetes[name].(string); return value }
	c.report.Cluster = Cluster{Name: get("cluster-name"), Endpoint: get("api-server"), CA: get("cluster-certificate")}
	switch dns := kubernetes["cluster-dns-ip"].(type) {
	case string:
		c.report.Cluster.DNSAddresses = []string{dns}
	case []any:
		for _, one := range dns {
			c.report.Cluster.DNSAddresses = append(c.report.Cluster.DNSAddresses, fmt.Sprint(one))
		}
	}
	for _, name := range []string{"cluster-name", "api-server", "cluster-certificate"} {
		if kubernetes[name] == nil && kubernetes["standalone-mode"] != true && !c.clusterElsewhere {
			s.fail([]string{"settings", "kubernetes", name}, "is missing; `aws eks describe-cluster` shows the value")
		}
	}
	if ca, err := nodeconfig.Unbase64(get("cluster-certificate")); err == nil && len(ca) > 0 {
		name := []string{"settings", "kubernetes", "cluster-certificate"}
		c.authority(s.lineOf(name), strings.Join(name, "."), ca)
	}
	if pods, ok := kubernetes["max-pods"].(int64); ok {
		c.maxPods = append(c.maxPods, fmt.Sprint(pods))
	}
	labels, _ := lookup(document, "settings", "kubernetes", "node-labels").(map[string]any)
	for _, name := range sortedNames(labels) {
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
