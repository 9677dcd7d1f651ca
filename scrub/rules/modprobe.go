package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// modprobeRows are the modules that nodes need and that modprobe.d(5) may block.
// The modules that benchmarks block and no node needs are not among them:
// cramfs, freevxfs, hfs, hfsplus, jffs2, udf, usb-storage, dccp, rds and tipc.
func modprobeRows() []breaker {
	const fix = "Remove the line; load the module at boot with a file of /etc/modules-load.d if it must not load later"
	return []breaker{
		{
			id: "blocked-overlay", cause: "file-system", reads: blocked("overlay"),
			program: "containerd", shows: `containerd cannot mount images: "mount overlay: no such device"`,
			fix: fix, source: "containerd: snapshotter overlayfs",
			benchmarks: "CIS 1.1.1.6 for Debian 12, Ubuntu 24.04 and RHEL 10",
			exempts:    "kernel_module_overlayfs_disabled",
		},
		{
			id: "blocked-network", cause: "kernel-modules",
			reads:   blocked("veth", "bridge", "br_netfilter", "dummy", "macvlan", "ipvlan", "tun", "8021q", "llc", "stp"),
			program: "CNI plugins", shows: `pods get no interface: "operation not supported"`,
			fix: fix, source: "containernetworking/plugins; amazon-vpc-cni-k8s: security groups for pods use 8021q",
		},
		{
			id: "blocked-filter", cause: "kernel-modules",
			reads: blocked("nf_*", "nft_*", "xt_*", "ipt_*", "ip_tables", "ip6_tables", "iptable_*", "ip6table_*",
				"x_tables", "ip_set*", "ip_vs*", "nfnetlink*"),
			program: "kube-proxy, CNI plugins", shows: `Services do not work: iptables fails with "missing kernel module"`,
			fix: fix, source: "kubernetes.io: Virtual IPs and Service Proxies; kops #18724",
		},
		{
			id: "blocked-tunnels", cause: "network-plugin", note: true,
			reads: blocked("vxlan", "geneve", "ipip", "ip_gre", "ip_tunnel", "ip6_tunnel", "udp_tunnel", "ip6_udp_tunnel",
				"wireguard", "xfrm_*", "esp4", "esp6"),
			program: "Cilium, Calico, Flannel, Antrea", shows: "their tunnels between nodes do not work; the VPC CNI needs none",
			fix: fix, source: "the CNI plugins' system requirements",
		},
		{
			id: "blocked-volumes", cause: "csi-driver",
			reads: blocked("ext4", "xfs", "btrfs", "nfs", "nfsv4", "sunrpc", "fuse", "lustre", "iscsi_tcp", "libiscsi",
				"dm_mod", "dm_crypt", "dm_multipath", "loop"),
			program: "CSI drivers of EBS, EFS, FSx and S3", shows: `volumes of pods do not mount: "unknown filesystem type"`,
			fix: fix, source: "aws-ebs-csi-driver; aws-efs-csi-driver; mountpoint-s3-csi-driver",
			exempts: "package_gssproxy_removed package_nfs-utils_removed package_rpcbind_removed",
		},
		{
			id: "blocked-sctp", cause: "kernel-modules", reads: blocked("sctp", "xt_sctp", "nf_conntrack_proto_sctp"),
			note:    true,
			program: "Services with SCTP", shows: "pods cannot use SCTP",
			fix: "If pods use SCTP, remove the line", source: "kubernetes.io: SCTP",
			benchmarks: "CIS 3.2.4, CIS 3.1.3 for AL2023, V-257807",
		},
		{
			id: "blocked-squashfs", cause: "first-boot",
			reads:   blocked("squashfs", "loop").where(there("/var/lib/snapd/snaps/*.snap")),
			program: "snapd", shows: "no snap mounts, and the SSM agent or the kubelet of a snap does not start",
			fix: "Remove the line, or install the programs from packages", source: "snapd: system requirements",
			benchmarks: "CIS 1.1.1.6 for RHEL 9, CIS 1.1.1.1 for AL2023",
			exempts:    "kernel_module_squashfs_disabled",
		},
		{
			id: "blocked-boot", cause: "machine-boot",
			reads: anyOf(blocked("nvme", "nvme_core", "ena", "ixgbevf", "xen_blkfront", "xen_netfront", "virtio_*"),
				blocked("vfat", "nls_*", "fat").where(lines(`\svfat\s`, fstab))),
			program: "the machine",
			shows:   "the instance does not start, or starts into emergency mode, because it has no disk, network or /boot/efi",
			fix:     fix, source: "EC2 User Guide: Nitro drivers; older CIS benchmarks block vfat",
		},
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
