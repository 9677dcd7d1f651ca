package rules

import (
	"path"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// sysctlReaders find kernel settings.
func sysctlReaders() map[string]reader {
	return map[string]reader{
		"kernel-settings": anyOf(
			sysctl(not("10"), "kernel.panic"), sysctl(not("1"), "kernel.panic_on_oops", "vm.overcommit_memory"),
			sysctl(not("0"), "vm.panic_on_oom"),
			sysctl(not("1000000"), "kernel.keys.root_maxkeys"), sysctl(not("25000000"), "kernel.keys.root_maxbytes"),
		),
		"ip-forward":             sysctl(not("1"), "net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"),
		"new-interfaces-forward": notForwarded(),
		"ipv6-forward":           sysctl(is("0"), "net.ipv6.conf.all.forwarding"),
		"bridge-filter": sysctl(is("0"), "net.bridge.bridge-nf-call-iptables",
			"net.bridge.bridge-nf-call-ip6tables"),
		"reverse-path":     sysctl(is("1"), "net.ipv4.conf.all.rp_filter"),
		"user-namespaces":  sysctl(is("0"), "user.max_user_namespaces"),
		"modules-disabled": sysctl(is("1"), "kernel.modules_disabled"),
		"bpf-hardened": anyOf(sysctl(is("2"), "net.core.bpf_jit_harden"),
			sysctl(is("0"), "net.core.bpf_jit_enable")),
		"ipv6-off": anyOf(
			sysctl(is("1"), "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.lo.disable_ipv6"),
			bootArgument(`ipv6\.disable=1`),
			lines(`^options\s+ipv6\s+.*disable(_ipv6)?=1`, inFolders("modprobe.d/*.conf")...),
		),
		"router-advertisements": sysctl(is("0"), "net.ipv6.conf.all.accept_ra", "net.ipv6.conf.default.accept_ra"),
		"log-martians":          sysctl(is("1"), "net.ipv4.conf.all.log_martians"),
		"few-resources": anyOf(
			sysctl(under(128), "fs.inotify.max_user_instances"), sysctl(under(8192), "fs.inotify.max_user_watches",
				"kernel.pid_max", "kernel.threads-max"),
			sysctl(under(65536), "fs.file-max", "fs.nr_open"),
		),
	}
}

// sysctl finds kernel settings whose value at boot is bad.
func sysctl(bad func(value string) bool, names ...string) reader {
	return reader{[]string{"/etc/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf"}, func(d *rule.Draft) {
		last := sysctls(d)
		for _, name := range names {
			if s, set := last[name]; set && bad(s.Value) {
				d.Find(s.File, s.Says(name))
			}
		}
	}}
}

func is(bad string) func(string) bool { return func(value string) bool { return value == bad } }

func not(good string) func(string) bool { return func(value string) bool { return value != good } }

// under refuses numbers under least.
func under(least int) func(string) bool {
	return func(value string) bool {
		n, err := strconv.Atoi(value)
		return err == nil && n < least
	}
}

// notForwarded finds that new interfaces do not forward: net.ipv4.ip_forward
// sets all interfaces and those to come, and a later line takes it back.
func notForwarded() reader {
	const name = "net.ipv4.conf.default.forwarding"
	return reader{sysctl(nil).paths, func(d *rule.Draft) {
		last := sysctls(d)
		s, set := last[name]
		all, other := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]
		if set && s.Value == "0" && (all.File == "" || later(s, all)) && (other.File == "" || later(s, other)) {
			d.Find(s.File, s.Says(name))
		}
	}}
}

// sysctls returns what systemd-sysctl sets at boot, by name.
func sysctls(d *rule.Draft) map[string]rule.Setting {
	last := d.LastSettings(d.ConfFiles(inFolders("sysctl.d")...), func(key string) string {
		return dotted(strings.TrimPrefix(key, "-"))
	})
	// If a setting has two names, the later line wins.
	if one, all := last["net.ipv4.ip_forward"], last["net.ipv4.conf.all.forwarding"]; one.File != "" && all.File != "" {
		if later(one, all) {
			delete(last, "net.ipv4.conf.all.forwarding")
		} else {
			delete(last, "net.ipv4.ip_forward")
		}
	}
	return last
}

func later(a, b rule.Setting) bool {
	if a.File == b.File {
		return a.Line > b.Line
	}
	return path.Base(a.File) > path.Base(b.File)
}

// dotted returns a name as sysctl prints it. In a name with slashes, dots are
// part of the name of an interface.
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	return name
}
