package scrub

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// hardenedNode is a node without a setting that breaks it. Its lines are those
// of Debian's, Ubuntu's and Fedora's own files, and of eksnode's.
var hardenedNode = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/shadow": "root:*:20000:0:99999:7:::\n", "etc/eks/": "",
	"var/lib/kubelet/":                      "",
	"etc/sysctl.d/10-network-security.conf": "net.ipv4.conf.default.rp_filter=2\nnet.ipv4.conf.all.rp_filter=2\n",
	"usr/lib/sysctl.d/50-redhat.conf": "net.ipv4.conf.default.rp_filter = " +
		"1\nnet.ipv4.conf.*.rp_filter = 1\n-net.ipv4.conf.all.rp_filter\nnet.core.bpf_jit_harden = 1\n",
	"etc/sysctl.d/60-cis.conf": "net.ipv4.ip_forward = " +
		"0\nnet.ipv4.conf.default.forwarding = 0\nkernel.panic = 60\nkernel.unprivileged_bpf_disabled = " +
		"1\nkernel.kexec_load_disabled = 1\nkernel.yama.ptrace_scope = 2\n",
	"etc/sysctl.d/99-zz-eksnode.conf": "kernel.panic = 10\nkernel.panic_on_oops = " +
		"1\nvm.overcommit_memory = 1\nnet.ipv4.ip_forward = 1\nfs.inotify.max_user_instances = 8192\n",
	"etc/modprobe.d/cis.conf": "install cramfs /bin/false\nblacklist " +
		"cramfs\ninstall udf /bin/true\ninstall usb-storage /bin/false\ninstall squashfs /bin/false\n# install overlay " +
		"/bin/false\ninstall overlay /sbin/modprobe --ignore-install overlay\ninstall vfat /bin/false\n",
	"etc/fstab": "UUID=1 / ext4 defaults,errors=remount-ro 0 " +
		"1\nUUID=2 /var ext4 nosuid,nodev 0 2\n#UUID=3 /opt ext4 noexec 0 2\n/dev/x /opt ext4 noexec,exec 0 0\ntmpfs /tmp " +
		"tmpfs nosuid,nodev 0 0\ntmpfs /dev/shm tmpfs noexec 0 0\nproc /proc proc hidepid=2,gid=adm 0 0\n/dev/y none " +
		"swap sw 0 0\n",
	"usr/lib/systemd/system/tmp.mount":                             "[Mount]\nWhere=/tmp\nOptions=noexec\n",
	"etc/systemd/system/containerd.service":                        "[Service]\nType=notify\nDelegate=yes\nLimitNPROC=infinity\nTasksMax=infinity\nPrivateTmp=no\n",
	"etc/systemd/system/kubelet.service":                           "[Service]\nExecStart=/usr/bin/kubelet\nMemoryAccounting=true\nCapabilityBoundingSet_=x\n",
	"etc/systemd/system/service.d/cis.conf":                        "[Service]\nNoNewPrivileges=yes\nPrivateTmp=yes\n",
	"etc/systemd/system/kubelet.service.d/z":                       "ProtectSystem=full\n", // not *.conf
	"etc/systemd/system/kubelet.service.d/zz-node.conf":            "[Service]\nNoNewPrivileges=no\nPrivateTmp=no\n",
	"etc/systemd/system/containerd.service.d/zz-node.conf":         "[Service]\nNoNewPrivileges=no\nPrivateTmp=no\n",
	"usr/lib/systemd/system/service.d/10-timeout-abort.conf":       "[Service]\nTimeoutStopFailureMode=abort\n",
	"etc/systemd/system.conf":                                      "[Manager]\n#DefaultTasksMax=15%\nDefaultLimitNOFILE=1024:524288\n",
	"etc/systemd/system/timers.target.wants/nm-cloud-setup.timer":  "-> /x",
	"etc/systemd/system/nm-cloud-setup.timer":                      "-> /dev/null",
	"etc/systemd/system/multi-user.target.wants/nftables.service":  "-> /x",
	"etc/nftables.conf":                                            "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter;\n\t}\n}\n",
	"etc/systemd/system/multi-user.target.wants/fapolicyd.service": "-> /x",
	"etc/fapolicyd/trust.d/node":                                   "/usr/bin/kubelet 1 2\n",
	"opt/cni/bin/README.md":                                        "text", "opt/cni/bin/portmap": "x", "usr/sbin/iptables": "x", "usr/bin/containerd": "x", "usr/bin/cloud-init": "x",
	"etc/selinux/config": "SELINUX=permissive\nSELINUXTYPE=targeted\n", "etc/apparmor.d/runc": "profile runc " +
		"/usr/sbin/runc flags=(unconfined) {\n",
	"etc/audit/auditd.conf": "max_log_file_action = ROTATE\nadmin_space_left_action = SUSPEND\ndisk_full_action = " +
		"SUSPEND\n", "etc/audit/rules.d/audit.rules": "-b 8192\n-f 1\n",
	"etc/default/grub": "GRUB_CMDLINE_LINUX=\"audit=1 cgroup_enable=memory ipv6.disable_ipv6=0 selinux=1 " +
		"page_poison=1\"\n",
	"etc/crypto-policies/config": "DEFAULT\n", "etc/nsswitch.conf": "hosts: files dns\n",
	"etc/systemd/resolved.conf":                       "#DNSSEC=yes\nDNSOverTLS=yes\nDNS=1.1.1.1 169.254.169.253\n",
	"etc/systemd/resolved.conf.d/node.conf":           "[Resolve]\nDNSOverTLS=opportunistic\n",
	"etc/resolv.conf":                                 "-> ../run/systemd/resolve/stub-resolv.conf",
	"usr/lib/systemd/system/systemd-resolved.service": "[Service]\n", "usr/lib/systemd/systemd": "x",
	"etc/systemd/system/systemd-timesyncd.service":              "-> /dev/null",
	"etc/systemd/system/multi-user.target.wants/chrony.service": "-> /x",
	"etc/chrony/chrony.conf":                                    "server 10.0.0.1\npool 2.debian.pool.ntp.org iburst\n",
	"etc/logrotate.d/rsyslog":                                   "/var/log/syslog {\n}\n",
	"etc/sudoers":                                               "Defaults\tuse_pty\nDefaults !requiretty\n",
	"etc/security/limits.d/20-nproc.conf":                       "* soft nproc 4096\nroot soft nproc unlimited\n",
	"etc/login.defs":                                            "UMASK 022\n",
}

