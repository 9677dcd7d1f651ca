package distros

// openSUSELeap16 is openSUSE Leap 16.
func openSUSELeap16() Distro {
	return Distro{
		ID:        "opensuse-leap-16",
		Name:      "openSUSE Leap 16",
		OSRelease: []string{"opensuse-leap"},
		Versions:  []string{"16.0"},
		Tested:    ShapeTested,
		Differs:   "NetworkManager configures interfaces, and SELinux confines processes.",

		Releases: map[string]ReleaseFacts{
			"16.0": {Containerd: "1.7"},
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
		FIPS:           NoFIPS(),

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
			{Owner: "679593333241", Name: "openSUSE-Leap-16-0-v*-hvm-ssd-{arch}-*", AMD64: "x86_64", ARM64: "arm64"},
		},
		CloudImages: []CloudImage{
			{URL: "https://download.opensuse.org/distribution/leap/16.0/appliances/Leap-16.0-Minimal-VM.{arch}-Cloud.qcow2", Sums: "https://download.opensuse.org/distribution/leap/16.0/appliances/Leap-16.0-Minimal-VM.{arch}-Cloud.qcow2.sha256", AMD64: "x86_64", ARM64: "aarch64"},
		},
	}
}
