package distros

// sles is SUSE Linux Enterprise Server 15. Its containerd is in the module
// Containers, which images of the cloud have registered.
func sles() Distro {
	d := suse15("sles", "SUSE Linux Enterprise Server 15")
	d.OSRelease = []string{"sles"}
	d.Versions = []string{"15"}
	d.Tested = PlanTested
	d.FIPS = FIPS{Enable: "install the pattern fips, run fips-mode-setup --enable and restart before provisioning"}
	d.Guide = Guide{Packages: []string{"openscap-utils", "scap-security-guide"}, Product: "sle{major}",
		Levels: []string{CIS1, CIS2, STIG}}
	d.Differs = "Register the module Containers, which contains containerd and runc."
	d.Releases = map[string]ReleaseFacts{
		"15.4": {Containerd: "1.7"},
		"15.5": {Containerd: "1.7"},
		"15.6": {Containerd: "1.7"},
		"15":   {Containerd: "1.7"},
	}
	d.BaseImages = []BaseImage{
		// Without -byos, whose repositories need a registration, and -ecs.
		{Owner: "013907871322", Name: "suse-sles-{version}-sp?-v????????-hvm-ssd-{arch}", AMD64: "x86_64",
			ARM64:   "arm64",
			Sources: []string{"https://documentation.suse.com/sle-public-cloud/all/html/public-cloud/cha-images.html"}},
	}
	return d
}

// suse16 is what SUSE Linux Enterprise Server 16 and openSUSE Leap 16 share.
func suse16(id, name string) Distro {
	return Distro{
		ID:   id,
		Name: name,

		PackageManager: Zypper(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-client"},
			Trust:            {"ca-certificates", "ca-certificates-mozilla"},
		},
		OptionPackages: UsualOptionPackages("audit", "chrony"),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/trust/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-certificates"},
		CABundle:      "/var/lib/ca-certificates/ca-bundle.pem",

		Network:  NetworkManager(),
		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   GrubLine("grub2-mkconfig", "/boot/grub2/grub.cfg"),
		Quirks:   []Quirk{CloudNetconfig(ByNetworkManager), CloudInitHotplug()},

		DefaultUser: "ec2-user",
	}
}

// suse15 is suse16 with what release 15 has in the place of NetworkManager and SELinux.
func suse15(id, name string) Distro {
	d := suse16(id, name)
	d.Packages[Confinement] = []string{"apparmor-parser"}
	d.Network, d.Security = Wicked(), AppArmor()
	d.Quirks = []Quirk{CloudNetconfig(ByNetconfig), CloudInitHotplug()}
	return d
}