// breaks has for each row a file, as a change to hardenedNode, and what a finding
// says about it.
var breaks = map[string]struct{ file, text, finding string }{
	"kernel-settings": {"etc/sysctl.d/99-zzz.conf", "vm.panic_on_oom = 1\n", `line 1 sets vm.panic_on_oom = ` +
		`"1", and no later file changes it`},
	"ip-forward": {"etc/sysctl.d/99-zzz.conf", "\nnet.ipv4.conf.all.forwarding=0\n", `line 2 sets ` +
		`net.ipv4.conf.all.forwarding = "0"`},
	"new-interfaces-forward": {"etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.default.forwarding=0\n", `line 1 sets ` +
		`net.ipv4.conf.default.forwarding = "0"`},
	"ipv6-forward":     {"etc/sysctl.d/a.conf", "net.ipv6.conf.all.forwarding=0\n", `net.ipv6.conf.all.forwarding = "0"`},
	"bridge-filter":    {"etc/sysctl.d/a.conf", "net.bridge.bridge-nf-call-iptables=0\n", `bridge-nf-call-iptables = "0"`},
	"reverse-path":     {"etc/sysctl.d/20-a.conf", "net.ipv4.conf.all.rp_filter=1\n", `net.ipv4.conf.all.rp_filter = "1"`},
	"user-namespaces":  {"etc/sysctl.d/a.conf", "user.max_user_namespaces = 0\n", "(V-257816)"},
	"modules-disabled": {"etc/sysctl.d/a.conf", "kernel.modules_disabled=1\n", "no module loads after boot"},
	"bpf-hardened":     {"etc/sysctl.d/a.conf", "net.core.bpf_jit_harden=2\n", `net.core.bpf_jit_harden = "2"`},
	"ipv6-off":         {"etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet ipv6.disable=1\"\n", `line 1 has "ipv6.disable=1\""`},
	"router-advertisements": {"etc/sysctl.d/a.conf", "net.ipv6.conf.all.accept_ra=0\n", `net.ipv6.conf.all.accept_ra ` +
		`= "0"`},
	"log-martians":     {"etc/sysctl.d/a.conf", "net.ipv4.conf.all.log_martians=1\n", "CIS 3.3.9"},
	"few-resources":    {"etc/sysctl.d/a.conf", "kernel.pid_max=4096\n", `kernel.pid_max = "4096"`},
	"blocked-overlay":  {"etc/modprobe.d/o.conf", "install overlay /bin/false\n", `line 1 blocks the module "overlay"`},
	"blocked-network":  {"etc/modprobe.d/o.conf", "blacklist br-netfilter\n", `blocks the module "br_netfilter"`},
	"blocked-filter":   {"usr/lib/modprobe.d/o.conf", "install xt_comment /bin/true\n", `blocks the module "xt_comment"`},
	"blocked-tunnels":  {"etc/modprobe.d/o.conf", "install vxlan /bin/false\n", `"vxlan"`},
	"blocked-volumes":  {"etc/modprobe.d/o.conf", "install nfsv4 /usr/bin/false\n", `"nfsv4"`},
	"blocked-sctp":     {"etc/modprobe.d/o.conf", "install sctp /bin/false\n", `"sctp"`},
	"blocked-squashfs": {"var/lib/snapd/snaps/a.snap", "x", `line 5 blocks the module "squashfs"`},
	"blocked-boot":     {"etc/fstab", "UUID=1 /boot/efi vfat umask=0077 0 1\n", `line 8 blocks the module "vfat"`},
	"noexec-programs": {"etc/fstab", "/dev/z /usr/local ext4 noexec 0 0\n", `line 1 mounts "/usr/local" with ` +
		`noexec, and /usr/local/bin is on it`},
	"noexec-cni": {"etc/fstab", "/dev/z /opt ext4 nodev,noexec 0 0\n", `mounts "/opt" with noexec, and ` +
		`/opt/cni/bin is on it`},
	"noexec-credentials": {"etc/fstab", "/dev/z /etc ext4 noexec 0 0\n", `mounts "/etc" with noexec`},
	"noexec-user-data":   {"etc/fstab", "/dev/z /var ext4 noexec 0 0\n", "cloud-init #3429"},
	"noexec-ssm":         {"snap/amazon-ssm-agent/x", "", ""},
	"noexec-volumes": {"etc/systemd/system/var-lib-kubelet.mount",
		"[Mount]\nWhere=/var/lib/kubelet\nOptions=noexec\n", `line 3 mounts "/var/lib/kubelet" with noexec`},
	"noexec-tmp":      {"etc/fstab", "tmpfs /tmp tmpfs noexec 0 0\n", `mounts "/tmp" with noexec`},
	"read-only-state": {"etc/fstab", "/dev/z / ext4 ro 0 0\n", `mounts "/" with ro, and /var/lib/kubelet is on it`},
	"hidepid":         {"etc/fstab", "proc /proc proc hidepid=2,gid=root 0 0\n", `mounts "/proc" with hidepid=2`},
	"unit-mount-namespace": {"etc/systemd/system/service.d/z.conf", "ProtectSystem = full\n", `line 1 sets ` +
		`ProtectSystem of kubelet.service = "full"`},
	"unit-privileges": {"etc/systemd/system/containerd.service.d/zz-node.conf", "[Service]\nPrivateTmp=no\n",
		`line 2 sets NoNewPrivileges of containerd.service = "yes"`},
	"unit-system-calls": {"etc/systemd/system/kubelet.service.d/a.conf", "SystemCallFilter=@system-service\n",
		"SystemCallFilter of kubelet.service"},
	"unit-capabilities": {"etc/systemd/system/kubelet.service.d/a.conf", "CapabilityBoundingSet=CAP_NET_ADMIN\n",
		"CapabilityBoundingSet of kubelet.service"},
	"unit-network":  {"etc/systemd/system/kubelet.service.d/a.conf", "IPAddressDeny=any\n", "IPAddressDeny of kubelet"},
	"unit-umask":    {"etc/systemd/system/containerd.service.d/a.conf", "UMask=0027\n", `UMask of containerd.service`},
	"unit-limits":   {"etc/systemd/system.conf", "DefaultTasksMax=100\n", `line 1 sets DefaultTasksMax = "100"`},
	"unit-delegate": {"etc/systemd/system/containerd.service.d/a.conf", "Delegate=no\n", `Delegate of containerd.service`},
	"unit-masked":   {"etc/systemd/system/kubelet.service", "-> /dev/null", "kubelet.service is masked"},
	"host-firewall": {"etc/systemd/system/x.wants/firewalld.service", "-> /x", "firewalld.service starts at " +
		"boot and blocks the chain forward"},
	"firewall-input": {"etc/nftables.conf", "chain input { type filter hook input priority 0; policy drop; tcp " +
		"dport 22 accept }\n", "nftables.service starts at boot and blocks the chain input"},
	"firewall-output": {"etc/nftables.conf", "include \"/etc/nft.d/*.nft\"\n", "nftables.service starts at boot " +
		"and blocks the chain output"},
	"firewall-metadata": {"etc/iptables/rules.v4", "*filter\n-A OUTPUT -d 169.254.169.254/32 -j DROP\n", "line 2 has"},
	"no-iptables":       {"usr/sbin/iptables", "", "failed to locate iptables"},
	"nm-cloud-setup":    {"etc/systemd/system/nm-cloud-setup.timer", "[Timer]\n", "nm-cloud-setup.timer starts at boot"},
	"selinux-policy":    {"etc/selinux/config", "SELINUX=enforcing\n", `line 1 has "SELINUX=enforcing"`},
	"selinux-labels":    {"etc/selinux/config", "SELINUX=enforcing\n", "the file has the type user_tmp_t of SELinux"},
	"selinux-mls":       {"etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=mls\n", "SELINUXTYPE=mls"},
	"selinux-relabel":   {".autorelabel", "x", "labels its whole disk"},
	"apparmor-profile":  {"etc/apparmor.d/usr.bin.kubelet", "/usr/bin/kubelet {\n", "line 1 has"},
	"fapolicyd":         {"etc/fapolicyd/trust.d/node", "", "fapolicyd.service starts at boot"},
	"closed-programs":   {"usr/bin/kubelet 0644", "#!/bin/sh\n", "the mode is 0644 and lacks 0100"},
	"closed-folders":    {"etc/resolv.conf 0600", "x", "the mode is 0600 and lacks 0004"},
	"closed-cni":        {"etc/cni/ 0750", "", "the mode is 0750 and lacks 0005"},
	"audit-halts":       {"etc/audit/auditd.conf", "admin_space_left_action = HALT\n", `"admin_space_left_action = HALT"`},
	"audit-keeps":       {"etc/audit/auditd.conf", "max_log_file_action = keep_logs\n", "keep_logs"},
	"audit-panics":      {"etc/audit/rules.d/a.rules", "-f 2\n", `"-f 2"`},
	"cgroup-v1": {"boot/loader/entries/a.conf", "options root=x systemd.unified_cgroup_hierarchy=0\n",
		"unified_cgroup_hierarchy=0"},
	"cgroups":          {"etc/kernel/cmdline", "quiet cgroup_disable=memory\n", "cgroup_disable=memory"},
	"fips-boot":        {"etc/fstab", "UUID=1 /boot ext4 defaults 0 1\n", "the FIPS check"},
	"vsyscall-none":    {"etc/default/grub", "GRUB_CMDLINE_LINUX=vsyscall=none\n", "V-257792"},
	"unsigned-modules": {"etc/default/grub", "GRUB_CMDLINE_LINUX='lockdown=integrity'\n", "lockdown=integrity"},
	"crypto-future":    {"etc/crypto-policies/config", "FUTURE\n", "FUTURE"},
	"tls13-only":       {"etc/ssl/openssl.cnf", "MinProtocol = TLSv1.3\n", "TLSv1.3"},
	"dns-over-tls":     {"etc/systemd/resolved.conf.d/z.conf", "DNSOverTLS=yes\n", `DNSOverTLS = "yes"`},
	"dns-servers":      {"etc/systemd/resolved.conf.d/a.conf", "DNS=1.1.1.2 9.9.9.9\n", `DNS = "1.1.1.2 9.9.9.9"`},
	"dnssec":           {"usr/lib/systemd/resolved.conf.d/a.conf", "DNSSEC = true\n", `DNSSEC = "true"`},
	"resolver-missing": {"etc/systemd/system/systemd-resolved.service", "-> /dev/null",
		"systemd-resolved.service is masked or not installed"},
	"hosts-without-dns": {"etc/nsswitch.conf", "hosts: files myhostname\n", "files myhostname"},
	"no-clock": {"etc/systemd/system/multi-user.target.wants/chrony.service", "",
		"systemd-timesyncd.service is masked"},
	"time-servers":   {"etc/chrony/chrony.conf", "server 10.0.0.1\n", "server 10.0.0.1"},
	"log-rotation":   {"etc/logrotate.d/pods", "/var/log/pods/*/*.log {\n", "/var/log/pods"},
	"no-journal":     {"etc/systemd/journald.conf", "Storage=none\n", `Storage = "none"`},
	"sudo-tty":       {"etc/sudoers", "Defaults use_pty,requiretty\n", "requiretty"},
	"root-shell":     {"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\n", "nologin"},
	"password-age":   {"etc/shadow", "root:*:20000:7:365:7:::\n", "CIS 5.4.1.1"},
	"session-limits": {"etc/security/limits.conf", "* hard nofile 1024\n", "nofile 1024"},
	"closed-umask":   {"etc/login.defs", "UMASK 027\n", "UMASK 027"},
}

