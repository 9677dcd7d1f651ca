package provisioner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// The service's own file keeps everything but its servers, once.
func TestServersReplaceThoseOfTheImage(t *testing.T) {
	spec := Spec{NTPServers: []string{"ntp1.example", "169.254.169.123"}, DNSServers: []string{"10.0.0.2", "10.0.0.3"}}
	const ntp = "server ntp1.example iburst\nserver 169.254.169.123 iburst\n"
	for name, test := range map[string]struct {
		distro string
		before map[string]string
		after  map[string]string
	}{
		"chrony of Ubuntu": {"ubuntu",
			map[string]string{"/etc/chrony/chrony.conf": "confdir /etc/chrony/conf.d\npool ntp.ubuntu.com iburst maxsources 4\npool 0.ubuntu.pool.ntp.org\n" +
				"sourcedir /run/chrony-dhcp\nsourcedir /etc/chrony/sources.d\nrtcsync\n"},
			map[string]string{"/etc/chrony/chrony.conf": "confdir /etc/chrony/conf.d\ninclude /etc/chrony/eksnode.servers\nrtcsync\n",
				"/etc/chrony/eksnode.servers":                  ntp,
				"/etc/systemd/resolved.conf.d/80-eksnode.conf": "[Resolve]\nDNS=10.0.0.2 10.0.0.3\nDomains=~.\n"}},
		"chrony and wicked of SLES": {"sles",
			map[string]string{"/etc/chrony.conf": "! pool pool.ntp.org iburst\ninclude /etc/chrony.d/*.conf\nrtcsync\n",
				"/etc/sysconfig/network/config": "NETCONFIG_DNS_POLICY=\"auto\"\nNETCONFIG_DNS_STATIC_SEARCHLIST=\"\"\nNETCONFIG_DNS_STATIC_SERVERS=\"\"\n"},
			map[string]string{"/etc/chrony.conf": "! pool pool.ntp.org iburst\ninclude /etc/chrony.d/eksnode.servers\nrtcsync\n",
				"/etc/chrony.d/eksnode.servers": ntp,
				"/etc/sysconfig/network/config": "NETCONFIG_DNS_POLICY=\"STATIC\"\nNETCONFIG_DNS_STATIC_SEARCHLIST=\"\"\n" +
					"NETCONFIG_DNS_STATIC_SERVERS=\"10.0.0.2 10.0.0.3\"\n"}},
		"NetworkManager": {"rhel", nil,
			map[string]string{"/etc/NetworkManager/conf.d/80-eksnode-dns.conf": "[global-dns-domain-*]\nservers=10.0.0.2,10.0.0.3\n"}},
		"timesyncd": {"debian", nil,
			map[string]string{"/etc/systemd/timesyncd.conf.d/80-eksnode.conf": "[Time]\nNTP=ntp1.example 169.254.169.123\nFallbackNTP=\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOf(t, test.distro, spec)
			h := bare(t, n.distro)
			for file, text := range test.before {
				require.NoError(t, h.Files.WriteFile(file, []byte(text), host.Attributes{Mode: 0o644}))
			}
			require.NoError(t, settle(t, h, pick(n, "system")...))
			for file, want := range test.after {
				assert.Equal(t, want, content(t, h, file))
			}
		})
	}
}

func TestAResolverIsNeeded(t *testing.T) {
	n := nodeOf(t, "debian", Spec{DNSServers: []string{"10.0.0.2"}})
	require.ErrorContains(t, n.judge(facts{systemd: true, proc: true, arch: "amd64", noResolver: true}),
		"dns_servers has no effect: this machine has no systemd-resolved.service; choose a base image with it")
}
