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
	return d
}
