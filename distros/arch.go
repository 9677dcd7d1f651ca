package distros

// arch is Arch Linux. Its own kubelet package is never used: it follows the
// newest release and soon differs too much from the cluster's version.
func arch() Distro {
	return Distro{
		ID:        "arch",
		Name:      "Arch Linux",
		OSRelease: []string{"arch"},
		Tested:    ShapeTested,
		Differs: "Refreshing the package lists upgrades the whole system, because Arch does not support partial " +
			"upgrades. Only amd64.",

		Releases: map[string]ReleaseFacts{"": {Containerd: "2"}},

		PackageManager: Pacman(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {},
			Networking:       {"conntrack-tools", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		OptionPackages: withSwap(UsualOptionPackages("audit"), "zram-generator"),
		NVIDIA:         nvidiaOfArch(),
		FIPS:           NoFIPS(),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/ca-certificates/trust-source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/ca-certificates/extracted/tls-ca-bundle.pem",

		Network:  Networkd(),
		Security: NoSecurityModule(),
		Time:     Timesyncd(),
		Kernel:   GrubLine("grub-mkconfig", "/boot/grub/grub.cfg"),
		Quirks:   []Quirk{ResolvedStub(), CloudInitHotplug()},

		DefaultUser: "arch",
		BaseImages: []BaseImage{
			{Owner: "647457786197", Name: "arch-linux-std-hvm-*", AMD64: "x86_64",
				Sources: []string{"https://wiki.archlinux.org/title/Arch_Linux_AMIs_for_Amazon_Web_Services"}},
		},
		CloudImages: []CloudImage{
			{URL: "https://geo.mirror.pkgbuild.com/images/latest/Arch-Linux-{arch}-cloudimg.qcow2",
				Sums:           "https://geo.mirror.pkgbuild.com/images/latest/Arch-Linux-{arch}-cloudimg.qcow2.SHA256",
				ImageSignature: "{url}.sig", Key: "arch",
				AMD64: "x86_64"},
		},
	}
}
