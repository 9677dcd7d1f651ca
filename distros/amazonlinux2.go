package distros

// amazonLinux2 is Amazon Linux 2, which has ended. It stays for its bootstrap.sh and for
// scrubs of its images.
func amazonLinux2() Distro {
	return Distro{
		ID:               "amazonlinux2",
		Name:             "Amazon Linux 2",
		OSRelease:        []string{"amzn"},
		Versions:         []string{"2"},
		NewestKubernetes: 34,
		Tested:           ShapeTested,
		Differs:          "Amazon Linux 2 has cgroup v1, so its newest kubelet is 1.34. containerd and runc are in the extras repository docker, container-selinux in selinux-ng.",

		Releases: map[string]ReleaseFacts{"2": {Containerd: "1.7"}},

		PackageManager: Yum(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "ipset", "iptables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		Repositories:   [][]string{{"amazon-linux-extras", "enable", "docker"}, {"amazon-linux-extras", "enable", "selinux-ng"}},
		OptionPackages: UsualOptionPackages("audit", "chrony"),
		FIPS:           FIPS{Enable: "install dracut-fips, add fips=1 to kernel_arguments and restart before provisioning"},

		CommandFolder: "/usr/bin",
		UnitFolder:    "/usr/lib/systemd/system",
		CAAnchors:     "/etc/pki/ca-trust/source/anchors",
		CASuffix:      ".pem",
		CARefresh:     []string{"update-ca-trust"},
		CABundle:      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",

		Network:  NetworkScripts(),
		Security: SELinux(),
		Time:     Chrony(),
		Kernel:   Grubby(),
		Quirks:   []Quirk{EC2NetUtils2(), CgroupV1()},

		DefaultUser: "ec2-user",
		BaseImages: []BaseImage{
			{Owner: "137112412989", Name: "amzn2-ami-minimal-hvm-*-{arch}-ebs", Parameter: "/aws/service/ami-amazon-linux-latest/amzn2-ami-minimal-hvm-{arch}-ebs", AMD64: "x86_64", ARM64: "arm64", Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md", "https://github.com/aws/amazon-ecs-ami/blob/main/CHANGELOG.md"}},
		},
		CloudImages: []CloudImage{
			{URL: "https://cdn.amazonlinux.com/os-images/latest/kvm/amzn2-kvm-*-{arch}.xfs.gpt.qcow2", Sums: "https://cdn.amazonlinux.com/os-images/latest/kvm/SHA256SUMS", AMD64: "x86_64"},
		},
	}
}
