package provisioner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// Warnings are what will stop working: ends of support that have passed or come
// within 90 days of the host's time, and cgroup v1. They do not keep a spec from being
// applied to a host with this distribution. A release whose support has ended is an
// error, unless the spec accepts it.
func Warnings(s Spec, d distros.Distro, h *host.Host) ([]string, error) {
	if last := d.Release.Last(); !s.AcceptEnded && d.Release.Ended(h.Now()) {
		return nil, surface.Errorf("%s ended on %s (%s); choose a base image with a newer release, "+
			"or accept the risk with %s", last.Of, last.Day, last.Source, surface.Name("accept_ended").On())
	}
	var list []string
	warn := func(end distros.End, remedy string) error {
		text, err := end.Warning(h.Now(), remedy)
		list = append(list, text)
		return err
	}
	var errs []error
	for _, end := range d.Release.Ends {
		errs = append(errs, warn(end, "choose a base image with a newer release"))
	}
	for _, line := range []struct{ asset, version, remedy string }{
		{"kubelet", s.KubernetesVersion, "choose a newer version of Kubernetes"},
		{"containerd", s.containerdVersion(d),
			"the option containerd with the value 2 installs a newer one, unless versions sets another"},
	} {
		for _, r := range lifecycle.Line(line.asset, line.version) {
			if r.Ends != "" {
				errs = append(errs, warn(distros.End{Of: r.Of, Day: r.Ends, Source: r.Source}, line.remedy))
			}
		}
	}
	if labeled, err := h.Exists(seLinuxConfig); err == nil && labeled && h.Offline() {
		list = append(list, "this root was not started, so files get no SELinux labels; "+
			"create /.autorelabel in the root, which costs a restart at first boot, or run setfiles on the root")
	}
	if s.FIPS == fipsEnable {
		list = append(list, "the image starts in FIPS mode, which this build did not: "+
			"start an instance and read /proc/sys/crypto/fips_enabled")
	}
	if s.SOCI && len(s.RegistryMirrors) > 0 {
		list = append(list, "the SOCI snapshotter fetches layers from the registry itself: it does not read "+
			mirrorsFolder+", where registry_mirrors are")
	}
	legacy, err := cgroupWarning(d, h)
	errs = append(errs, err)
	list = append(append(list, legacy), s.repositoryWarnings(d)...)
	return slices.DeleteFunc(list, func(text string) bool { return text == "" }), errors.Join(errs...)
}

// containerdVersion is the version of containerd in an upstream archive, or that of the
// distribution's own.
func (s Spec) containerdVersion(d distros.Distro) string {
	if !s.withContainerd(d).FromUpstream() {
		return d.Release.Containerd
	}
	return cmp.Or(s.Archive("containerd"), lifecycle.Default("containerd"))
}

// seLinuxConfig exists where SELinux is set up (selinux_config(5)).
const seLinuxConfig = "/etc/selinux/config"

// firstWithoutCgroupV1 is the first kubelet that does not start with cgroup v1.
const firstWithoutCgroupV1 = 35

// cgroupWarning warns of a machine that runs with cgroup v1, or of a release that can.
// Only a running machine shows which version is in use.
func cgroupWarning(d distros.Distro, h *host.Host) (string, error) {
	if d.NewestKubernetes > 0 && d.NewestKubernetes < firstWithoutCgroupV1 {
		return "", nil // the newest kubelet starts with cgroup v1
	}
	if !h.HasSystemd() {
		return d.Release.Caution, nil
	}
	legacy, err := usesCgroupV1(h)
	if err != nil || !legacy {
		return "", err
	}
	return "this machine runs with cgroup v1, with which kubelets from 1.35 on do not start; " +
		"remove systemd.unified_cgroup_hierarchy=0 from the kernel command line and restart before provisioning", nil
}

// usesCgroupV1 says whether systemd started the machine with cgroup v1, alone or
// beside v2: only then systemd has a hierarchy of its own.
func usesCgroupV1(h *host.Host) (bool, error) {
	legacy, err := h.Exists("/sys/fs/cgroup/systemd")
	if err != nil {
		err = fmt.Errorf("reading the version of the cgroups: %w", err)
	}
	return legacy, err
}
