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
	return d
}
