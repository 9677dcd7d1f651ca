package distros

import "strings"

func openSUSELeap16() Distro {
	d := leap(suse16("opensuse-leap-16", "openSUSE Leap 16"), "16.0", "Leap-16.0-Minimal-VM.{arch}-Cloud.qcow2")
	d.Differs = "NetworkManager configures interfaces, and SELinux confines processes."
	return d
}

// leap adds what all versions of openSUSE Leap have.
func leap(d Distro, version, disk string) Distro {
	d.OSRelease = []string{"opensuse-leap"}
	d.Versions = []string{version}
	d.Tested = ShapeTested
	d.FIPS = NoFIPS()
	d.Releases = map[string]ReleaseFacts{version: {Containerd: "1.7"}}
	d.BaseImages = []BaseImage{{
		Owner: "679593333241", Name: "openSUSE-Leap-" + strings.Replace(version, ".", "-", 1) + "-v*-hvm-ssd-{arch}-*",
		AMD64: "x86_64", ARM64: "arm64",
	}}
	address := "https://download.opensuse.org/distribution/leap/" + version + "/appliances/" + disk
	d.CloudImages = []CloudImage{{
		URL: address, Sums: address + ".sha256", Signature: "{sums}.asc", Key: "opensuse", AMD64: "x86_64",
		ARM64: "aarch64",
	}}
	return d
}
