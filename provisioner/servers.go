package provisioner

import (
	"net/netip"
	"regexp"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// serverOption sets the servers of a service.
func serverOption(field surface.Name, how distros.Servers, list []string) option {
	const why = "the spec has these servers"
	o := option{id: string(field), why: "the service of " + string(field)}
	if how.Path != "" {
		o.files = []plan.File{textFile(how.Path, how.Of(how.Text, list), why)}
	}
	for _, l := range how.Lines {
		o.lines = append(o.lines, lineInFile{path: l.Path, key: l.Key, text: how.Of(l.Text, list), why: why})
	}
	return o
}

// options are those of the spec, and those whose form the distribution decides.
func (n *node) options() []option {
	list := n.spec.options()
	if n.spec.NVIDIA != "" {
		list = append(list, nvidiaDriver(n.driverPackages()))
	}
	if len(n.spec.NTPServers) > 0 {
		o := serverOption("ntp_servers", n.distro.Time.NTP, n.spec.NTPServers)
		o.needs = distros.NTP
		list = append(list, o)
	}
	if len(n.spec.DNSServers) > 0 {
		list = append(list, serverOption("dns_servers", n.distro.Network.DNS, n.spec.DNSServers))
	}
	return list
}

// resolverMissing says whether the service of dns_servers is none of this machine's.
func (n *node) resolverMissing(h *host.Host) (bool, error) {
	if len(n.spec.DNSServers) == 0 {
		return false, nil
	}
	has, err := h.HasUnit(n.distro.Network.DNS.Unit)
	return !has, err
}

var serverForm = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?$`)

// validateServers refuses what is no server, and servers that are listed twice.
func (s Spec) validateServers() []error {
	var errs []error
	check := func(field surface.Name, list []string, names bool, kind string) {
		for i, server := range list {
			address, err := netip.ParseAddr(server)
			switch {
			case slices.Contains(list[:i], server):
				errs = append(errs, surface.Errorf("%s: %q is listed twice", field, server))
			case err == nil && address.Zone() == "", names && serverForm.MatchString(server):
			default:
				errs = append(errs, surface.Errorf("%s: %q is not %s", field, server, kind))
			}
		}
	}
	check("ntp_servers", s.NTPServers, true, "a server's name or IP address")
	check("dns_servers", s.DNSServers, false, "an IP address")
	return errs
}
