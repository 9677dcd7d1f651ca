package distros

func debian() Distro {
	d := debianFamily("debian", "Debian")
	d.OSRelease = []string{"debian"}
	d.Versions = []string{"12", "13"}
	d.Tested = Joins
	d.Differs = "Images of 13 (`make e2e`) and 12 (`make e2e-full`) join a real cluster in the tests. containerd is " +
		"1.6 in Debian 12 and 1.7 in Debian 13."
	d.Releases = map[string]ReleaseFacts{
		"12": {Containerd: "1.6"},
		"13": {Containerd: "1.7"},
	}
	d.OptionPackages = withDrivers(withSwap(UsualOptionPackages("auditd", "systemd-timesyncd"),
		"systemd-zram-generator"))
	d.NVIDIA = nvidiaOfDebian()
	d.FIPS = NoFIPS()
	d.Guide = Guide{Packages: []string{"openscap-scanner", "ssg-debian"}, Product: "debian{major}",
		Levels: []string{CIS1, CIS2}}
	d.Time = Timesyncd()
	d.DefaultUser = "admin"
	return d
}

// debianFamily is what Debian and Ubuntu share.
func debianFamily(id, name string) Distro {
	return Distro{
		ID:   id,
		Name: name,

		PackageManager: APT(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"apparmor"},
			Networking:       {"conntrack", "ethtool", "iproute2", "ipset", "iptables", "nftables", "socat"},
			Storage:          {"nfs-common"},
			Trust:            {"ca-certificates"},
		},

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/usr/local/share/ca-certificates",
		CASuffix:      ".crt",
		CARefresh:     []string{"update-ca-certificates"},
		CABundle:      "/etc/ssl/certs/ca-certificates.crt",

		Network:  NetplanNetworkd(),
		Security: AppArmor(),
		Kernel:   GrubDropIn(),
		Quirks:   []Quirk{CloudInitHotplug(), ResolvedStub()},
	}
}
