package distros

// flatcar is Flatcar Container Linux. Its image contains containerd, runc and
// the network tools, and no package manager.
func flatcar() Distro {
	return Distro{
		ID:        "flatcar",
		Name:      "Flatcar Container Linux",
		OSRelease: []string{"flatcar"},
		Tested:    ShapeTested,
		Differs: "/usr is read-only: commands are in /opt/bin, units in /etc. There is no package manager, so " +
			"`packages` must stay empty. Nodes do not update themselves: build a new image instead.",

		Releases: map[string]ReleaseFacts{"": {Containerd: "2"}},

		PackageManager: NoPackageManager(),
		Packages: map[Role][]string{
			ContainerRuntime: {},
			Confinement:      {},
			Networking:       {},
			Storage:          {},
			Trust:            {},
		},
		OptionPackages: map[Option][]string{Audit: {}, NTP: {}},
		FIPS:           NoFIPS(),

		CommandFolder: "/opt/bin",
		UnitFolder:    "/etc/systemd/system",
		CAAnchors:     "/etc/ssl/certs",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-certificates"},
		CABundle:      "/etc/ssl/certs/ca-certificates.crt",

		Network:  Networkd(),
		Security: SELinux(),
		Time:     Timesyncd(),
		Kernel:   flatcarGrub(),
		Quirks:   []Quirk{ReadOnlyUsr(), flatcarContainerd(), flatcarUpdates(), ResolvedStub()},

		DefaultUser: "core",
		BaseImages: []BaseImage{
			// The ? excludes the names for arm64. A patch release above 9 is not found.
			{Owner: "075585003325", Name: "Flatcar-stable-*.?-hvm", AMD64: "amd64",
				Sources: []string{"https://github.com/flatcar/mantle/blob/flatcar-master/cmd/plume/specs.go",
					"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
			{Owner: "075585003325", Name: "Flatcar-stable-*-arm64-hvm", ARM64: "arm64",
				Sources: []string{"https://github.com/flatcar/mantle/blob/flatcar-master/cmd/plume/specs.go",
					"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		},
	}
}
