package distros

// amazonLinux2023 is Amazon Linux 2023, from a base image without EKS.
func amazonLinux2023() Distro {
	d := redHatFamily("amazonlinux2023", "Amazon Linux 2023")
	d.OSRelease = []string{"amzn"}
	d.Versions = []string{"2023"}
	d.Tested = ShapeTested
	d.Differs = "amazon-ec2-net-utils configures the primary interface and must leave the others alone."
	d.Releases = map[string]ReleaseFacts{
		"2023": {Containerd: "2"},
	}
	d.Packages[Networking] = []string{"conntrack-tools", "ethtool", "iproute", "ipset", "iptables-nft", "nftables",
		"socat"}
	d.FIPS = fipsModeSetup("install crypto-policies-scripts, run fips-mode-setup --enable and restart before " +
		"provisioning")
	d.NVIDIA = nvidiaOfRedHat(nvidiaStream)
	d.Guide = redHatGuide("al2023", CIS1, CIS2)
	d.Network = Networkd()
	d.Quirks = []Quirk{EC2NetUtils(), ResolvedStub()}
	d.DefaultUser = "ec2-user"
	d.BaseImages = []BaseImage{
		{Owner: "137112412989", Name: "al2023-ami-minimal-2023.*-kernel-{kernel}-{arch}",
			Parameter: "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-{kernel}-{arch}",
			Kernels:   []string{"6.1", "6.12", "6.18"}, AMD64: "x86_64", ARM64: "arm64",
			Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/variables-default.json"}},
	}
	d.CloudImages = []CloudImage{
		{URL: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm/al2023-kvm-*-kernel-6.1-{arch}.xfs.gpt.qcow2",
			Sums: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm/SHA256SUMS", AMD64: "x86_64"},
		{URL: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm-arm64/al2023-kvm-*-kernel-6.1-{arch}.xfs.gpt.qcow2",
			Sums: "https://cdn.amazonlinux.com/al2023/os-images/latest/kvm-arm64/SHA256SUMS", ARM64: "arm64"},
	}
	return d
}
