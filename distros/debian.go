package distros

import "strings"

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
	d.BaseImages = []BaseImage{
		{Owner: "136693071363", Name: "debian-{version}-{arch}-*",
			Parameter: "/aws/service/debian/release/{version}/latest/{arch}", AMD64: "amd64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
	}
	d.CloudImages = []CloudImage{
		{Version: "12", URL: "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-generic-{arch}.qcow2",
			Sums: "https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS", AMD64: "amd64", ARM64: "arm64"},
		{Version: "13", URL: "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-generic-{arch}.qcow2",
			Sums: "https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS", AMD64: "amd64", ARM64: "arm64"},
	}
	for _, usual := range d.CloudImages { // genericcloud has linux-image-cloud
		usual.Kernel, usual.URL = "cloud", strings.Replace(usual.URL, "-generic-", "-genericcloud-", 1)
		d.CloudImages = append(d.CloudImages, usual)
	}
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
