package distros

// ubuntu is Ubuntu Server, from a base image without EKS.
func ubuntu() Distro {
	d := debianFamily("ubuntu", "Ubuntu")
	d.OSRelease = []string{"ubuntu"}
	d.Versions = []string{"22.04", "24.04", "26.04"}
	d.Tested = ShapeTested
	d.Differs = "chrony keeps the clock. Provisioning does not change snapd."
	d.Releases = map[string]ReleaseFacts{
		"22.04": {Containerd: "1.7"},
		"24.04": {Containerd: "1.7"},
		"26.04": {Containerd: "2"},
	}
	d.OptionPackages = withDrivers(withSwap(UsualOptionPackages("auditd", "chrony"), "systemd-zram-generator"))
	d.NVIDIA = nvidiaOfUbuntu()
	d.FIPS = FIPS{Enable: "run pro enable fips-updates with an Ubuntu Pro subscription and restart before " +
		"provisioning, or choose a base image of Ubuntu Pro FIPS"}
	d.Guide = Guide{Packages: []string{"openscap-scanner", "ssg-debderived"}, Product: "ubuntu{version}",
		Levels: []string{CIS1, CIS2, STIG}}
	d.Time = DebianChrony()
	d.DefaultUser = "ubuntu"
	d.BaseImages = []BaseImage{
		{Versions: []string{"22.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name:      "ubuntu/images/hvm-ssd/ubuntu-jammy-{version}-{arch}-server-*",
			Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp2/ami-id",
			AMD64:     "amd64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		{Versions: []string{"24.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name:      "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-{version}-{arch}-server-*",
			Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp3/ami-id",
			AMD64:     "amd64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		{Versions: []string{"26.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name:      "ubuntu/images/hvm-ssd-gp3/ubuntu-resolute-{version}-{arch}-server-*",
			Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp3/ami-id",
			AMD64:     "amd64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
	}
	d.CloudImages = []CloudImage{
		{Version: "22.04",
			URL:  "https://cloud-images.ubuntu.com/releases/jammy/release/ubuntu-22.04-server-cloudimg-{arch}.img",
			Sums: "https://cloud-images.ubuntu.com/releases/jammy/release/SHA256SUMS", Signature: "{sums}.gpg",
			Key: "ubuntu", AMD64: "amd64", ARM64: "arm64"},
		{Version: "24.04",
			URL:  "https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-{arch}.img",
			Sums: "https://cloud-images.ubuntu.com/releases/noble/release/SHA256SUMS", Signature: "{sums}.gpg",
			Key: "ubuntu", AMD64: "amd64", ARM64: "arm64"},
		{Version: "26.04",
			URL:  "https://cloud-images.ubuntu.com/releases/resolute/release/ubuntu-26.04-server-cloudimg-{arch}.img",
			Sums: "https://cloud-images.ubuntu.com/releases/resolute/release/SHA256SUMS", Signature: "{sums}.gpg",
			Key: "ubuntu", AMD64: "amd64", ARM64: "arm64"},
	}
	return d
}
