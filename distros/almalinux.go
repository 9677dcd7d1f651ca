package distros

func almaLinux() Distro {
	d := enterpriseLinux("almalinux", "AlmaLinux")
	d.Tested, d.DefaultUser = PlanTested, "ec2-user"
	d.Guide = redHatGuide("almalinux{major}", CIS1, CIS2)
	d.BaseImages = []BaseImage{
		{Owner: "764336703387", Name: "AlmaLinux OS {version}.* {arch}", AMD64: "x86_64", ARM64: "aarch64",
			Sources: []string{"https://wiki.almalinux.org/cloud/AWS.html"}},
	}
	d.CloudImages = []CloudImage{
		{Version: "9",
			URL:       almaRepository + "9/cloud/{arch}/images/AlmaLinux-9-GenericCloud-latest.{arch}.qcow2",
			Sums:      almaRepository + "9/cloud/{arch}/images/CHECKSUM",
			Signature: "{sums}.asc", Key: "almalinux-9",
			AMD64: "x86_64", ARM64: "aarch64"},
		{Version: "10",
			URL:       almaRepository + "10/cloud/{arch}/images/AlmaLinux-10-GenericCloud-latest.{arch}.qcow2",
			Sums:      almaRepository + "10/cloud/{arch}/images/CHECKSUM",
			Signature: "{sums}.asc", Key: "almalinux-10",
			AMD64: "x86_64", ARM64: "aarch64"},
	}
	return d
}

const almaRepository = "https://repo.almalinux.org/almalinux/"
