package provisioner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	fedoraEnds = "support of Fedora 43 ends on 2026-12-09; choose a base image with a newer release (https://fedorapeople.org/groups/schedule/)"
	debianEnds = "regular security support of Debian 12 ended on 2026-07-11; choose a base image with a newer release (https://wiki.debian.org/DebianReleases)"
	newer      = "; the option containerd with the value 2 installs a newer one, unless versions sets another (https://containerd.io/releases/)"

	eksVersions = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
)

func kubernetesEnd(text string) string {
	return text + "; choose a newer version of Kubernetes (" + eksVersions + ")"
}

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		fixture, today string
		spec           Spec
		want           []string
	}{
		"nothing to warn of":     {"debian-13", "2026-11-24", Spec{KubernetesVersion: "1.36.3"}, nil},
		"an end within 90 days":  {"fedora", "2026-11-24", Spec{KubernetesVersion: "1.36.3"}, []string{fedoraEnds}},
		"an end that has passed": {"debian", "2026-11-24", Spec{KubernetesVersion: "1.36.3"}, []string{debianEnds}},
		"an end of Kubernetes": {"debian-13", "2026-11-24", Spec{KubernetesVersion: "1.33.13", Containerd: "2"}, []string{
			kubernetesEnd("standard support of Kubernetes 1.33 on EKS ended on 2026-07-29")}},
		"an end of extended support": {"debian-13", "2026-11-28",
			Spec{KubernetesVersion: "1.31.14", Containerd: "2"}, []string{
				kubernetesEnd("standard support of Kubernetes 1.31 on EKS ended on 2025-11-26"),
				kubernetesEnd("extended support of Kubernetes 1.31 on EKS ended on 2026-11-26"),
			}},
		"a version that EKS no longer has": {"debian-13", "2026-11-28",
			Spec{KubernetesVersion: "1.28.15", Containerd: "2"}, []string{
				kubernetesEnd("extended support of Kubernetes 1.28 on EKS ended on 2025-11-26"),
			}},
		"containerd 1":            {"debian-13", "2026-11-24", Spec{KubernetesVersion: "1.35.4"}, []string{"support of containerd 1.7 ended on 2026-09-30" + newer}},
		"containerd 2 by option":  {"debian-13", "2026-11-24", Spec{KubernetesVersion: "1.35.4", Containerd: "2"}, nil},
		"containerd 2 as package": {"ubuntu-26.04", "2026-11-24", Spec{KubernetesVersion: "1.35.4"}, nil},
		"an old archive": {"rocky-10", "2026-11-24", Spec{KubernetesVersion: "1.36.3", Versions: map[string]string{"containerd": "2.1.6"}}, []string{
			"support of containerd 2.1 ended on 2026-07-03" + newer}},
		"SOCI with mirrors": {"debian-13", "2026-11-24", Spec{KubernetesVersion: "1.36.3", SOCI: true,
			NodeDefaults: NodeDefaults{RegistryMirrors: map[string]string{"docker.io": "https://a.example"}}}, []string{
			"the SOCI snapshotter fetches layers from the registry itself: it does not read /etc/containerd/certs.d, " +
				"where registry_mirrors are"}},
		"an accepted end": {"amazonlinux2", "2026-11-24", Spec{KubernetesVersion: "1.34.4", Containerd: "2", AcceptEnded: true}, []string{
			"support of Amazon Linux 2 ended on 2026-06-30; choose a base image with a newer release (https://aws.amazon.com/amazon-linux-2/faqs/)",
			"publication of AWS's EKS images of Amazon Linux 2 ended on 2025-11-26; choose a base image with a newer release (https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html)",
			kubernetesEnd("standard support of Kubernetes 1.34 on EKS ends on 2026-12-02"),
		}},
		"a release that can start with cgroup v1": {"rhel", "2026-11-24", Spec{KubernetesVersion: "1.36.3"}, []string{
			"release 9 can still start with cgroup v1, but kubelets from 1.35 on cannot; the base image must not set systemd.unified_cgroup_hierarchy=0"}},
	} {
		t.Run(name, func(t *testing.T) {
			today, err := time.Parse(time.DateOnly, test.today)
			require.NoError(t, err)
			h := bareOf(t, test.fixture).WithClock(func() time.Time { return today })
			got, err := Warnings(test.spec, releaseOf(t, test.fixture), h)
			require.NoError(t, err)
			if test.want == nil {
				assert.Empty(t, got)
				return
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// The end of all support of a release is an error with its day.
func TestEndedReleasesMustBeAccepted(t *testing.T) {
	for fixture, want := range map[string]string{
		"amazonlinux2":     "support of Amazon Linux 2 ended on 2026-06-30 (https://aws.amazon.com/amazon-linux-2/faqs/)",
		"opensuse-leap-15": "support of openSUSE Leap 15.6 ended on 2026-04-30 (https://en.opensuse.org/Lifetime)",
	} {
		h := bareOf(t, fixture).WithClock(func() time.Time { return time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) })
		_, err := Warnings(Spec{KubernetesVersion: "1.34.4"}, releaseOf(t, fixture), h)
		require.EqualError(t, err, want+"; choose a base image with a newer release, or accept the risk with accept_ended = true")
		_, err = Warnings(Spec{KubernetesVersion: "1.34.4", AcceptEnded: true}, releaseOf(t, fixture), h)
		require.NoError(t, err)
	}
}

// systemd mounts a hierarchy of its own only with cgroup v1.
func TestCgroupV1IsDetected(t *testing.T) {
	h := bareOf(t, "rocky")
	require.NoError(t, h.Files.MkdirAll("/sys/fs/cgroup/system.slice", 0o755))
	legacy, err := usesCgroupV1(h)
	require.NoError(t, err)
	assert.False(t, legacy)
	require.NoError(t, h.Files.MkdirAll("/sys/fs/cgroup/systemd", 0o755))
	legacy, err = usesCgroupV1(h)
	require.NoError(t, err)
	assert.True(t, legacy)
}
