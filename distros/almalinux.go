package distros

func almaLinux() Distro {
	d := enterpriseLinux("almalinux", "AlmaLinux")
	d.Tested, d.DefaultUser = PlanTested, "ec2-user"
	d.Guide = redHatGuide("almalinux{major}", CIS1, CIS2)
	d.BaseImages = []BaseImage{
		{Owner: "764336703387", Name: "AlmaLinux OS {version}.* {arch}", AMD64: "x86_64", ARM64: "aarch64",
			Sources: []string{"https://wiki.almalinux.org/cloud/AWS.html"}},
	}
	for _, version := range d.Versions {
		folder := "https://repo.almalinux.org/almalinux/" + version + "/cloud/{arch}/images/"
		d.CloudImages = append(d.CloudImages, CloudImage{
			Version: version, URL: folder + "AlmaLinux-" + version + "-GenericCloud-latest.{arch}.qcow2",
			Sums: folder + "CHECKSUM", Signature: "{sums}.asc", Key: "almalinux-" + version,
			AMD64: "x86_64", ARM64: "aarch64",
		})
	}
	return d
}
