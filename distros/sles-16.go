package distros

// sles16 is SUSE Linux Enterprise Server 16, whose packages openSUSE Leap 16
// shares. Changes since 15:
// https://susedoc.github.io/doc-modular/main/single-html/SLE-comparison/,
// https://www.suse.com/c/sle-16-and-the-public-cloud
func sles16() Distro {
	d := suse16("sles-16", "SUSE Linux Enterprise Server 16")
	d.OSRelease = []string{"sles"}
	d.Versions = []string{"16"}
	d.Tested = PlanTested
	d.FIPS = FIPS{Enable: "install the pattern fips, add fips=1 to kernel_arguments and restart before provisioning"}
	d.Differs = "NetworkManager configures interfaces, and SELinux confines processes."
	d.Releases = map[string]ReleaseFacts{
		"16.0": {Containerd: "1.7"},
		"16":   {Containerd: "1.7"},
	}
	d.BaseImages = []BaseImage{
		// Without -byos, whose repositories need a registration, and -ecs.
		{Owner: "013907871322", Name: "suse-sles-{version}-?-v????????-hvm-ssd-{arch}", AMD64: "x86_64", ARM64: "arm64",
			Sources: []string{"https://documentation.suse.com/sle-public-cloud/all/html/public-cloud/cha-images.html"}},
	}
	return d
}
