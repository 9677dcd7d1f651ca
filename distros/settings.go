package distros

// Settings are what a capability asks of an image. Steps carry them out
// without knowing whose they are.
type Settings struct {
	// Files are written whole.
	Files []File
	// Masked are paths below /etc that become links to /dev/null: systemd and
	// udev then take the file of that name below /usr for absent.
	Masked []Masked
	// Removed are packages that must not be there.
	Removed []Removed
	// Enabled are units that start at boot, where the image has them.
	Enabled []string
}

// File is a file of a capability.
type File struct {
	// Path is absolute; the file belongs to root and anybody may read it.
	Path, Content string
	// Why says what goes wrong without it.
	Why string
}

// Masked is a path that becomes a link to /dev/null.
type Masked struct{ Path, Why string }

// Removed is a package that must go.
type Removed struct{ Package, Why string }

// NetworkStack is who configures network interfaces, with what keeps it off
// the pods' interfaces and routes, which are the VPC CNI's.
type NetworkStack struct {
	Name string
	Settings
}

// TimeKeeper is who keeps the clock right; a node whose clock is wrong is not
// authorized by AWS.
type TimeKeeper struct {
	Name string
	Settings
}

// SecurityModule is the Linux security module in force.
type SecurityModule struct {
	Name string
	// Relabel is the command that gives files the contexts of the policy; paths
	// follow, and CheckLabels the same that only prints what it would change.
	// Both are empty where files have none.
	Relabel, CheckLabels []string
	Settings
}

// Quirk is a peculiarity that some distributions share.
type Quirk struct {
	Name string
	// Why says what it would do to a node.
	Why string
	Settings
}

// awsTime is Amazon's time server, the same in every VPC.
const awsTime = "169.254.169.123"

func chrony() TimeKeeper {
	return TimeKeeper{"chrony", Settings{Enabled: []string{"chronyd.service"}}}
}

// debianChrony is chrony under the unit name that Debian gives it.
func debianChrony() TimeKeeper {
	return TimeKeeper{"chrony", Settings{Enabled: []string{"chrony.service"}}}
}

func timesyncd() TimeKeeper {
	return TimeKeeper{"systemd-timesyncd", Settings{
		Files: []File{{
			"/etc/systemd/timesyncd.conf.d/80-eksnode.conf", "[Time]\nNTP=" + awsTime + "\n",
			"Amazon's time server is there without a way to the internet",
		}},
		Enabled: []string{"systemd-timesyncd.service"},
	}}
}

func noModule() SecurityModule { return SecurityModule{Name: "none"} }

func appArmor() SecurityModule { return SecurityModule{Name: "AppArmor"} }

func seLinux() SecurityModule {
	return SecurityModule{
		Name:    "SELinux",
		Relabel: []string{"restorecon", "-R"}, CheckLabels: []string{"restorecon", "-R", "-n", "-v"},
	}
}

// ec2NetUtils2 is Amazon Linux 2's ec2-net-utils.
func ec2NetUtils2() Quirk {
	const why = "it gives secondary interfaces addresses and rules of its own, and the VPC CNI's stop working"
	return Quirk{"ec2-net-utils", why, Settings{Removed: []Removed{{"ec2-net-utils", why}}}}
}

// ec2NetUtils is Amazon Linux 2023's amazon-ec2-net-utils, which also
// configures the primary interface and so stays.
// https://github.com/awslabs/amazon-eks-ami masks the same rule.
func ec2NetUtils() Quirk {
	const why = "it gives secondary interfaces addresses and rules of its own, and the VPC CNI's stop working"
	return Quirk{"amazon-ec2-net-utils", why, Settings{Masked: []Masked{{"/etc/udev/rules.d/99-vpc-policy-routes.rules", why}}}}
}

// cloudInitHotplug: see cloud-init's documentation of "updates" and kops
// #17881.
func cloudInitHotplug() Quirk {
	const why = "cloud-init configures interfaces that appear later, and those are the VPC CNI's"
	return Quirk{"cloud-init hot-plug", why, Settings{
		Files: []File{{"/etc/cloud/cloud.cfg.d/90-eksnode.cfg",
			"# Interfaces that appear after the first boot are the VPC CNI's.\nupdates:\n  network:\n    when: [boot-new-instance]\n", why}},
		Masked: []Masked{{"/etc/systemd/system/cloud-init-hotplugd.socket", why}},
	}}
}

// resolvedStub needs nothing of the image: first boot looks at the machine and
// gives the kubelet /run/systemd/resolve/resolv.conf.
func resolvedStub() Quirk {
	return Quirk{Name: "systemd-resolved stub", Why: "pods cannot reach the stub; first boot gives the kubelet the servers behind it"}
}

// cgroupV1 goes with NewestKubernetes.
func cgroupV1() Quirk {
	return Quirk{Name: "cgroup v1", Why: "kubelets from 1.35 on do not start with it"}
}

// readOnlyUsr needs nothing of the image: what is written goes elsewhere.
func readOnlyUsr() Quirk {
	return Quirk{Name: "read-only /usr", Why: "commands go to /opt/bin and units to /etc"}
}

// flatcarContainerd: Flatcar's own unit reads a configuration below /usr.
// https://www.flatcar.org/docs/latest/container-runtimes/customizing-docker/
func flatcarContainerd() Quirk {
	const why = "the system's own unit reads a configuration below /usr, which first boot cannot write"
	return Quirk{"containerd's configuration below /usr", why, Settings{Files: []File{{
		"/etc/systemd/system/containerd.service.d/10-eksnode-config.conf",
		"[Service]\nEnvironment=CONTAINERD_CONFIG=/etc/containerd/config.toml\nExecStart=\nExecStart=/usr/bin/containerd --config /etc/containerd/config.toml\n", why,
	}}}}
}

// flatcarUpdates: an image changes by being built anew.
func flatcarUpdates() Quirk {
	const why = "the node would restart itself into another release"
	return Quirk{"automatic updates", why, Settings{Masked: []Masked{
		{"/etc/systemd/system/update-engine.service", why}, {"/etc/systemd/system/locksmithd.service", why},
	}}}
}

// Who calls SUSE's cloud-netconfig at every lease: netconfig, for wicked, or
// NetworkManager's dispatcher. SUSE's images have it in NETCONFIG_MODULES_ORDER.
const (
	byNetconfig      = "/etc/netconfig.d/cloud-netconfig"
	byNetworkManager = "/etc/NetworkManager/dispatcher.d/90-cloud-netconfig"
)

// cloudNetconfig is SUSE's counterpart of ec2-net-utils. It also gives the
// primary interface its secondary addresses, which are the pods'. The package
// stays, because it names the interfaces.
// https://github.com/SUSE-Enceladus/cloud-netconfig (README.md, Makefile),
// https://www.suse.com/c/pitfalls-multi-nic-cloud-netconfig/,
// https://www.suse.com/c/sle-16-and-the-public-cloud
func cloudNetconfig(caller string) Quirk {
	const why = "it gives interfaces the pods' addresses, and rules of its own, and the VPC CNI's stop working"
	return Quirk{"cloud-netconfig", why, Settings{Masked: []Masked{
		{"/etc/systemd/system/cloud-netconfig.service", why}, {"/etc/systemd/system/cloud-netconfig.timer", why},
		{"/etc/udev/rules.d/51-cloud-netconfig-hotplug.rules", why}, {caller, why},
	}}}
}
