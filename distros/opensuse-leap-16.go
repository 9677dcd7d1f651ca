package distros

func openSUSELeap16() Distro {
	d := suse16("opensuse-leap-16", "openSUSE Leap 16")
	d.OSRelease = []string{"opensuse-leap"}
	d.Versions = []string{"16.0"}
	d.Tested = ShapeTested
	d.FIPS = NoFIPS()
	d.Differs = "NetworkManager configures interfaces, and SELinux confines processes."
	d.Releases = map[string]ReleaseFacts{
		"16.0": {Containerd: "1.7"},
	}
	d.BaseImages = []BaseImage{
		{Owner: "679593333241", Name: "openSUSE-Leap-16-0-v*-hvm-ssd-{arch}-*", AMD64: "x86_64", ARM64: "arm64"},
	}
	d.CloudImages = []CloudImage{
		{URL: "https://download.opensuse.org/distribution/leap/16.0/appliances/Leap-16.0-Minimal-VM.{arch}-Cloud.qcow2",
			Sums:      "https://download.opensuse.org/distribution/leap/16.0/appliances/Leap-16.0-Minimal-VM.{arch}-Cloud.qcow2.sha256",
			Signature: "{sums}.asc", Key: "opensuse",
			AMD64: "x86_64", ARM64: "aarch64"},
	}
	return d
}
