package distros

func almaLinux() Distro {
	d := enterpriseLinux("almalinux", "AlmaLinux")
	d.Tested, d.DefaultUser = PlanTested, "ec2-user"
	d.Guide = redHatGuide("almalinux{major}", CIS1, CIS2)
	return d
}
