package distros

// sles16 is SUSE Linux Enterprise Server 16, whose packages openSUSE Leap 16
// shares. Changes since 15:
// https://susedoc.github.io/doc-modular/main/single-html/SLE-comparison/,
// https://www.suse.com/c/sle-16-and-the-public-cloud
func sles16() Distro {
	return Distro{
		ID:        "sles-16",
		Name:      "SUSE Linux Enterprise Server 16",
		OSRelease: []string{"sles"},
		Versions:  []string{"16"},
		Tested:    PlanTested,
		Differs:   "NetworkManager configures interfaces, and SELinux confines processes.",

		Releases: map[string]ReleaseFacts{
			"16.0": {Containerd: "1.7"},
			"16":   {Containerd: "1.7"},
		},

		PackageManager: Zypper(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-client"},
			Trust:            {"ca-certificates", "ca-certificates-mozilla"},
		},
		OptionPackages: UsualOptionPackages("audit", "chrony"),
		FIPS:           FIPS{Enable: "install the pattern fips, add fips=1 to kernel_arguments and restart before provisioning"},

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
		BaseImages: []BaseImage{
			// Without -byos, whose repositories need a registration, and -ecs.
			{Owner: "013907871322", Name: "suse-sles-{version}-?-v????????-hvm-ssd-{arch}", AMD64: "x86_64", ARM64: "arm64", Sources: []string{"https://documentation.suse.com/sle-public-cloud/all/html/public-cloud/cha-images.html"}},
		},
	}
}
