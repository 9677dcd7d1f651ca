package distros

// almaLinux is AlmaLinux. Its repositories have no containerd, and those of
// release 10 also no runc.
func almaLinux() Distro {
	return Distro{
		ID:        "almalinux",
		Name:      "AlmaLinux",
		OSRelease: []string{"almalinux"},
		Versions:  []string{"9", "10"},
		Tested:    PlanTested,
		Differs:   "containerd and runc come from upstream archives: the repositories have no containerd, and those of 10 also no runc. On 10, provisioning installs kernel-modules-extra, because images lack the modules for iptables. This package also installs the newest kernel.",

		Releases: map[string]ReleaseFacts{
			"9":  {Caution: cgroupV1Left},
			"10": {},
		},

		PackageManager: DNF(),
		Packages: map[Role][]string{
			ContainerRuntime: {},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "iptables-nft", "nftables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		PackagesOf:     map[string]map[Role][]string{"10": networking10()},
		Upstream:       []string{"containerd", "runc"},
		OptionPackages: UsualOptionPackages("audit", "chrony"),
		FIPS:           FIPSModeSetup(),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/ca-trust/source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",

		Network:  NetworkManager(),
		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   Grubby(),
		Quirks:   []Quirk{CloudInitHotplug()},

		DefaultUser: "ec2-user",
		BaseImages: []BaseImage{
			{Owner: "764336703387", Name: "AlmaLinux OS {version}.* {arch}", AMD64: "x86_64", ARM64: "aarch64", Sources: []string{"https://wiki.almalinux.org/cloud/AWS.html"}},
		},
		CloudImages: []CloudImage{
			{Version: "9", URL: "https://repo.almalinux.org/almalinux/9/cloud/{arch}/images/AlmaLinux-9-GenericCloud-latest.{arch}.qcow2", Sums: "https://repo.almalinux.org/almalinux/9/cloud/{arch}/images/CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
			{Version: "10", URL: "https://repo.almalinux.org/almalinux/10/cloud/{arch}/images/AlmaLinux-10-GenericCloud-latest.{arch}.qcow2", Sums: "https://repo.almalinux.org/almalinux/10/cloud/{arch}/images/CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
		},
	}
}
