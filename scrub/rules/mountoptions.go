package rules

import (
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const fstab = "/etc/fstab"

// mountRows are mount options that keep programs of a node from working. noexec
// on /var/lib/containerd, /run, /home, /var/log and /dev/shm is not among them:
// nodes work with it.
func mountRows() []breaker {
	return []breaker{
		{
			id: "noexec-programs", cause: "may-not-run",
			reads:   onMount("noexec", "/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/opt/bin"),
			program: "containerd, kubelet, eksnode",
			shows:   `systemd starts no program: "Failed at step EXEC: Permission denied"`,
			fix:     "Remove noexec from this mount", source: "mount(8); systemd.exec(5): 203/EXEC",
		},
		{
			id: "noexec-cni", cause: "may-not-run", reads: onMount("noexec", "/opt/cni/bin"),
			program: "containerd", shows: `no pod starts: "fork/exec /opt/cni/bin/...: permission denied"`,
			fix:    "Remove noexec from this mount, or mount /opt/cni with exec",
			source: "mount(8); containernetworking/cni: plugin execution",
		},
		{
			id: "noexec-credentials", cause: "credential-provider",
			reads:   onMount("noexec", "/etc/eks/image-credential-provider"),
			program: "kubelet", shows: "the kubelet cannot execute ecr-credential-provider and pulls no image from ECR",
			since: "kubelet 1.20",
			fix:   "Remove noexec from this mount", source: "kubernetes.io: Configure a kubelet image credential provider",
		},
		{
			id: "noexec-user-data", cause: "user-data-script",
			reads:   onMount("noexec", "/var/lib/cloud").where(there("/usr/bin/cloud-init")),
			program: "cloud-init", shows: "scripts of user data, and so bootstrap.sh, do not run", since: "every cloud-init",
			fix:    "Remove noexec from this mount, or mount /var/lib/cloud with exec; a NodeConfig needs no script",
			source: "cloud-init #3429; ansible-lockdown RHEL8-STIG #104",
		},
		{
			id: "noexec-ssm", cause: "may-not-run",
			reads:   onMount("noexec", "/var/lib/amazon").where(there("/usr/bin/amazon-ssm-agent", "/snap/amazon-ssm-agent")),
			program: "amazon-ssm-agent", shows: "the plugins and scripts that the agent downloads do not run",
			fix: "Mount /var/lib/amazon with exec", source: "amazon-ssm-agent: documents run in /var/lib/amazon/ssm",
		},
		{
			id: "noexec-volumes", cause: "oci-runtime", note: true,
			reads: anyOf(onMount("noexec", "/var/lib/kubelet"), onMount("nosuid", "/var/lib/kubelet"),
				onMount("nodev", "/var/lib/kubelet")),
			program: "containers",
			shows:   `volumes such as emptyDir keep the option, and programs in them fail with "permission denied"; runc 1.5 takes it back`,
			since:   "runc before 1.2", fix: "With an older runc, mount /var/lib/kubelet without these options",
			source:     "mount(8): bind mounts keep the options; measured with runc 1.5.2",
			benchmarks: "CIS 1.1.2.4.2, CIS 1.1.2.4.3, V-257869",
		},
		{
			id: "noexec-tmp", cause: "user-data-script", reads: anyOf(onMount("noexec", "/tmp"), onMount("noexec", "/var/tmp")),
			note:    true,
			program: "installers, Packer's shell provisioner",
			shows:   `scripts in this folder fail with "Permission denied"; eksnode does not need it`,
			fix:     "Set remote_folder in the template, and TMPDIR for installers", source: "awslabs/amazon-eks-ami #346",
			benchmarks: "CIS 1.1.2.1.4, CIS 1.1.2.5.4, V-257867, V-257877",
		},
		{
			id: "read-only-state", cause: "file-system",
			reads: onMount("ro", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/etc/eks", "/etc/cni/net.d",
				"/etc/kubernetes"),
			program: "kubelet, containerd, first boot", shows: `they cannot write their state: "read-only file system"`,
			fix:    "Mount a writable file system there",
			source: "kubernetes.io: Local files and paths used by the kubelet; image-builder #2092",
		},
		{
			id: "hidepid", cause: "units",
			reads: anyOf(onMount("hidepid=1", "/proc"), onMount("hidepid=2", "/proc"), onMount("hidepid=invisible", "/proc"),
				onMount("hidepid=noaccess", "/proc")).unless(lines(`\s/proc\s.*\bgid=([1-9]|[a-qs-z]|ro?[^o])`, fstab)),
			program: "systemd, polkit, monitoring agents",
			shows:   "programs that are not root see no other process: logins through systemd-logind and agents fail",
			since:   "Linux 3.3",
			fix:     "Remove hidepid, or add gid= of a group with these programs, which root's is not",
			source:  "proc(5); systemd #12955",
		},
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
				d.Find(of.from, fmt.Sprintf("line %d mounts %.60q with %s, and %s is on it", of.line, of.where, option, folder))
			}
		}
	}}
}
