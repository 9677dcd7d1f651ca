package provisioner

import (
	"net/netip"
	"regexp"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// serverOption sets the servers of a service.
func serverOption(field surface.Name, how distros.Servers, list []string) option {
	const why = "the spec has these servers"
	o := option{ID: string(field), Why: "the service of " + string(field)}
	if how.Path != "" {
		o.Files = []tableFile{{Path: how.Path, Content: how.Of(how.Text, list), Why: why}}
	}
	for _, l := range how.Lines {
		o.Lines = append(o.Lines, lineInFile{Path: l.Path, Key: l.Key, Text: how.Of(l.Text, list), Why: why})
	}
	return o
}

// options are those of the spec, and those whose form the distribution decides.
func (n *node) options() []option {
	list := n.spec.options()
	if n.spec.NVIDIA != "" {
		driver := optionTable()[slices.IndexFunc(optionTable(), func(o option) bool { return o.ID == "nvidia" })]
		driver.Packages = n.driverPackages()
		list = append(list, driver)
	}
	if len(n.spec.NTPServers) > 0 {
		o := serverOption("ntp_servers", n.distro.Time.NTP, n.spec.NTPServers)
		o.Needs = distros.NTP
		list = append(list, o)
	}
	if len(n.spec.DNSServers) > 0 {
		list = append(list, serverOption("dns_servers", n.distro.Network.DNS, n.spec.DNSServers))
	}
	return list
}

var serverForm = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?$`)

// validateServers refuses what is no server, and servers that are listed twice.
func (s Spec) validateServers(p *problems) {
	check := func(field surface.Name, list []string, names bool, kind string) {
		for i, server := range list {
			address, err := netip.ParseAddr(server)
			switch {
			case slices.Contains(list[:i], server):
				p.add("%s: %q is listed twice", field, server)
			case err == nil && address.Zone() == "", names && serverForm.MatchString(server):
			default:
				p.add("%s: %q is not %s", field, server, kind)
			}
		}
	}
	check("ntp_servers", s.NTPServers, true, "a server's name or IP address")
	check("dns_servers", s.DNSServers, false, "an IP address")
}
