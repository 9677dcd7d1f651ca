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
	for _, r := range []struct{ version, code, disk, volume string }{
		{"22.04", "jammy", "hvm-ssd", "gp2"}, {"24.04", "noble", "hvm-ssd-gp3", "gp3"},
		{"26.04", "resolute", "hvm-ssd-gp3", "gp3"},
	} {
		d.BaseImages = append(d.BaseImages, BaseImage{
			Versions: []string{r.version}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name: "ubuntu/images/" + r.disk + "/ubuntu-" + r.code + "-{version}-{arch}-server-*",
			Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-" + r.volume +
				"/ami-id",
			AMD64: "amd64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"},
		})
		folder := "https://cloud-images.ubuntu.com/releases/" + r.code + "/release/"
		d.CloudImages = append(d.CloudImages, CloudImage{
			Version: r.version, URL: folder + "ubuntu-" + r.version + "-server-cloudimg-{arch}.img",
			Sums: folder + "SHA256SUMS", Signature: "{sums}.gpg", Key: "ubuntu", AMD64: "amd64", ARM64: "arm64",
		})
	}
	return d
}
