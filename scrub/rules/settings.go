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

// settingReaders find lines of configuration files and of the kernel's command line.
func settingReaders() map[string]reader {
	return map[string]reader{
		"audit-halts": lines(`^(disk_full|disk_error|admin_space_left|space_left)_action\s*=\s*(halt|single)`,
			auditConf),
		"audit-keeps":  lines(`^max_log_file_action\s*=\s*keep_logs`, auditConf),
		"audit-panics": lines(`^-f\s*2\b`, "/etc/audit/audit.rules", "/etc/audit/rules.d/*.rules"),
		"cgroup-v1": bootArgument(`systemd\.(unified_cgroup_hierarchy=(0|no|false|off)|` +
			`legacy_systemd_cgroup_controller(=(1|yes))?)`).unless(kubeletBefore(35)),
		"cgroups": bootArgument(`cgroup_disable=(\S*,)?(memory|cpu|cpuset|pids|io)\b\S*`),
		"fips-boot": bootArgument(`fips=1`).where(lines(`^\S+\s+/boot\s`, fstab)).
			unless(bootArgument(`boot=\S+`)),
		"vsyscall-none":    bootArgument(`vsyscall=none`),
		"unsigned-modules": bootArgument(`(module\.sig_enforce(=1)?|lockdown=(integrity|confidentiality))`),
		"crypto-future":    lines(`^FUTURE\b`, "/etc/crypto-policies/config", "/etc/crypto-policies/state/current"),
		"tls13-only": lines(`^(TLS\.)?MinProtocol\s*=\s*TLSv1\.3`, "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf",
			"/etc/crypto-policies/back-ends/opensslcnf.config"),
		"dns-over-tls": systemdHas("resolved.conf", `^DNSOverTLS=(yes|true|1|on)$`),
		"dns-servers": systemdHas("resolved.conf", `^DNS=\S`).unless(systemdHas("resolved.conf",
			`^DNS=(.*\s)?(10|100|127|169\.254|172\.(1[6-9]|2\d|3[01])|192\.168|f[cd]\w\w:.*)\b`)),
		"dnssec":           systemdHas("resolved.conf", `^DNSSEC=(yes|true|1|on)$`),
		"resolver-missing": dangling("/etc/resolv.conf", "/run/systemd/resolve/", "systemd-resolved.service"),
		"hosts-without-dns": lines(`^hosts:.*`, "/etc/nsswitch.conf").
			unless(lines(`^hosts:.*\b(dns|resolve)\b`, "/etc/nsswitch.conf")),
		"no-clock": masked(timeUnits...).unless(enabled(timeUnits...)),
		"time-servers": lines(`^(server|pool|NTP=)\s*\S+`, timeConf...).unless(lines(
			`169\.254\.169\.123|fd00:ec2::123|\bpool\.ntp\.org|\.(ubuntu|amazon|archlinux)\.|aws\.com`, timeConf...)),
		"log-rotation": lines(`^"?/var/log/(pods|containers)\b\S*`, "/etc/logrotate.conf", "/etc/logrotate.d/*"),
		"no-journal":   systemdHas("journald.conf", `^Storage=none$`),
		"sudo-tty":     lines(`^Defaults\S*\s+([^#]*[,\s])?requiretty\b`, "/etc/sudoers", "/etc/sudoers.d/*"),
		"root-shell":   lines(`^root:[^:]*:0:\d+:[^:]*:[^:]*:\S*(nologin|false)$`, "/etc/passwd"),
		"password-age": lines(`^root:[^:]*:\d*:\d*:[1-9]\d{0,3}:`, "/etc/shadow"),
		"session-limits": lines(`^\S+\s+(hard|-)\s+(nproc|nofile)\s+\d{1,4}$`, "/etc/security/limits.conf",
			"/etc/security/limits.d/*"),
		"closed-umask": lines(`^UMASK\s+0?[0-7]?[2367]7`, "/etc/login.defs"),
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
		if !d.Failed(err) && strings.HasPrefix(place, folder) && !d.HasUnit(unit) &&
			d.Exists("/usr/lib/systemd/systemd") {
			d.Find(link, fmt.Sprintf("leads into %s, but %s is masked or not installed", folder, unit))
		}
	}}
}
