package distros

// rocky is Rocky Linux. Its repositories have no containerd, and those of
// release 10 also no runc.
func rocky() Distro {
	return Distro{
		ID:        "rocky",
		Name:      "Rocky Linux",
		OSRelease: []string{"rocky"},
		Versions:  []string{"9", "10"},
		Tested:    ShapeTested,
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

		DefaultUser: "rocky",
		BaseImages: []BaseImage{
			{Owner: "792107900819", Name: "Rocky-{version}-EC2-Base-{version}.*.{arch}*", AMD64: "x86_64", ARM64: "aarch64", Sources: []string{"https://github.com/plus3it/spel/blob/master/spel/minimal-linux.pkr.hcl", "https://github.com/aws/aws-parallelcluster/blob/develop/tests/integration-tests/tests/common/utils.py"}},
		},
		CloudImages: []CloudImage{
			{Version: "9", URL: "https://dl.rockylinux.org/pub/rocky/9/images/{arch}/Rocky-9-EC2-Base.latest.{arch}.qcow2", Sums: "https://dl.rockylinux.org/pub/rocky/9/images/{arch}/CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
			{Version: "10", URL: "https://dl.rockylinux.org/pub/rocky/10/images/{arch}/Rocky-10-EC2-Base.latest.{arch}.qcow2", Sums: "https://dl.rockylinux.org/pub/rocky/10/images/{arch}/CHECKSUM", AMD64: "x86_64", ARM64: "aarch64"},
		},
	}
}
