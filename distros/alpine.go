package distros

func alpine() Unprovisioned {
	return Unprovisioned{
		ID: "alpine", Name: "Alpine Linux", OSRelease: []string{"alpine"},
		Reason:  "Alpine starts with OpenRC, and the kubelet needs systemd and its cgroups",
		Instead: "choose one of the supported distributions; containers on the node can still use Alpine",
	}
}
