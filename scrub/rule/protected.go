package rule

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// bootFolders contain what a machine boots from; no rule may touch them.
var bootFolders = []string{
	"/boot", "/efi", "/dev", "/proc", "/sys", "/usr/lib/systemd", "/usr/lib/modules", "/usr/lib/udev",
	"/usr/lib/kernel", "/usr/lib/dracut", "/usr/lib/security", "/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu", "/usr/lib64/security", "/etc/pam.d", "/etc/selinux", "/etc/alternatives",
}

var packageFolders = []string{"/var/lib/dpkg", "/var/lib/rpm", "/usr/lib/sysimage", "/usr/share/rpm",
	"/var/lib/pacman/local"}

// nodeFolders contain what a node needs to join, and the records about the
// image.
var nodeFolders = []string{"/var/lib/containerd", path.Dir(manifest.Path), "/etc/eks/image-credential-provider"}

// systemPlaces are files and folders that a machine or a node needs. Other
// files in such a folder may be removed.
var systemPlaces = []string{
	"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/share",
	"/usr/local", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/share", "/usr/share/zoneinfo",
	"/usr/share/ca-certificates", "/usr/share/pki", "/usr/lib/os-release", "/usr/lib64/ld-linux-x86-64.so.2",
	"/usr/lib/ld-linux-aarch64.so.1", "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid",
	"/etc/subgid", "/etc/sudoers", "/etc/sudoers.d", "/etc/login.defs", "/etc/security", "/etc/fstab", "/etc/crypttab",
	"/etc/machine-id", "/etc/os-release", "/etc/nsswitch.conf", "/etc/hosts", "/etc/profile", "/etc/environment",
	"/etc/localtime", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/default", "/etc/default/grub",
	"/etc/grub.d", "/etc/kernel", "/etc/sysconfig", "/etc/systemd", "/etc/systemd/system",
	"/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system/sysinit.target.wants",
	"/etc/systemd/system/default.target", "/etc/systemd/network", "/etc/netplan", "/etc/network",
	"/etc/network/interfaces", "/etc/NetworkManager", "/etc/sysctl.d", "/etc/modules-load.d", "/etc/modprobe.d",
	"/etc/udev", "/etc/ssh", "/etc/ssh/sshd_config", "/etc/ssl", "/etc/ssl/certs", "/etc/pki", "/etc/pki/tls",
	"/etc/pki/ca-trust", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/apt", "/etc/dnf", "/etc/yum.repos.d",
	"/etc/zypp", "/etc/pacman.conf", "/etc/pacman.d", "/etc/cloud", "/etc/cloud/cloud.cfg", "/etc/eks",
	"/etc/eks/bootstrap.sh", "/etc/kubernetes", "/etc/kubernetes/kubelet", "/etc/containerd", "/etc/cni",
	"/etc/systemd/system/kubelet.service", "/etc/systemd/system/containerd.service", "/opt/cni", "/opt/cni/bin",
	"/opt/bin", "/opt/aws", "/var/lib", "/var/lib/pacman", "/var/lib/systemd", "/var/lib/kubelet",
	"/var/lib/ca-certificates", "/var/lib/apt", "/var/lib/apt/extended_states", "/var/run", "/var/lock",
}

// systemPrograms are in one of the folders of programs. Without them a machine
// does not boot, accepts no login, or does not join.
var systemPrograms = []string{
	"init", "sh", "bash", "dash", "busybox", "env", "mount", "umount", "login", "su", "sudo", "systemctl", "journalctl",
	"sshd", "agetty", "kmod", "modprobe", "ip", "iptables", "nft", "kubelet", "containerd", "containerd-shim-runc-v2",
	"ctr", "runc", "crun", "crio", "nodeadm", "eksnode", "ecr-credential-provider",
}

// cniPlugins are the plugins of the containernetworking project that the VPC
// CNI and kubelets use.
var cniPlugins = []string{"bandwidth", "bridge", "firewall", "host-local", "loopback", "portmap", "ptp", "tuning"}

// needed returns the places that no operator's rule may remove; whole are
// folders whose contents must stay too.
func needed() (single, whole []string) {
	single = slices.Clone(systemPlaces)
	for _, folder := range ProgramFolders {
		for _, program := range systemPrograms {
			single = append(single, path.Join(folder, program))
		}
	}
	for _, plugin := range cniPlugins {
		single = append(single, path.Join("/opt/cni/bin", plugin))
	}
	whole = slices.Concat(bootFolders, packageFolders, nodeFolders)
	return alsoWithoutUsr(single), alsoWithoutUsr(whole)
}