// with adds what one row needs in addition to its file.
var with = map[string]map[string]string{
	"noexec-ssm": {"etc/fstab": "/dev/z /var ext4 noexec 0 0\n"},
	"firewall-output": {"etc/nft.d/a.nft": "table inet f {\n chain output {\n type filter hook output priority 0\n " +
		"policy drop\n }\n}\n"},
	"selinux-labels": {"usr/local/bin/kubelet": "x"},
	"fips-boot":      {"etc/default/grub": "GRUB_CMDLINE_LINUX=fips=1\n"},
}

// node is a tree whose programs may be executed. A file's name may end with a
// mode.
func node(t *testing.T, files map[string]string) *host.Host {
	t.Helper()
	plain, modes := map[string]string{}, map[string]string{}
	for name, text := range files {
		name, mode, _ := strings.Cut(name, " ")
		plain[name], modes[name] = text, mode
		if mode == "" && text == "x" {
			modes[name] = "0755"
		}
	}
	h, root := tree(t, plain)
	for name, mode := range modes {
		if mode != "" {
			bits, err := strconv.ParseUint(mode, 8, 32)
			require.NoError(t, err)
			require.NoError(t, os.Chmod(filepath.Join(root, name), os.FileMode(bits)))
		}
	}
	return h
}

func breakersOf(h *host.Host, t *testing.T) map[string][]string {
	t.Helper()
	items := selected(t, Spec{Only: []string{rule.BreakersGroup}}, ToAudit)
	found := map[string][]string{}
	for _, i := range items {
		answer, err := i.Plan(t.Context(), h)
		require.NoError(t, err, i.ID())
		require.Empty(t, answer.Actions)
		for _, f := range append(answer.Findings, answer.Notes...) {
			found[i.ID()] = append(found[i.ID()], f.Target+": "+f.Reason)
		}
	}
	return found
}

