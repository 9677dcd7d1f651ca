package distros

// debian is Debian. Its containerd is older than upstream's, but 1.6 supports
// what the kubelet needs: CRI v1 and cgroup v2.
func debian() Distro {
	return Distro{
		ID:        "debian",
		Name:      "Debian",
		OSRelease: []string{"debian"},
		Versions:  []string{"12", "13"},
		Tested:    Joins,
		Differs:   "Images of 12 (`make e2e`) and 13 (`make e2e-full`) join a real cluster in the tests. containerd is 1.6 in Debian 12 and 1.7 in Debian 13.",

		Releases: map[string]ReleaseFacts{
			"12": {Ends: []End{
				{"regular security support of Debian 12", "2026-07-11", debianEnds},
				{"long-term support of Debian 12", "2028-06-30", debianLTS},
			}, Containerd: "1.6"},
			"13": {Ends: []End{
				{"regular security support of Debian 13", "2028-08-09", debianEnds},
				{"long-term support of Debian 13", "2030-06-30", debianLTS},
			}, Containerd: "1.7"},
		},

		PackageManager: APT(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"apparmor"},
			Networking:       {"conntrack", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-common"},
			Trust:            {"ca-certificates"},
		},
		OptionPackages: UsualOptionPackages("auditd"),
		FIPS:           NoFIPS(),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/usr/local/share/ca-certificates",
		CASuffix:      ".crt",
		CARefresh:     []string{"update-ca-certificates"},
		CABundle:      "/etc/ssl/certs/ca-certificates.crt",

		Network:  NetplanNetworkd(),
		Security: AppArmor(),
		Time:     Timesyncd(),
		Kernel:   GrubDropIn(),
		Quirks:   []Quirk{CloudInitHotplug(), ResolvedStub()},

		DefaultUser: "admin",
		BaseImages: []BaseImage{
			{Owner: "136693071363", Name: "debian-{version}-{arch}-*", Parameter: "/aws/service/debian/release/{version}/latest/{arch}", AMD64: "amd64", ARM64: "arm64", Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		},
	}
}

// Debian's pages of releases with their ends.
const (
	debianEnds = "https://wiki.debian.org/DebianReleases"
	debianLTS  = "https://wiki.debian.org/LTS"
)