// alsoWithoutUsr adds the names without /usr, which still exist as links.
func alsoWithoutUsr(places []string) []string {
	for _, p := range places {
		old, merged := strings.CutPrefix(p, "/usr")
		if merged && (strings.HasPrefix(old, "/bin") || strings.HasPrefix(old, "/sbin") ||
			strings.HasPrefix(old, "/lib")) {
			places = append(places, old)
		}
	}
	return places
}

var (
	// ErrTooHigh is the error of a place above all that a rule may remove.
	ErrTooHigh = errors.New("matches too much: the rule would remove a top folder of the system or a whole home")
	errNeeded  = errors.New("matches too much: the rule would remove a folder or file that the system needs; list " +
		"files inside the folder instead")
)

// CheckPattern refuses patterns that are not valid in a rule.
func CheckPattern(p string) error {
	plain, home := strings.CutPrefix(p, "~/")
	if !home && !path.IsAbs(p) {
		return errors.New(`must be absolute or start with "~/"`)
	}
	if strings.ContainsRune(p, 0) {
		return errors.New("must not contain a zero byte")
	}
	for part := range strings.SplitSeq(plain, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return errors.New("has a wildcard without an end; see path.Match")
		}
		if strings.Contains(strings.ReplaceAll(part, `\[`, ""), "[!") { // a shell's way to exclude characters
			return errors.New(`has "[!": path.Match takes "!" for one of the characters; ` +
				`write "[^" to exclude characters`)
		}
		if part == "." || part == ".." {
			return errors.New(`must not contain "." or ".."`)
		}
		if part == "**" {
			return errors.New(`must not contain "**": a wildcard matches within one name`)
		}
	}
	return nil
}

// CheckPath refuses paths that lead to another place, and paths that the system
// needs.
func CheckPath(p string) error {
	if err := CheckPattern(p); err != nil {
		return err
	}
	plain, home := strings.CutPrefix(p, "~/")
	all := Split(plain)
	if home {
		return checkHome(all)
	}
	named := all
	for len(named) > 0 && matchesMost(named[len(named)-1]) {
		named = named[:len(named)-1] // the whole contents count as the folder
	}
	if deep := slices.DeleteFunc(slices.Clone(named), matchesMost); len(deep) < 2 {
		return ErrTooHigh
	}
	if err := checkHomes(all); err != nil {
		return err
	}
	return CheckNeeded(named, func(pattern, name string) bool { return Kept([]string{pattern}, name) })
}

// checkHomes refuses the usual homes by name.
func checkHomes(parts []string) error {
	for folder, above := range map[string]int{"root": 1, "home": 2} {
		if !Kept(parts[:1], folder) {
			continue
		}
		if err := checkHome(parts[min(above, len(parts)):]); err != nil {
			return err
		}
	}
	return nil
}

// checkHome refuses patterns that match a whole home or all its hidden files.
func checkHome(below []string) error {
	if !slices.ContainsFunc(below, func(part string) bool { return !matchesMost(strings.TrimPrefix(part, ".")) }) {
		return ErrTooHigh
	}
	return nil
}

// CheckNeeded refuses a path that could match a needed place, a folder above
// one, or anything in a folder that must stay whole.
func CheckNeeded(parts []string, match func(part, name string) bool) error {
	single, whole := needed()
	for _, place := range slices.Concat(single, whole) {
		if names := Split(place); len(parts) <= len(names) && matchAll(parts, names, match) {
			return errNeeded
		}
	}
	for _, place := range whole {
		if names := Split(place); len(parts) > len(names) && matchAll(parts[:len(names)], names, match) {
			return fmt.Errorf("matches too much: the system needs everything below %s; leave the path out", place)
		}
	}
	return nil
}

func matchAll(parts, names []string, match func(part, name string) bool) bool {
	for i, part := range parts {
		if !match(part, names[i]) {
			return false
		}
	}
	return true
}

// Split returns the parts of a path, without empty ones.
func Split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(part string) bool { return part == "" })
}

// matchesMost reports whether a part of a path consists of wildcards only.
func matchesMost(part string) bool {
	return strings.Trim(wildcardClass().ReplaceAllString(part, ""), "*?") == ""
}

var wildcardClass = Expression(`\[[^\]]*\]`)

// ProgramFolders are the folders of a node's programs; /opt/bin is Flatcar's.
var ProgramFolders = []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/opt/bin", "/bin"}
