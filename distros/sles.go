package distros

// sles is SUSE Linux Enterprise Server 15. Its containerd is in the module
// Containers, which images of the cloud have registered.
func sles() Distro {
	return Distro{
		ID:        "sles",
		Name:      "SUSE Linux Enterprise Server 15",
		OSRelease: []string{"sles"},
		Versions:  []string{"15"},
		Tested:    PlanTested,
		Differs:   "Register the module Containers, which contains containerd and runc.",

		Releases: map[string]ReleaseFacts{
			"15.4": {Containerd: "1.7"},
			"15.5": {Containerd: "1.7"},
			"15.6": {Containerd: "1.7"},
			"15":   {Containerd: "1.7"},
		},

		PackageManager: Zypper(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"apparmor-parser"},
			Networking:       {"conntrack-tools", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-client"},
			Trust:            {"ca-certificates", "ca-certificates-mozilla"},
		},
		OptionPackages: UsualOptionPackages("audit", "chrony"),
		FIPS:           FIPS{Enable: "install the pattern fips, run fips-mode-setup --enable and restart before provisioning"},

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/trust/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-certificates"},
		CABundle:      "/var/lib/ca-certificates/ca-bundle.pem",

		Network:  Wicked(),
		Security: AppArmor(),
		Time:     Chrony(),
		Kernel:   GrubLine("grub2-mkconfig", "/boot/grub2/grub.cfg"),
		Quirks:   []Quirk{CloudNetconfig(ByNetconfig), CloudInitHotplug()},

		DefaultUser: "ec2-user",
		BaseImages: []BaseImage{
			// Without -byos, whose repositories need a registration, and -ecs.
			{Owner: "013907871322", Name: "suse-sles-{version}-sp?-v????????-hvm-ssd-{arch}", AMD64: "x86_64", ARM64: "arm64", Sources: []string{"https://documentation.suse.com/sle-public-cloud/all/html/public-cloud/cha-images.html"}},
		},
	}
}
