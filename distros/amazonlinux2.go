package distros

// amazonLinux2 is Amazon Linux 2. AWS ended its own EKS images of it in 2025.
func amazonLinux2() Distro {
	return Distro{
		ID:               "amazonlinux2",
		Name:             "Amazon Linux 2",
		OSRelease:        []string{"amzn"},
		Versions:         []string{"2"},
		NewestKubernetes: 34,
		Tested:           ShapeTested,
		Differs:          "Amazon Linux 2 has cgroup v1, so its newest kubelet is 1.34. containerd and runc are in the extras repository docker, container-selinux in selinux-ng.",

		Releases: map[string]ReleaseFacts{
			"2": {
				Ends: []End{
					{"support of Amazon Linux 2", "2026-06-30", "https://aws.amazon.com/amazon-linux-2/faqs/"},
					{"publication of AWS's EKS images of Amazon Linux 2", "2025-11-26", "https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html"},
				},
				Containerd: "1.7",
				// containerd #7255: archives built on Ubuntu 22.04 need glibc 2.34.
				NoArchive: "the archive needs glibc 2.34, and Amazon Linux 2 has 2.26; choose Amazon Linux 2023",
			},
		},

		PackageManager: Yum(),
		Packages: map[Role][]string{
			ContainerRuntime: {"containerd", "runc"},
			Confinement:      {"container-selinux", "policycoreutils"},
			Networking:       {"conntrack-tools", "ethtool", "iproute", "ipset", "iptables", "socat"},
			Storage:          {"nfs-utils"},
			Trust:            {"ca-certificates"},
		},
		Repositories:   [][]string{{"amazon-linux-extras", "enable", "docker"}, {"amazon-linux-extras", "enable", "selinux-ng"}},
		OptionPackages: UsualOptionPackages("audit"),
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
	}
}
