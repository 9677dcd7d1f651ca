package distros

func rocky() Distro {
	d := enterpriseLinux("rocky", "Rocky Linux")
	d.Tested, d.DefaultUser = ShapeTested, "rocky"
	d.Guide = redHatGuide("rl{major}", CIS1, CIS2, STIG)
	return d
}
