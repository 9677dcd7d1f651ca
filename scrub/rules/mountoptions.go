package rules

import (
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const fstab = "/etc/fstab"

// mountReaders find mount options.
func mountReaders() map[string]reader {
	return map[string]reader{
		"noexec-programs":    onMount("noexec", "/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/opt/bin"),
		"noexec-cni":         onMount("noexec", "/opt/cni/bin"),
		"noexec-credentials": onMount("noexec", "/etc/eks/image-credential-provider"),
		"noexec-user-data":   onMount("noexec", "/var/lib/cloud").where(there("/usr/bin/cloud-init")),
		"noexec-ssm": onMount("noexec", "/var/lib/amazon").
			where(there("/usr/bin/amazon-ssm-agent", "/snap/amazon-ssm-agent")),
		"noexec-volumes": anyOf(onMount("noexec", "/var/lib/kubelet"), onMount("nosuid", "/var/lib/kubelet"),
			onMount("nodev", "/var/lib/kubelet")),
		"noexec-tmp": anyOf(onMount("noexec", "/tmp"), onMount("noexec", "/var/tmp")),
		"read-only-state": onMount("ro", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/etc/eks",
			"/etc/cni/net.d", "/etc/kubernetes"),
		"hidepid": anyOf(onMount("hidepid=1", "/proc"), onMount("hidepid=2", "/proc"),
			onMount("hidepid=invisible", "/proc"), onMount("hidepid=noaccess", "/proc")).
			unless(lines(`\s/proc\s.*\bgid=([1-9]|[a-qs-z]|ro?[^o])`, fstab)),
	}
}

// mountLine is a line that mounts something.
type mountLine struct {
	where, options, from string
	line                 int
}

// mountLines are the mounts of fstab(5), of mount units of /etc and, on a
// running machine, of the kernel, the strongest last.
func mountLines(d *rule.Draft) []mountLine {
	var all []mountLine
	tables := []string{fstab}
	if d.Host.HasSystemd() {
		tables = append(tables, "/proc/self/mounts")
	}
	d.EachLine(tables, func(name string, number int, line string) {
		if f := strings.Fields(line); len(f) >= 4 && path.IsAbs(f[1]) && !strings.HasPrefix(f[0], "#") {
			all = append(all, mountLine{path.Clean(f[1]), f[3], name, number})
		}
	})
	for _, name := range d.Files("/etc/systemd/system/*.mount") {
		values := unitSettings(d, path.Base(name))
		if where := values["Where"]; path.IsAbs(where.Value) {
			options := values["Options"]
			all = append(all, mountLine{path.Clean(where.Value), options.Value, name, options.Line})
		}
	}
	return all
}

// opposites are the options that take back another one.
var opposites = map[string]string{"noexec": "exec", "nosuid": "suid", "nodev": "dev", "ro": "rw"}

func (m mountLine) has(option string) (on bool) {
	for o := range strings.SplitSeq(m.options, ",") {
		switch o {
		case option:
			on = true
		case opposites[option]:
			on = false
		}
	}
	return on
}

// onMount finds folders that lie on a mount with an option.
func onMount(option string, folders ...string) reader {
	return reader{[]string{fstab, "/etc/systemd/system/*.mount"}, func(d *rule.Draft) {
		all := mountLines(d)
		var last mountLine
		for _, folder := range folders {
			var of mountLine
			for _, m := range all {
				if rule.Within(m.where, folder) && len(m.where) >= len(of.where) {
					of = m
				}
			}
			if of.where != "" && of != last && of.has(option) {
				last = of
				d.Find(of.from, fmt.Sprintf("line %d mounts %.60q with %s, and %s is on it", of.line, of.where, option,
					folder))
			}
		}
	}}
}
