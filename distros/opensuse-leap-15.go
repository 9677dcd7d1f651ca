package distros

// openSUSELeap15 is openSUSE Leap 15.
func openSUSELeap15() Distro {
	return Distro{
		ID:        "opensuse-leap-15",
		Name:      "openSUSE Leap 15",
		OSRelease: []string{"opensuse-leap"},
		Versions:  []string{"15.6"},
		Tested:    ShapeTested,
		Differs:   "wicked configures interfaces, and AppArmor confines processes. Leap 16 uses NetworkManager and SELinux.",

		Releases: map[string]ReleaseFacts{
			"15.6": {Containerd: "1.7"},
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
		FIPS:           NoFIPS(),

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
			{Owner: "679593333241", Name: "openSUSE-Leap-15-6-v*-hvm-ssd-{arch}-*", AMD64: "x86_64", ARM64: "arm64"},
		},
		CloudImages: []CloudImage{
			{URL: "https://download.opensuse.org/distribution/leap/15.6/appliances/openSUSE-Leap-15.6-Minimal-VM.{arch}-Cloud.qcow2", Sums: "https://download.opensuse.org/distribution/leap/15.6/appliances/openSUSE-Leap-15.6-Minimal-VM.{arch}-Cloud.qcow2.sha256", AMD64: "x86_64", ARM64: "aarch64"},
		},
	}
}
