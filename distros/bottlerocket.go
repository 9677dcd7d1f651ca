package distros

// bottlerocket is Bottlerocket, whose images are nodes already.
func bottlerocket() Unprovisioned {
	return Unprovisioned{
		ID: "bottlerocket", Name: "Bottlerocket", OSRelease: []string{"bottlerocket"},
		Reason: "Bottlerocket has no shell and no package manager, verifies its root file system at boot, and its " +
			"images are nodes already",
		Instead: "use its image unchanged, and configure the node with TOML in user data",
		// {version} is a minor version of Kubernetes.
		BaseImages: []BaseImage{{
			Owner: "092701018921", Name: "bottlerocket-aws-k8s-{version}-{arch}-v*",
			Parameter: "/aws/service/bottlerocket/aws-k8s-{version}/{arch}/latest/image_id", AMD64: "x86_64",
			ARM64: "arm64",
		}},
	}
}
