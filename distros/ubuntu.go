package distros

// ubuntu is Ubuntu Server, from a base image without EKS.
func ubuntu() Distro {
	d := debianFamily("ubuntu", "Ubuntu")
	d.OSRelease = []string{"ubuntu"}
	d.Versions = []string{"22.04", "24.04", "26.04"}
	d.Tested = ShapeTested
	d.Differs = "chrony keeps the clock. Provisioning does not change snapd."
	d.Releases = map[string]ReleaseFacts{
		"22.04": {Containerd: "1.7"},
		"24.04": {Containerd: "1.7"},
		"26.04": {Containerd: "2"},
	}
	d.OptionPackages = withDrivers(withSwap(UsualOptionPackages("auditd", "chrony"), "systemd-zram-generator"))
	d.NVIDIA = nvidiaOfUbuntu()
	d.FIPS = FIPS{Enable: "run pro enable fips-updates with an Ubuntu Pro subscription and restart before " +
		"provisioning, or choose a base image of Ubuntu Pro FIPS"}
	d.Guide = Guide{Packages: []string{"openscap-scanner", "ssg-debderived"}, Product: "ubuntu{version}",
		Levels: []string{CIS1, CIS2, STIG}}
	d.Time = DebianChrony()
	d.DefaultUser = "ubuntu"
	return d
}
