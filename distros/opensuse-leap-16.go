package distros

func openSUSELeap16() Distro {
	d := leap(suse16("opensuse-leap-16", "openSUSE Leap 16"), "16.0")
	d.Differs = "NetworkManager configures interfaces, and SELinux confines processes."
	return d
}

// leap adds what all versions of openSUSE Leap have.
func leap(d Distro, version string) Distro {
	d.OSRelease = []string{"opensuse-leap"}
	d.Versions = []string{version}
	d.Tested = ShapeTested
	d.FIPS = NoFIPS()
	d.Releases = map[string]ReleaseFacts{version: {Containerd: "1.7"}}
	return d
}
