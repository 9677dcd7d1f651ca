package provisioner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

const (
	debianContainerd = "Debian has containerd 1.6; Kubernetes 1.35 is the last release that supports containerd 1, and kubelets from 1.38 on will not start with it; the option containerd with the value 2 installs a newer one"
	debianRegular    = "regular security support of Debian 12 ended on 2026-07-11; choose a base image with a newer release (https://wiki.debian.org/DebianReleases)"
)

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		fixture, today string
		spec           Spec
		want           []string
	}{
		"nothing to warn of":       {"fedora-44", "2026-11-23", Spec{}, nil},
		"an end within 90 days":    {"fedora", "2026-11-23", Spec{}, []string{"support of Fedora 43 ends on 2026-12-09; choose a base image with a newer release (https://fedorapeople.org/groups/schedule/)"}},
		"an end that has passed":   {"opensuse-leap-15", "2026-05-01", Spec{Containerd: "2"}, []string{"support of openSUSE Leap 15.6 ended on 2026-04-30; choose a base image with a newer release (https://en.opensuse.org/Lifetime)"}},
		"containerd 1":             {"debian", "2026-01-01", Spec{}, []string{debianContainerd}},
		"containerd 1 and an end":  {"debian", "2026-11-23", Spec{}, []string{debianRegular, debianContainerd}},
		"containerd 2 by option":   {"debian", "2026-01-01", Spec{Containerd: "2"}, nil},
		"containerd 2 as package":  {"ubuntu-26.04", "2026-11-23", Spec{}, nil},
		"containerd 2 as archive":  {"rocky-10", "2026-11-23", Spec{}, nil},
		"a kubelet after the last": {"debian", "2026-01-01", Spec{KubernetesVersion: "1.37.0"}, []string{debianContainerd}},
		"Amazon Linux 2, whose newest kubelet supports containerd 1": {"amazonlinux2", "2026-11-23", Spec{}, []string{
			"support of Amazon Linux 2 ended on 2026-06-30; choose a base image with a newer release (https://aws.amazon.com/amazon-linux-2/faqs/)",
			"publication of AWS's EKS images of Amazon Linux 2 ended on 2025-11-26; choose a base image with a newer release (https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html)",
		}},
		"a release that can start with cgroup v1": {"rhel", "2026-11-23", Spec{}, []string{
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

// Every release of every distribution that has containerd 1 is warned of, unless no
// kubelet after 1.35 runs on it.
func TestEveryOldContainerdIsWarnedOf(t *testing.T) {
	warned := 0
	for _, d := range distros.All() {
		for _, release := range d.EveryRelease() {
			if got := containerdWarning(release); got != "" {
				warned++
				assert.Equal(t, "1", release.Release.Containerd[:1], "%s: %s", d.ID, got)
			}
		}
	}
	assert.NotZero(t, warned)
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
