package distros

// Settings are changes to an image that one capability needs. Steps apply them
// without knowing the distribution.
type Settings struct {
	// Files are written whole.
	Files []File
	// Masked are paths below /etc that become links to /dev/null, so that
	// systemd and udev ignore the files of the same name below /usr.
	Masked []Masked
	// Removed are packages that must not be installed.
	Removed []Removed
	// Enabled are units that start at boot, if the image has them.
	Enabled []string
}

// File is a file that a capability needs.
type File struct {
	// Path is absolute. The file belongs to root and everybody can read it.
	Path, Content string
	// Why says what goes wrong without the file.
	Why string
}

// Masked is a path that becomes a link to /dev/null.
type Masked struct{ Path, Why string }

// Removed is a package that must not be installed.
type Removed struct{ Package, Why string }

// NetworkStack configures network interfaces. Its Settings make it leave pods'
// interfaces and routes alone, because the VPC CNI owns them.
type NetworkStack struct {
	Name string
	Settings
	// DNS is how name servers are set; without a Unit they cannot be.
	DNS Servers
}

// TimeKeeper keeps the clock. AWS refuses requests of a node with a wrong
// clock.
type TimeKeeper struct {
	Name string
	Settings
	// NTP is how time servers are set.
	NTP Servers
}

// SecurityModule is the Linux security module in force.
type SecurityModule struct {
	Name string
	// Relabel is the command that sets the file contexts of the policy; paths
	// follow it. CheckLabels is the same command, but only prints the changes.
	// Both are empty if the module has no file contexts.
	Relabel, CheckLabels []string
	Settings
}

// Quirk is a peculiarity that some distributions share.
type Quirk struct {
	Name string
	// Why says what the peculiarity would do to a node.
	Why string
	Settings
}

// awsTime is Amazon's time server, the same in every VPC.
const awsTime = "169.254.169.123"

// Chrony is chrony with the usual unit name and files.
func Chrony() TimeKeeper { return chrony("chronyd.service", "/etc/chrony.conf", "/etc/chrony.d") }

// DebianChrony is chrony with Debian's unit name and files.
func DebianChrony() TimeKeeper {
	return chrony("chrony.service", "/etc/chrony/chrony.conf", "/etc/chrony")
}

// chrony: the lines of the main file that name servers, or folders of files that do,
// become the line that reads the own file, in the folder that AppArmor lets chronyd read.
// SUSE's include has only a file of servers.
func chrony(unit, config, folder string) TimeKeeper {
	own := folder + "/eksnode.servers"
	return TimeKeeper{"chrony", Settings{Enabled: []string{unit}}, Servers{
		Unit: unit, Path: own, Text: "server {servers} iburst\n", Between: " iburst\nserver ",
		Lines: []Line{{config, `^\s*((server|pool|peer|sourcedir)\s|` +
			`include /etc/(chrony\.d/\*\.conf|chrony(\.d)?/eksnode\.servers))`, "include " + own}},
	}}
}

// Timesyncd is systemd-timesyncd with Amazon's time server.
func Timesyncd() TimeKeeper {
	const config, unit = "/etc/systemd/timesyncd.conf.d/80-eksnode.conf", "systemd-timesyncd.service"
	return TimeKeeper{"systemd-timesyncd", Settings{
		Files: []File{{config, "[Time]\nNTP=" + awsTime + "\n",
			"Amazon's time server works without internet access"}},
		Enabled: []string{unit},
	}, Servers{Unit: unit, Path: config, Text: "[Time]\nNTP={servers}\nFallbackNTP=\n", Between: " "}}
}

// NoSecurityModule is for systems whose containers are not confined.
func NoSecurityModule() SecurityModule { return SecurityModule{Name: "none"} }

// AppArmor is the security module of Debian, Ubuntu and SUSE 15.
func AppArmor() SecurityModule { return SecurityModule{Name: "AppArmor"} }

// SELinux is the security module of Red Hat's family; restorecon sets its labels.
func SELinux() SecurityModule {
	return SecurityModule{
		Name:    "SELinux",
		Relabel: []string{"restorecon", "-R"}, CheckLabels: []string{"restorecon", "-R", "-n", "-v"},
	}
}

// EC2NetUtils2 is ec2-net-utils of Amazon Linux 2.
func EC2NetUtils2() Quirk {
	const why = "ec2-net-utils sets its own addresses and rules on secondary interfaces, which breaks those of the " +
		"VPC CNI"
	return Quirk{"ec2-net-utils", why, Settings{Removed: []Removed{{"ec2-net-utils", why}}}}
}

