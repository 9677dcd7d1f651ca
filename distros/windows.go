package distros

func windows() Unprovisioned {
	return Unprovisioned{
		ID: "windows", Name: "Windows Server",
		Reason: "eksnode's agent is a Linux program, and AWS builds Windows node images with EC2 Image Builder",
		Instead: "start from the EKS-optimized image, and join the node with PowerShell in user data; the " +
			"cluster also needs a Linux node",
		DefaultUser: "Administrator",
		// {version} is a minor version of Kubernetes.
		BaseImages: []BaseImage{{
			Owner: "801119661308", Name: "Windows_Server-2022-English-Core-EKS_Optimized-{version}-*",
			Parameter: "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-{version}/image_id",
			AMD64:     "x86_64",
		}},
	}
}
