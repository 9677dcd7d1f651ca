package distros

func windows() Unprovisioned {
	return Unprovisioned{
		ID: "windows", Name: "Windows Server",
		Reason: "eksnode's agent is a Linux program, and AWS builds Windows node images with EC2 Image Builder",
		Instead: "start from the EKS-optimized image, and join the node with PowerShell in user data; the " +
			"cluster also needs a Linux node",
		DefaultUser: "Administrator",
	}
}
