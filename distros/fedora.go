package distros

// fedora is Fedora Cloud.
func fedora() Distro {
	return Distro{
		ID:        "fedora",
		Name:      "Fedora",
		OSRelease: []string{"fedora"},
		Versions:  []string{"43", "44"},
		Tested:    ShapeTested,
		Differs:   "A release gets packages for about a year.",

		Releases: map[string]ReleaseFacts{
			"43": {Containerd: "2"},
			"44": {Containerd: "2"},
		},

		PackageManager: DNF(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "iptables-nft", "nftables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		OptionPackages: withSwap(UsualOptionPackages("audit", "chrony"), "zram-generator"),
		FIPS:           FIPS{Enable: fipsInstall},

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/ca-trust/source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",

		Network:  NetworkManagerResolved(),
		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   Grubby(),
		Quirks:   []Quirk{CloudInitHotplug(), ResolvedStub()},

		DefaultUser: "fedora",
		BaseImages: []BaseImage{
			{Owner: "125523088429", Name: "Fedora-Cloud-Base-AmazonEC2.{arch}-{version}-*", AMD64: "x86_64", ARM64: "aarch64", Sources: []string{"https://docs.fedoraproject.org/en-US/fedora-coreos/provisioning-aws/"}},
		},
		CloudImages: []CloudImage{
			{Version: "43", URL: "https://download.fedoraproject.org/pub/fedora/linux/releases/43/Cloud/{arch}/images/Fedora-Cloud-Base-Generic-43-1.6.{arch}.qcow2", Sums: "https://download.fedoraproject.org/pub/fedora/linux/releases/43/Cloud/{arch}/images/Fedora-Cloud-43-1.6-{arch}-CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
			{Version: "44", URL: "https://download.fedoraproject.org/pub/fedora/linux/releases/44/Cloud/{arch}/images/Fedora-Cloud-Base-Generic-44-1.7.{arch}.qcow2", Sums: "https://download.fedoraproject.org/pub/fedora/linux/releases/44/Cloud/{arch}/images/Fedora-Cloud-44-1.7-{arch}-CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
		},
	}
}
