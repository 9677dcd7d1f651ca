package distros

func rocky() Distro {
	d := enterpriseLinux("rocky", "Rocky Linux")
	d.Tested, d.DefaultUser = ShapeTested, "rocky"
	d.Guide = redHatGuide("rl{major}", CIS1, CIS2, STIG)
	d.BaseImages = []BaseImage{
		{Owner: "792107900819", Name: "Rocky-{version}-EC2-Base-{version}.*.{arch}*", AMD64: "x86_64", ARM64: "aarch64",
			Sources: []string{"https://github.com/plus3it/spel/blob/master/spel/minimal-linux.pkr.hcl",
				"https://github.com/aws/aws-parallelcluster/blob/develop/tests/integration-tests/tests/common/utils.py"}},
	}
	for _, version := range d.Versions {
		folder := "https://dl.rockylinux.org/pub/rocky/" + version + "/images/{arch}/"
		d.CloudImages = append(d.CloudImages, CloudImage{
			Version: version, URL: folder + "Rocky-" + version + "-EC2-Base.latest.{arch}.qcow2",
			Sums: folder + "CHECKSUM", AMD64: "x86_64", ARM64: "aarch64",
		})
	}
	return d
}
