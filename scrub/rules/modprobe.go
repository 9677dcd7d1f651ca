package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// modprobeReaders find what keeps modules from loading.
func modprobeReaders() map[string]reader {
	return map[string]reader{
		"blocked-overlay": blocked("overlay"),
		"blocked-network": blocked("veth", "bridge", "br_netfilter", "dummy", "macvlan", "ipvlan", "tun", "8021q",
			"llc", "stp"),
		"blocked-filter": blocked("nf_*", "nft_*", "xt_*", "ipt_*", "ip_tables", "ip6_tables", "iptable_*",
			"ip6table_*", "x_tables", "ip_set*", "ip_vs*", "nfnetlink*"),
		"blocked-tunnels": blocked("vxlan", "geneve", "ipip", "ip_gre", "ip_tunnel", "ip6_tunnel", "udp_tunnel",
			"ip6_udp_tunnel", "wireguard", "xfrm_*", "esp4", "esp6"),
		"blocked-volumes": blocked("ext4", "xfs", "btrfs", "nfs", "nfsv4", "sunrpc", "fuse", "lustre", "iscsi_tcp",
			"libiscsi", "dm_mod", "dm_crypt", "dm_multipath", "loop"),
		"blocked-sctp":     blocked("sctp", "xt_sctp", "nf_conntrack_proto_sctp"),
		"blocked-squashfs": blocked("squashfs", "loop").where(there("/var/lib/snapd/snaps/*.snap")),
		"blocked-boot": anyOf(blocked("nvme", "nvme_core", "ena", "ixgbevf", "xen_blkfront", "xen_netfront",
			"virtio_*"),
			blocked("vfat", "nls_*", "fat").where(lines(`\svfat\s`, fstab))),
	}
}

// refusals are commands of an install line that load no module.
var refusals = []string{"false", "true", ":"}

// blocked finds lines by which modules that match patterns of path.Match do not
// load. A module on the deny list still loads by its own name, but not at boot,
// not for a device and not for a file system.
func blocked(patterns ...string) reader {
	return reader{inFolders("modprobe.d/*.conf"), func(d *rule.Draft) {
		d.EachLine(d.ConfFiles(inFolders("modprobe.d")...), func(name string, number int, line string) {
			words := strings.Fields(line)
			if len(words) < 2 {
				return
			}
			module := strings.ReplaceAll(words[1], "-", "_")
			refused := words[0] == "blacklist" ||
				words[0] == "install" && len(words) > 2 && slices.Contains(refusals, path.Base(words[2]))
			if refused && rule.Kept(patterns, module) {
				d.Find(name, fmt.Sprintf("line %d blocks the module %.40q", number, module))
			}
		})
	}}
}
