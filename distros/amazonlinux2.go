package distros

// amazonLinux2 is Amazon Linux 2, which has ended. It stays for its bootstrap.sh and for
// scrubs of its images.
func amazonLinux2() Distro {
	d := redHatFamily("amazonlinux2", "Amazon Linux 2")
	d.OSRelease = []string{"amzn"}
	d.Versions = []string{"2"}
	d.NewestKubernetes = 34
	d.Tested = ShapeTested
	d.Differs = "Amazon Linux 2 has cgroup v1, so its newest kubelet is 1.34. containerd and runc are in the extras " +
		"repository docker, container-selinux in selinux-ng."
	d.Releases = map[string]ReleaseFacts{"2": {Containerd: "1.7"}}
	d.PackageManager = Yum()
	d.OptionPackages = UsualOptionPackages("audit", "chrony") // drivers need a kernel of choice
	d.Packages[Networking] = []string{"conntrack-tools", "ethtool", "iproute", "ipset", "iptables", "socat"}
	d.Repositories = [][]string{{"amazon-linux-extras", "enable", "docker"},
		{"amazon-linux-extras", "enable", "selinux-ng"}}
	d.FIPS = FIPS{Enable: "install dracut-fips, add fips=1 to kernel_arguments and restart before provisioning"}
	d.Network = NetworkScripts()
	d.Quirks = []Quirk{EC2NetUtils2(), CgroupV1()}
	d.DefaultUser = "ec2-user"
	d.BaseImages = []BaseImage{
		{Owner: "137112412989", Name: "amzn2-ami-minimal-hvm-*-{arch}-ebs",
			Parameter: "/aws/service/ami-amazon-linux-latest/amzn2-ami-minimal-hvm-{arch}-ebs", AMD64: "x86_64",
			ARM64: "arm64",
			Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md",
				"https://github.com/aws/amazon-ecs-ami/blob/main/CHANGELOG.md"}},
	}
	d.CloudImages = []CloudImage{
		{URL: "https://cdn.amazonlinux.com/os-images/latest/kvm/amzn2-kvm-*-{arch}.xfs.gpt.qcow2",
			Sums:      "https://cdn.amazonlinux.com/os-images/latest/kvm/SHA256SUMS",
			Signature: "{sums}.gpg", Key: "amazonlinux2", AMD64: "x86_64"},
	}
	return d
}
