package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

var (
	auditConf = "/etc/audit/auditd.conf"
	timeConf  = []string{"/etc/chrony.conf", "/etc/chrony/chrony.conf", "/etc/chrony.d/*", "/etc/chrony/conf.d/*",
		"/etc/chrony/sources.d/*", "/etc/systemd/timesyncd.conf", "/etc/systemd/timesyncd.conf.d/*.conf"}
	timeUnits = []string{"chrony.service", "chronyd.service", "systemd-timesyncd.service", "ntp.service",
		"ntpd.service", "ntpsec.service"}
)

// settingRows are lines of configuration files and of the kernel's command line.
func settingRows() []breaker {
	return []breaker{
		{
			id: "audit-halts", cause: "machine-boot",
			reads:   lines(`^(disk_full_action|disk_error_action|admin_space_left_action|space_left_action)\s*=\s*(halt|single)`, auditConf),
			program: "auditd", shows: "auditd stops the instance when its disk is full, which pods' system calls fill",
			fix: "Set the action to syslog or suspend", source: "auditd.conf(5)",
			benchmarks: "CIS 6.2.2.3-4 for Debian 12 and Ubuntu 24.04, CIS 6.3.2.3-4 for RHEL 9, CIS 5.2.2.3 for AL2023, " +
				"V-258153, V-258154",
			exempts: "auditd_data_disk_error_action auditd_data_disk_error_action_stig auditd_data_disk_full_action " +
				"auditd_data_disk_full_action_stig auditd_data_retention_admin_space_left_action",
		},
		{
			id: "audit-keeps", cause: "disk-full", reads: lines(`^max_log_file_action\s*=\s*keep_logs`, auditConf),
			program: "kubelet", shows: "the audit logs fill the disk, and the kubelet evicts pods: DiskPressure",
			fix: "Set max_log_file_action = rotate, and send the logs elsewhere", source: "auditd.conf(5)",
			benchmarks: "CIS 6.2.2.2 for Debian 12 and Ubuntu 24.04, CIS 6.3.2.2 for RHEL 9, CIS 5.2.2.2 for AL2023",
			exempts:    "auditd_data_retention_max_log_file_action",
		},
		{
			id: "audit-panics", cause: "machine-boot",
			reads:   lines(`^-f\s*2\b`, "/etc/audit/audit.rules", "/etc/audit/rules.d/*.rules"),
			program: "the kernel",
			shows:   "the kernel panics and the node restarts when it loses an audit record, as under the load of many pods",
			fix:     "Set -f 1", source: "auditctl(8)", benchmarks: "V-258227",
			exempts: "audit_rules_system_shutdown",
		},
		{
			id: "cgroup-v1", cause: "cgroups",
			reads:   bootArgument(`systemd\.(unified_cgroup_hierarchy=(0|no|false|off)|legacy_systemd_cgroup_controller(=(1|yes))?)`).unless(kubeletBefore(35)),
			program: "kubelet", shows: `the kubelet exits: "kubelet is configured to not run on a host using cgroup v1"`,
			since: "kubelet 1.35",
			fix:   "Remove the argument", source: "kubernetes.io: About cgroup v2",
		},
		{
			id: "cgroups", cause: "cgroups", reads: bootArgument(`cgroup_disable=(\S*,)?(memory|cpu|cpuset|pids|io)\b\S*`),
			program: "kubelet", shows: `the kubelet exits: "failed to initialize top level QOS containers"`,
			since: "every kubelet",
			fix:   "Remove the argument", source: "Linux Documentation/admin-guide/kernel-parameters: cgroup_disable",
		},
		{
			id: "fips-boot", cause: "machine-boot",
			reads:   bootArgument(`fips=1`).where(lines(`^\S+\s+/boot\s`, fstab)).unless(bootArgument(`boot=\S+`)),
			program: "dracut", shows: "the machine stops at boot: the FIPS check does not find the kernel on the separate /boot",
			since:  "dracut 004",
			fix:    "Add boot=UUID=... of /boot to the command line, as fips-mode-setup does",
			source: "dracut.cmdline(7): boot=; awslabs/amazon-eks-ami #1002",
		},
		{
			id: "vsyscall-none", cause: "oci-runtime", reads: bootArgument(`vsyscall=none`), note: true,
			program: "containers", shows: "containers with a glibc before 2.14, such as CentOS 6, end with SIGSEGV",
			fix:    "For such containers, set vsyscall=emulate",
			source: "Linux Documentation/admin-guide/kernel-parameters: vsyscall", benchmarks: "V-257792",
		},
		{
			id: "unsigned-modules", cause: "kernel-modules",
			reads: bootArgument(`(module\.sig_enforce(=1)?|lockdown=(integrity|confidentiality))`), note: true,
			program: "NVIDIA, EFA and Lustre drivers",
			shows:   `modules without a trusted signature do not load: "key was rejected by service"`, since: "Linux 5.4",
			fix: "Sign the modules, or remove the argument", source: "kernel_lockdown(7)",
		},
		{
			id: "crypto-future", cause: "tls",
			reads:   lines(`^FUTURE\b`, "/etc/crypto-policies/config", "/etc/crypto-policies/state/current"),
			program: "curl, dnf, the AWS CLI",
			shows: `OpenSSL refuses certificates with RSA keys of 2048 bits: "ee key too small"; programs in Go are not ` +
				`affected`,
			since: "crypto-policies 20180000",
			fix:   "Set DEFAULT or FIPS", source: "crypto-policies(7)",
		},
		{
			id: "tls13-only", cause: "tls", note: true,
			reads: lines(`^(TLS\.)?MinProtocol\s*=\s*TLSv1\.3`, "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf",
				"/etc/crypto-policies/back-ends/opensslcnf.config"),
			program: "curl, the AWS CLI",
			shows:   "servers with TLS 1.2 only, such as older mirrors and proxies, refuse the handshake",
			since:   "OpenSSL 1.1.1",
			fix:     "Set MinProtocol = TLSv1.2", source: "SSL_CONF_cmd(3)",
		},
		{
			id: "dns-over-tls", cause: "dns", reads: systemdHas("resolved.conf", `^DNSOverTLS=(yes|true|1|on)$`),
			program: "systemd-resolved", shows: "no name resolves, because the VPC's resolver has no DNS over TLS",
			since: "systemd 239",
			fix:   "Set DNSOverTLS=no or opportunistic", source: "resolved.conf(5); Route 53 Developer Guide: VPC Resolver",
		},
		{
			id: "dns-servers", cause: "dns", note: true,
			reads: systemdHas("resolved.conf", `^DNS=\S`).unless(systemdHas("resolved.conf",
				`^DNS=(.*\s)?(10|100|127|169\.254|172\.(1[6-9]|2\d|3[01])|192\.168|f[cd]\w\w:.*)\b`)),
			program: "CoreDNS, pods with dnsPolicy: Default",
			shows: "their resolv.conf lists public servers before the VPC's: names of private zones and endpoints do not " +
				"resolve, and without internet access no name does",
			since:  "systemd 229",
			fix:    "Remove the line: DHCP gives the VPC's resolver. Or name 169.254.169.253 or a server in the VPC",
			source: "systemd #4334: the order in resolv.conf; CoreDNS: forward; konstruktoid/ansible-role-hardening",
		},
		{
			id: "dnssec", cause: "dns", reads: systemdHas("resolved.conf", `^DNSSEC=(yes|true|1|on)$`),
			program: "systemd-resolved",
			shows:   `names of private zones and endpoints do not resolve: "DNSSEC validation failed"`, since: "systemd 229",
			fix: "Set DNSSEC=no or allow-downgrade", source: "resolved.conf(5)",
		},
		{
			id: "resolver-missing", cause: "resolv-conf",
			reads:   dangling("/etc/resolv.conf", "/run/systemd/resolve/", "systemd-resolved.service"),
			program: "kubelet", shows: `no pod starts: "resolv.conf: no such file or directory"`, since: "every kubelet",
			fix:    "Unmask and enable systemd-resolved, or make the link a file that the DHCP client writes",
			source: "systemd-resolved(8)",
		},
		{
			id: "hosts-without-dns", cause: "dns",
			reads:   lines(`^hosts:.*`, "/etc/nsswitch.conf").unless(lines(`^hosts:.*\b(dns|resolve)\b`, "/etc/nsswitch.conf")),
			program: "programs with glibc's resolver", shows: "no name resolves",
			fix: "Add dns to the line", source: "nsswitch.conf(5)",
		},
		{
			id: "no-clock", cause: "clock", reads: masked(timeUnits...).unless(enabled(timeUnits...)),
			program: "first boot, kubelet",
			shows:   `no program sets the clock: "SignatureDoesNotMatch", "certificate is not yet valid"`,
			fix:     "Enable one of them", source: "EC2 User Guide: Set the time",
			benchmarks: "CIS 2.3.1.1, CIS 2.3.1 for RHEL 9, V-257943", exempts: "service_chronyd_disabled",
		},
		{
			id: "time-servers", cause: "clock", note: true,
			reads: lines(`^(server|pool|NTP=)\s*\S+`,
				timeConf...).unless(lines(`169\.254\.169\.123|fd00:ec2::123|\bpool\.ntp\.org|\.(ubuntu|amazon|archlinux)\.|aws\.com`, timeConf...)),
			program: "chrony, systemd-timesyncd",
			shows:   "the clock depends on servers that a VPC without internet access may not reach",
			fix:     "Add 169.254.169.123, which works in every VPC", source: "EC2 User Guide: Set the time",
			benchmarks: "CIS 2.3.2.1, CIS 2.3.2 for RHEL 9, CIS 2.1.2 for AL2023, V-257945",
		},
		{
			id: "log-rotation", cause: "file",
			reads:   lines(`^"?/var/log/(pods|containers)\b\S*`, "/etc/logrotate.conf", "/etc/logrotate.d/*"),
			program: "kubelet", shows: "logrotate and the kubelet rotate the same files, and kubectl logs loses lines",
			since:  "kubelet 1.21",
			fix:    "Remove the entry; set containerLogMaxSize of the kubelet",
			source: "kubernetes.io: Logging Architecture, log rotation",
		},
		{
			id: "no-journal", cause: "silent",
			reads: systemdHas("journald.conf", `^Storage=none$`), note: true,
			program: "eksnode diagnose", shows: "the kubelet's and containerd's logs are not kept, so no cause can be found",
			fix: "Set Storage=persistent", source: "journald.conf(5)",
		},
		{
			id: "sudo-tty", cause: "user-data-script",
			reads:   lines(`^Defaults\S*\s+([^#]*[,\s])?requiretty\b`, "/etc/sudoers", "/etc/sudoers.d/*"),
			program: "Packer, SSM documents, user data",
			shows: `sudo without a terminal or a password fails: "sorry, you must have a tty to run sudo", "a terminal is ` +
				`required to read the password"`,
			fix: "Add Defaults:USER !requiretty for the user that builds, and NOPASSWD", source: "sudoers(5)",
			exempts: "sudo_remove_nopasswd sudo_require_authentication",
		},
		{
			id: "root-shell", cause: "user-data-script",
			reads: lines(`^root:[^:]*:0:\d+:[^:]*:[^:]*:\S*(nologin|false)$`, "/etc/passwd"), note: true,
			program: "su, sudo -i, sessions as root",
			shows:   `they end at once: "This account is currently not available"; services are not affected`,
			fix:     "Give root the shell /bin/bash; lock its password instead", source: "nologin(8)",
		},
		{
			id: "password-age", cause: "user-data-script", reads: lines(`^root:[^:]*:\d*:\d*:[1-9]\d{0,3}:`, "/etc/shadow"),
			note:    true,
			program: "cron, su",
			shows: `some time after the build of the image, root's password expires, and jobs of root fail: "Authentication ` +
				`token is no longer valid"`,
			fix: "Run chage --maxdays -1 root before the capture", source: "shadow(5); pam_unix(8)",
			benchmarks: "CIS 5.4.1.1, CIS 4.6.1.1 for AL2023, V-258042",
		},
		{
			id: "session-limits", cause: "limits",
			reads: lines(`^\S+\s+(hard|-)\s+(nproc|nofile)\s+\d{1,4}$`, "/etc/security/limits.conf",
				"/etc/security/limits.d/*"),
			note:    true,
			program: "sessions of SSH and sudo",
			shows:   `installers and scripts fail with "too many open files"; services are not affected`,
			fix:     "Raise the limit, or leave out the user that builds",
			source:  "limits.conf(5); systemd.exec(5): services do not use pam_limits",
		},
		{
			id: "closed-umask", cause: "network-plugin", reads: lines(`^UMASK\s+0?[0-7]?[2367]7`, "/etc/login.defs"), note: true,
			program: "installers",
			shows: "files that installers make are closed to programs that do not run as root; eksnode sets the modes of its " +
				"files",
			fix: "Install with umask 022", source: "login.defs(5); awslabs/amazon-eks-ami #1804",
			benchmarks: "CIS 5.4.3.3, CIS 4.6.5 for AL2023, V-258074",
		},
	}
}

// bootArgument finds arguments on the kernel's command line of the next boots.
func bootArgument(pattern string) reader {
	return lines(`(^|[\s"'=])`+pattern+`($|["'\s])`, kernelArguments...)
}

// kubeletBefore finds that the image is for an older minor version of Kubernetes
// 1. Without a manifest, the version is unknown.
func kubeletBefore(minor int) reader {
	return reader{nil, func(d *rule.Draft) {
		m := loaded(d)
		if m == nil {
			return
		}
		parts := strings.Split(m.KubernetesVersion, ".")
		if n, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err == nil && n < minor {
			d.Find(manifest.Path, "older")
		}
	}}
}

// dangling finds a link into a folder that only a unit fills, when the unit is
// not installed or masked.
func dangling(link, folder, unit string) reader {
	return reader{[]string{link}, func(d *rule.Draft) {
		_, place, err := d.Host.Trail(link, true)
		// Without systemd, it is a part of a system.
		if !d.Failed(err) && strings.HasPrefix(place, folder) && !d.HasUnit(unit) && d.Exists("/usr/lib/systemd/systemd") {
			d.Find(link, fmt.Sprintf("leads into %s, but %s is masked or not installed", folder, unit))
		}
	}}
}
