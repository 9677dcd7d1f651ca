package provisioner

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Warnings are what will stop working: ends of support that have passed or come
// within 90 days of the host's time, containerd 1, and cgroup v1. They do not keep a
// spec from being applied to a host with this distribution.
func Warnings(s Spec, d distros.Distro, h *host.Host) ([]string, error) {
	d, err := s.withContainerd(d)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, end := range d.Release.Ends {
		text, err := end.Warning(h.Now())
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	legacy, err := cgroupWarning(d, h)
	list = append(list, legacy, containerdWarning(d))
	return slices.DeleteFunc(list, func(text string) bool { return text == "" }), err
}

// The end of containerd 1. Kubernetes 1.35 is the last release that supports
// containerd 1
// (https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html).
// Later kubelets still start with it, until they no longer fall back to their own
// cgroup driver when containerd cannot name one. That was planned for 1.36, then for
// 1.37, and is now planned for 1.38 (KEP-4033, kubernetes #139121).
const (
	lastWithContainerd1     = 35
	firstWithoutContainerd1 = 38
)

// firstWithoutCgroupV1 is the first kubelet that does not start with cgroup v1.
const firstWithoutCgroupV1 = 35

// containerdWarning warns when the distribution's containerd is 1.x. Where the newest
// kubelet is older than the end, nothing is left to warn of.
func containerdWarning(d distros.Distro) string {
	if limit := d.NewestKubernetes; limit > 0 && limit <= lastWithContainerd1 || !d.HasOldContainerd(2) {
		return ""
	}
	return fmt.Sprintf("%s has containerd %s; Kubernetes 1.%d is the last release that supports containerd 1, and kubelets from 1.%d on will not start with it; the option containerd with the value %s installs a newer one",
		d.Name, d.Release.Containerd, lastWithContainerd1, firstWithoutContainerd1, newestContainerd)
}

// cgroupWarning warns of a machine that runs with cgroup v1, or of a release that can.
// Only a live machine shows which version is in use.
func cgroupWarning(d distros.Distro, h *host.Host) (string, error) {
	if d.NewestKubernetes > 0 && d.NewestKubernetes < firstWithoutCgroupV1 {
		return "", nil // the newest kubelet starts with cgroup v1
	}
	if !h.IsLive() {
		return d.Release.Caution, nil
	}
	legacy, err := usesCgroupV1(h)
	if err != nil || !legacy {
		return "", err
	}
	return "this machine runs with cgroup v1, with which kubelets from 1.35 on do not start; remove systemd.unified_cgroup_hierarchy=0 from the kernel command line and restart before provisioning", nil
}

// usesCgroupV1 says whether systemd started the machine with cgroup v1, alone or
// beside v2: only then systemd has a hierarchy of its own.
func usesCgroupV1(h *host.Host) (bool, error) {
	_, err := h.Files.Stat("/sys/fs/cgroup/systemd")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the version of the cgroups: %w", err)
	}
	return true, nil
}