func TestAHardenedNodeThatWorksHasNoBreaker(t *testing.T) {
	h := node(t, hardenedNode)
	found := breakersOf(h, t)
	delete(found, "noexec-volumes") // a note: /var has nosuid
	assert.Empty(t, found)
}

func TestEveryBreakerIsFound(t *testing.T) {
	var rows []string
	for _, r := range Table() {
		if r.Breaks == nil {
			continue
		}
		rows = append(rows, r.ID)
		t.Run(r.ID, func(t *testing.T) {
			sample, there := breaks[r.ID]
			require.True(t, there, "the row has no sample")
			files := maps.Clone(hardenedNode)
			name, _, _ := strings.Cut(sample.file, " ")
			_, known := files[name]
			delete(files, name)
			if !known || sample.text != "" {
				files[sample.file] = sample.text
			}
			maps.Copy(files, with[r.ID])
			h := node(t, files)
			if r.ID == "selinux-labels" {
				require.NoError(t, unix.Setxattr(h.Root()+"/usr/local/bin/kubelet", "security.selinux",
					[]byte("system_u:object_r:user_tmp_t:s0\x00"), 0))
			}
			got := breakersOf(h, t)[r.ID]
			require.NotEmpty(t, got)
			all := strings.Join(append(got, r.Source), "\n")
			assert.Contains(t, all, sample.finding)
			for _, part := range []string{r.Breaks.Shows, r.Breaks.Fix, r.Breaks.Benchmarks} {
				assert.Contains(t, all, part)
			}
			for field, value := range map[string]string{"cause": r.Breaks.Cause, "program": r.Breaks.Program,
				"since": r.Breaks.Since} {
				assert.NotEmpty(t, value, field)
			}
		})
	}
	assert.ElementsMatch(t, rows, slices.Collect(maps.Keys(breaks)), "each row has one sample")
}

