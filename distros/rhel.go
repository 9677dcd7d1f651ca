package distros

func rhel() Distro {
	d := enterpriseLinux("rhel", "Red Hat Enterprise Linux")
	d.Tested, d.DefaultUser = PlanTested, "ec2-user"
	d.Guide = redHatGuide("rhel{major}", CIS1, CIS2, STIG)
	d.BaseImages = []BaseImage{
		// Without -Access2, whose repositories need a registration.
		{Owner: "309956199498", ChinaOwner: "841258680906", Name: "RHEL-{version}*_HVM-*-{arch}-*-Hourly2-GP?",
			AMD64: "x86_64", ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md",
				"https://github.com/aws/aws-parallelcluster/blob/develop/tests/integration-tests/tests/common/utils.py"}},
	}
	return d
}

// enterpriseLinux is what Red Hat Enterprise Linux and its rebuilds share. Their
// repositories have no containerd, and those of release 10 also no runc.
func enterpriseLinux(id, name string) Distro {
	d := redHatFamily(id, name)
	d.OSRelease = []string{id}
	d.Versions = []string{"9", "10"}
	d.Differs = "containerd and runc come from upstream archives: the repositories have no containerd, and those of " +
		"10 also no runc. On 10, provisioning installs kernel-modules-extra, because images lack the modules for " +
		"iptables. This package also installs the newest kernel."
	d.Releases = map[string]ReleaseFacts{
		"9":  {Caution: cgroupV1Left},
		"10": {},
	}
	d.Packages[ContainerRuntime] = []string{}
	// The kernels of release 10 have br_netfilter and the modules for iptables in
	// a package that images lack and that iptables-nft does not require. The
	// package also installs its kernel (kops #18724).
	d.PackagesOf = map[string]map[Role][]string{"10": {Networking: {"kernel-modules-extra"}}}
	d.Upstream = []string{"containerd", "runc"}
	d.FIPS = FIPSModeSetup()
	d.Network = NetworkManager()
	d.Quirks = []Quirk{CloudInitHotplug()}
	d.NVIDIA = nvidiaOfRedHat(nvidiaStream+" || "+nvidiaLock, "python3-dnf-plugin-versionlock")
	return d
}

// redHatFamily is what the distributions that descend from Red Hat share.
func redHatFamily(id, name string) Distro {
	return Distro{
		ID:   id,
		Name: name,

		PackageManager: DNF(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "iptables-nft", "nftables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		OptionPackages: withDrivers(UsualOptionPackages("audit", "chrony")),

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/ca-trust/source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",

		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   Grubby(),
	}
}

// cgroupV1Left is about release 9 of the family, where Red Hat deprecated cgroup
// v1. Release 10 has none (Considerations in adopting RHEL 10, "Kernel").
const cgroupV1Left = "release 9 can still start with cgroup v1, but kubelets from 1.35 on cannot; the base image " +
	"must not set systemd.unified_cgroup_hierarchy=0"
