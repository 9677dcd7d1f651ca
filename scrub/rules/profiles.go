package rules

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// verdict is what a network profile says about one machine.
type verdict struct {
	// why is the reason to remove the profile; empty if it fits every machine.
	why string
	// advice is what a person must do if the profile cannot be removed.
	advice string
	// left is the profile without lines of one machine; nil if all stay.
	left []byte
}

// judges are the forms of profiles, by the files that have them.
func judges() map[string]func(name, text string) verdict {
	return map[string]func(name, text string) verdict{
		"/etc/NetworkManager/system-connections/*": judgeKeyfile,
		"/etc/sysconfig/network-scripts/ifcfg-*":   judgeIfcfg,
		"/etc/sysconfig/network/ifcfg-*":           judgeIfcfg,
		"/etc/sysconfig/network":                   judgeNames,
		"/etc/systemd/network/*.network":           judgeNetworkd,
		"/etc/systemd/network/*.link":              judgeNetworkd,
		"/etc/netplan/*.yaml":                      judgeNetplan,
		"/etc/netplan/*.yml":                       judgeNetplan,
		"/etc/network/interfaces":                  judgeInterfaces,
		"/etc/network/interfaces.d/*":              judgeInterfaces,
	}
}

// machineProfiles plans each profile by its verdict. Links stay: their targets
// belong to packages or to another place of the configuration. The rule
// network-profiles covers the profiles that cloud-init wrote.
func machineProfiles(d *rule.Draft) {
	ofCloudInit := rowOf("network-profiles").Paths
	for _, pattern := range d.Paths {
		names := slices.DeleteFunc(d.Glob(pattern), func(name string) bool { return rule.Kept(ofCloudInit, name) })
		d.OwnTexts(names, func(name string, text []byte) {
			switch v := judges()[pattern](name, string(text)); {
			case v.why != "" && v.advice != "":
				d.Find(name, v.why+": "+v.advice)
			case v.why != "":
				d.Remove(name, v.why)
			case v.left != nil:
				d.Write(plan.Write, name, v.left, "has a name or a hardware address of the builder machine")
			}
		})
	}
}

const (
	fixedAddress  = "has a fixed network address, which only one machine can have"
	fixedHardware = "is for one network card, by its hardware address"
)

// entry is a line of an INI file.
type entry struct{ section, key, value string }

// entries reads the lines of an INI file, with sections and keys in lower
// case. Lines of other forms are left out.
func entries(text string) []entry {
	var all []entry
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok && strings.HasSuffix(name, "]") {
			section = strings.ToLower(strings.TrimSuffix(name, "]"))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		all = append(all, entry{section, strings.ToLower(strings.TrimSpace(key)),
			strings.Trim(strings.TrimSpace(value), `"'`)})
	}
	return all
}

// valueOf returns the last value of a key; empty if there is none.
func valueOf(all []entry, section, key string) string {
	value := ""
	for _, s := range all {
		if s.section == section && s.key == key {
			value = s.value
		}
	}
	return value
}

// fixed reports whether a text begins with an address that only one machine can
// have: no loopback or link-local address, which each machine may have.
func fixed(text string) bool {
	text, _, _ = strings.Cut(strings.TrimSpace(text), ",")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	return err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() && !a.IsMulticast()
}

// card reports whether a name is that of a network card: bridges, tunnels and
// dummies may have the same address on every machine.
func card(name string) bool {
	return slices.ContainsFunc([]string{"eth", "en", "wl", "ib", "em"},
		func(start string) bool { return strings.HasPrefix(name, start) })
}

// judgeKeyfile judges a keyfile of NetworkManager; see nm-settings-keyfile(5).
func judgeKeyfile(_, text string) verdict {
	all := entries(text)
	kind := strings.TrimPrefix(valueOf(all, "connection", "type"), "802-3-")
	if !slices.Contains([]string{"ethernet", "wifi", "802-11-wireless", "infiniband"}, kind) {
		return verdict{}
	}
	for _, s := range all {
		switch {
		case (s.section == "ipv4" || s.section == "ipv6") && strings.HasPrefix(s.key, "address") && fixed(s.value):
			return verdict{why: fixedAddress}
		case s.key == "mac-address" && s.value != "", s.key == "cloned-mac-address" && strings.Contains(s.value, ":"):
			return verdict{why: fixedHardware}
		}
	}
	return verdict{}
}