// A policy that drops outgoing packets breaks no node whose rules accept new connections,
// as roles of Ansible and CIS's own scripts leave them.
func TestOutgoingConnectionsThatAreAcceptedBreakNothing(t *testing.T) {
	for unit, text := range map[string][2]string{
		"ufw": {"etc/ufw/user.rules", "ENABLED=yes\nDEFAULT_OUTPUT_POLICY=DROP\n-A ufw-user-output -j ACCEPT # new\n"},
		"nftables": {"etc/nftables.conf", "chain output { type filter hook output priority 0; policy drop;\n" +
			"ip protocol tcp ct state established,related,new accept\n}\n"},
		"netfilter-persistent": {"etc/iptables/rules.v4", ":OUTPUT DROP [0:0]\n" +
			"-A OUTPUT -p tcp -m state --state NEW,ESTABLISHED -j ACCEPT\n"},
	} {
		starts := "etc/systemd/system/x.wants/" + unit + ".service"
		files := map[string]string{"etc/passwd": passwd, text[0]: text[1], starts: "-> /x"}
		assert.Empty(t, breakersOf(node(t, files), t)["firewall-output"], unit)
		other := strings.NewReplacer("new", "invalid", "NEW", "INVALID", "-j ACCEPT # new", "-o all -j ACCEPT")
		files[text[0]] = other.Replace(text[1])
		assert.Len(t, breakersOf(node(t, files), t)["firewall-output"], 1, unit)
	}
}

// The group is for machines that are not yet nodes too, if it is named.
func TestBreakersOfABaseImage(t *testing.T) {
	image := map[string]string{"etc/passwd": passwd, "etc/fstab": "/dev/z /opt ext4 noexec 0 0\n"}
	h, _ := tree(t, image)
	assert.Contains(t, strings.Join(audit(t, h, rule.BreakersGroup), "\n"), "/etc/fstab: line 1 mounts \"/opt\" with noexec")
	items := selected(t, Spec{Node: NodeAuto}, ToAudit)
	for _, p := range plan.Make(t.Context(), h, items) {
		assert.False(t, p.Item == "noexec-cni" && len(p.Findings) > 0, "not a node")
	}
}
