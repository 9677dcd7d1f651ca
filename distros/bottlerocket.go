package distros

// bottlerocket is Bottlerocket, whose images are nodes as they come.
func bottlerocket() Unprovisioned {
	return Unprovisioned{
		ID: "bottlerocket", Name: "Bottlerocket", OSRelease: []string{"bottlerocket"},
		Reason:  "it has no shell and no package manager, its root is verified when it starts, and its images are nodes already",
		Instead: "use its image as it is and configure it with TOML in user data",
		// {version} is a minor of Kubernetes.
		BaseImages: []BaseImage{{
			Owner: "092701018921", Name: "bottlerocket-aws-k8s-{version}-{arch}-v*",
			Parameter: "/aws/service/bottlerocket/aws-k8s-{version}/{arch}/latest/image_id", AMD64: "x86_64", ARM64: "arm64",
		}},
	}
}
