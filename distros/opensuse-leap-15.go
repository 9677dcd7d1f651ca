package distros

func openSUSELeap15() Distro {
	d := suse15("opensuse-leap-15", "openSUSE Leap 15")
	d.OSRelease = []string{"opensuse-leap"}
	d.Versions = []string{"15.6"}
	d.Tested = ShapeTested
	d.FIPS = NoFIPS()
	d.Differs = "wicked configures interfaces, and AppArmor confines processes. Leap 16 uses NetworkManager and SELinux."
	d.Releases = map[string]ReleaseFacts{
		"15.6": {Containerd: "1.7"},
	}
	d.BaseImages = []BaseImage{
		{Owner: "679593333241", Name: "openSUSE-Leap-15-6-v*-hvm-ssd-{arch}-*", AMD64: "x86_64", ARM64: "arm64"},
	}
	d.CloudImages = []CloudImage{
		{URL: "https://download.opensuse.org/distribution/leap/15.6/appliances/openSUSE-Leap-15.6-Minimal-VM.{arch}-Cloud.qcow2",
			Sums:      "https://download.opensuse.org/distribution/leap/15.6/appliances/openSUSE-Leap-15.6-Minimal-VM.{arch}-Cloud.qcow2.sha256",
			Signature: "{sums}.asc", Key: "opensuse",
			AMD64: "x86_64", ARM64: "aarch64"},
	}
	return d
}
