package distros

// amazonLinux2023 is Amazon Linux 2023, from a base image without EKS.
func amazonLinux2023() Distro {
	return Distro{
		ID:        "amazonlinux2023",
		Name:      "Amazon Linux 2023",
		OSRelease: []string{"amzn"},
		Versions:  []string{"2023"},
		Tested:    ShapeTested,
		Differs:   "amazon-ec2-net-utils configures the primary interface and must leave the others alone.",

		Releases: map[string]ReleaseFacts{
			"2023": {Containerd: "2"},
		},

		PackageManager: DNF(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "ipset", "iptables-nft", "nftables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		OptionPackages: UsualOptionPackages("audit", "chrony"),
		FIPS:           fipsModeSetup("install crypto-policies-scripts, run fips-mode-setup --enable and restart before provisioning"),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/ca-trust/source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",

		Network:  Networkd(),
		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   Grubby(),
		Quirks:   []Quirk{EC2NetUtils(), ResolvedStub()},

		DefaultUser: "ec2-user",
		BaseImages: []BaseImage{
			{Owner: "137112412989", Name: "al2023-ami-minimal-2023.*-{arch}", Parameter: "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-default-{arch}", AMD64: "x86_64", ARM64: "arm64", Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/variables-default.json"}},
		},
		CloudImages: []CloudImage{
			{URL: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm/al2023-kvm-*-kernel-6.1-{arch}.xfs.gpt.qcow2", Sums: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm/SHA256SUMS", AMD64: "x86_64"},
			{URL: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm-arm64/al2023-kvm-*-kernel-6.1-{arch}.xfs.gpt.qcow2", Sums: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm-arm64/SHA256SUMS", ARM64: "arm64"},
		},
	}
}
