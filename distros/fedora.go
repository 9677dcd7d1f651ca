package distros

func fedora() Distro {
	d := redHatFamily("fedora", "Fedora")
	d.OSRelease = []string{"fedora"}
	d.Versions = []string{"43", "44"}
	d.Tested = ShapeTested
	d.Differs = "A release gets packages for about a year."
	d.Releases = map[string]ReleaseFacts{
		"43": {Containerd: "2"},
		"44": {Containerd: "2"},
	}
	d.OptionPackages = withSwap(d.OptionPackages, "zram-generator")
	d.NVIDIA = nvidiaOfRedHat(nvidiaLock)
	d.FIPS = FIPS{Enable: fipsInstall}
	d.Guide = redHatGuide("fedora", CIS1, CIS2)
	d.Network = NetworkManagerResolved()
	d.Quirks = []Quirk{CloudInitHotplug(), ResolvedStub()}
	d.DefaultUser = "fedora"
	d.BaseImages = []BaseImage{
		{Owner: "125523088429", Name: "Fedora-Cloud-Base-AmazonEC2.{arch}-{version}-*", AMD64: "x86_64",
			ARM64:   "aarch64",
			Sources: []string{"https://docs.fedoraproject.org/en-US/fedora-coreos/provisioning-aws/"}},
	}
	d.CloudImages = []CloudImage{
		{Version: "43",
			URL:  fedoraReleases + "43/Cloud/{arch}/images/Fedora-Cloud-Base-Generic-43-1.6.{arch}.qcow2",
			Sums: fedoraReleases + "43/Cloud/{arch}/images/Fedora-Cloud-43-1.6-{arch}-CHECKSUM",
			Key:  "fedora-43", AMD64: "x86_64", ARM64: "aarch64"},
		{Version: "44",
			URL:  fedoraReleases + "44/Cloud/{arch}/images/Fedora-Cloud-Base-Generic-44-1.7.{arch}.qcow2",
			Sums: fedoraReleases + "44/Cloud/{arch}/images/Fedora-Cloud-44-1.7-{arch}-CHECKSUM",
			Key:  "fedora-44", AMD64: "x86_64", ARM64: "aarch64"},
	}
	return d
}

const fedoraReleases = "https://download.fedoraproject.org/pub/fedora/linux/releases/"
