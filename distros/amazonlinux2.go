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
	return d
}