// EC2NetUtils is amazon-ec2-net-utils of Amazon Linux 2023. The package also
// configures the primary interface and so stays.
// https://github.com/awslabs/amazon-eks-ami masks the same rule.
func EC2NetUtils() Quirk {
	const why = "amazon-ec2-net-utils sets its own addresses and rules on secondary interfaces, which breaks those " +
		"of the VPC CNI"
	return Quirk{"amazon-ec2-net-utils", why,
		Settings{Masked: []Masked{{"/etc/udev/rules.d/99-vpc-policy-routes.rules", why}}}}
}

// CloudInitHotplug stops cloud-init from configuring new interfaces: see
// "updates" in cloud-init's documentation, and kops #17881.
func CloudInitHotplug() Quirk {
	const why = "cloud-init configures interfaces that appear after boot, which belong to the VPC CNI"
	return Quirk{"cloud-init hot-plug", why, Settings{
		Files: []File{{"/etc/cloud/cloud.cfg.d/90-eksnode.cfg",
			"# Interfaces that appear after the first boot are the VPC CNI's.\nupdates:\n  network:\n    when: " +
				"[boot-new-instance]\n", why}},
		Masked: []Masked{{"/etc/systemd/system/cloud-init-hotplugd.socket", why}},
	}}
}

// ResolvedStub needs no change in the image: first boot looks at the machine
// and sets the kubelet's resolvConf to /run/systemd/resolve/resolv.conf.
func ResolvedStub() Quirk {
	return Quirk{Name: "systemd-resolved stub", Why: "pods cannot reach the stub, so first boot configures the " +
		"kubelet with the real name servers"}
}

// CgroupV1 requires NewestKubernetes.
func CgroupV1() Quirk {
	return Quirk{Name: "cgroup v1", Why: "kubelet 1.35 and newer does not start with cgroup v1"}
}

// ReadOnlyUsr needs no change in the image: files are written to other folders.
func ReadOnlyUsr() Quirk {
	return Quirk{Name: "read-only /usr", Why: "commands are installed to /opt/bin, and units to /etc"}
}

// flatcarContainerd: containerd comes from a system extension. Its unit names a
// configuration below /usr, and a drop-in makes multi-user.target start it at every
// boot, and again whenever it stops.
// https://github.com/flatcar/scripts/blob/main/build_library/sysext_mangle_containerd-flatcar,
// sdk_container/src/third_party/coreos-overlay/coreos/sysext/containerd there
func flatcarContainerd() Quirk {
	const why = "containerd's unit reads a configuration below /usr, which first boot cannot write"
	return Quirk{"containerd in a system extension", why, Settings{
		// Without an option, containerd reads /etc/containerd/config.toml, and also
		// starts without that file: images are imported before there is a cluster.
		Files: []File{{"/etc/systemd/system/containerd.service.d/10-eksnode-config.conf",
			"[Service]\nExecStart=\nExecStart=/usr/bin/containerd\n", why}},
		Masked: []Masked{{"/etc/systemd/system/multi-user.target.d/10-containerd-service.conf",
			"the file starts containerd before first boot has written its configuration, and again while a scrub has " +
				"stopped it"}},
	}}
}

// flatcarUpdates: a new image replaces an update.
func flatcarUpdates() Quirk {
	const why = "a node would restart into another release"
	return Quirk{"automatic updates", why, Settings{Masked: []Masked{
		{"/etc/systemd/system/update-engine.service", why}, {"/etc/systemd/system/locksmithd.service", why},
	}}}
}

// The callers of SUSE's cloud-netconfig at every lease: netconfig for wicked,
// or NetworkManager's dispatcher. SUSE's images list cloud-netconfig in
// NETCONFIG_MODULES_ORDER.
const (
	ByNetconfig      = "/etc/netconfig.d/cloud-netconfig"
	ByNetworkManager = "/etc/NetworkManager/dispatcher.d/90-cloud-netconfig"
)

// CloudNetconfig is SUSE's counterpart of ec2-net-utils. It also sets secondary
// addresses, which belong to pods, on the primary interface. The package stays,
// because it names the interfaces.
// https://github.com/SUSE-Enceladus/cloud-netconfig (README.md, Makefile),
// https://www.suse.com/c/pitfalls-multi-nic-cloud-netconfig/,
// https://www.suse.com/c/sle-16-and-the-public-cloud
func CloudNetconfig(caller string) Quirk {
	const why = "cloud-netconfig sets the pods' addresses on interfaces, with its own rules, which breaks those of " +
		"the VPC CNI"
	return Quirk{"cloud-netconfig", why, Settings{Masked: []Masked{
		{"/etc/systemd/system/cloud-netconfig.service", why}, {"/etc/systemd/system/cloud-netconfig.timer", why},
		{"/etc/udev/rules.d/51-cloud-netconfig-hotplug.rules", why}, {caller, why},
	}}}
}