// judgeIfcfg judges a profile of the network scripts; see sysconfig.txt of
// initscripts, ifcfg(5) of wicked.
func judgeIfcfg(name, text string) verdict {
	all := entries(text)
	device := strings.TrimPrefix(path.Base(name), "ifcfg-")
	if set := valueOf(all, "", "device"); set != "" {
		device = set
	}
	kind := strings.ToLower(valueOf(all, "", "type"))
	if kind == "ethernet" || kind == "" && card(device) {
		for _, s := range all {
			if (strings.HasPrefix(s.key, "ipaddr") || s.key == "ipv6addr") && fixed(s.value) {
				return verdict{why: fixedAddress}
			}
		}
	}
	return judgeNames(name, text)
}

// oneMachinesLine matches a line of the network scripts that holds a name or a
// hardware address of one machine; of comments, those with a hardware address.
var oneMachinesLine = rule.Expression(
	`(?i)^(?:\s*(?:export\s+)?(?:HOSTNAME|DHCP_HOSTNAME|DHCP_CLIENT_ID|DHCLIENT_HOSTNAME_OPTION)|` +
		`[\s#]*(?:export\s+)?(?:HWADDR|MACADDR|LLADDR))\s*=\s*["']?([^"'\s]*)`)

// judgeNames drops the lines with names and hardware addresses of one machine.
func judgeNames(_, text string) verdict {
	left := rule.WithoutLines(text, func(line string) bool {
		m := oneMachinesLine().FindStringSubmatch(line)
		return m != nil && !everyones(m[1])
	})
	if left == text {
		return verdict{}
	}
	return verdict{left: []byte(left)}
}

// everyones reports whether a name is no machine's own.
func everyones(name string) bool {
	return name == "" || strings.HasPrefix(name, "localhost") || strings.EqualFold(name, "AUTO")
}

// judgeNetworkd judges a file of systemd.network(5) or systemd.link(5).
func judgeNetworkd(_, text string) verdict {
	all := entries(text)
	for _, s := range all {
		if s.section == "match" && strings.HasSuffix(s.key, "macaddress") && s.value != "" {
			return verdict{why: fixedHardware}
		}
	}
	if !card(valueOf(all, "match", "name")) && valueOf(all, "match", "type") != "ether" {
		return verdict{}
	}
	for _, s := range all {
		switch {
		case (s.section == "network" || s.section == "address") && s.key == "address" && fixed(s.value):
			return verdict{why: fixedAddress}
		case s.section == "link" && s.key == "macaddress" && s.value != "":
			return verdict{why: fixedHardware}
		}
	}
	return verdict{}
}

type netplanCard struct {
	Addresses  []yaml.Node `yaml:"addresses"`
	MACAddress string      `yaml:"macaddress"`
	Match      struct {
		MACAddress string `yaml:"macaddress"`
	} `yaml:"match"`
}

// judgeNetplan judges a netplan file. A file with parts for every machine needs
// a person.
func judgeNetplan(_, content string) verdict {
	var file struct{ Network map[string]yaml.Node }
	if err := yaml.Unmarshal([]byte(content), &file); err != nil {
		return verdict{why: fmt.Sprintf("is not readable as a netplan file (%s)", show.Line(err.Error())),
			advice: "repair or remove the file"}
	}
	why, others := "", false
	for part, node := range file.Network {
		if part == "version" || part == "renderer" {
			continue
		}
		var cards map[string]netplanCard
		if part != "ethernets" && part != "wifis" || node.Decode(&cards) != nil {
			others = true
			continue
		}
		for _, c := range cards {
			if bound := c.bound(); bound != "" {
				why = max(why, bound)
			} else {
				others = true
			}
		}
	}
	if why != "" && others {
		return verdict{why: why, advice: "remove the card's address from the file; other parts of the file may be " +
			"for every machine"}
	}
	return verdict{why: why}
}

// bound says why a card's settings fit one machine only; empty if they do not.
func (c netplanCard) bound() string {
	if c.MACAddress != "" || c.Match.MACAddress != "" {
		return fixedHardware
	}
	for _, a := range c.Addresses {
		address := a.Value
		if a.Kind == yaml.MappingNode && len(a.Content) > 0 { // an address with options
			address = a.Content[0].Value
		}
		if fixed(address) {
			return fixedAddress
		}
	}
	return ""
}

// judgeInterfaces judges interfaces(5). The machine needs the file, so a person
// must edit it.
func judgeInterfaces(_, text string) verdict {
	physical := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "iface":
			physical = card(f[1])
		case len(f) > 1 && physical && f[0] == "address" && fixed(f[1]):
			return verdict{why: fixedAddress, advice: "use dhcp for this interface"}
		case len(f) > 1 && physical && f[0] == "hwaddress":
			return verdict{why: fixedHardware, advice: "remove the line hwaddress"}
		}
	}
	return verdict{}
}
