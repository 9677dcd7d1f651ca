//go:build linux

package firstboot

import (
	"context"
	_ "embed"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// everything uses every setting of a NodeConfig that writes to the disk.
//
//go:embed testdata/everything.yaml
var everything string

//go:embed testdata/outpost.yaml
var outpost string

// boots are the ways to join, each with the paths that it must write.
var boots = map[string]struct {
	describe func(*testing.T, bootstrap.Services, *host.Host) *bootstrap.Node
	leaves   []string
}{
	"NodeConfig": {
		func(t *testing.T, s bootstrap.Services, h *host.Host) *bootstrap.Node {
			n := fromNodeConfig(t, s, h, everything)
			n.Containerd.SOCI = true // forced, because the machine that runs this test may be too small for SOCI
			return n
		},
		[]string{
			"+ /data/k8s-disks/0/kubelet/kubeconfig", `+ /etc/systemd/system/data-k8s\x2ddisks-0.mount`, "+ /etc/systemd/system/var-lib-containerd.mount",
			"+ /etc/systemd/system/multi-user.target.wants/var-log-pods.mount", "+ /etc/soci-snapshotter-grpc/config.toml", "+ /etc/containerd/config.toml",
			"+ /etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "+ /etc/systemd/system.conf.d/environment.conf", "+ /etc/systemd/system/chronyd.service.d/environment.conf",
			"~ /etc/eks/image-credential-provider/config.json", "~ /var/lib/kubelet/kubeconfig",
		},
	},
	"Outpost": {
		func(t *testing.T, s bootstrap.Services, h *host.Host) *bootstrap.Node {
			return fromNodeConfig(t, s, h, outpost)
		},
		[]string{"~ /etc/hosts", "+ /var/lib/kubelet/bootstrap-kubeconfig", "- /var/lib/kubelet/kubeconfig", `+ /etc/systemd/system/mnt-k8s\x2ddisks-2.mount`},
	},
	"bootstrap.sh": {
		func(t *testing.T, s bootstrap.Services, h *host.Host) *bootstrap.Node {
			a, err := arguments.Parse([]string{"old", "--apiserver-endpoint", "https://old.example", "--b64-cluster-ca", "Y2E=",
				"--kubelet-extra-args", "--node-labels=a=b", "--local-disks", "raid0", "--mount-bpf-fs", "false"})
			require.NoError(t, err)
			n, err := s.FromArguments(t.Context(), h, a)
			require.NoError(t, err)
			n.Containerd.PauseImage = "localhost/kubernetes/pause:latest" // as on images with their own pause image
			return n
		},
		[]string{"+ /etc/containerd/config.toml", "+ /etc/systemd/system/multi-user.target.wants/kubelet.service", "~ /var/lib/kubelet/kubeconfig"},
	},
}

func fromNodeConfig(t *testing.T, s bootstrap.Services, h *host.Host, text string) *bootstrap.Node {
	t.Helper()
	c, err := nodeconfig.Decode([]byte(text))
	require.NoError(t, err)
	n, err := s.FromNodeConfig(t.Context(), h, c, "")
	require.NoError(t, err)
	return n
}

// A scrubbed image boots, joins with every setting, and is scrubbed again: its
// disk must equal the image. A second boot must equal the first.
func TestScrubRemovesEverythingOfAFirstBoot(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		service := imdstest.Serve(imdstest.Typical())
		defer service.Close()
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
		metadata, err := firstboot.OpenMetadata(t.Context())
		require.NoError(t, err)
		s := bootstrap.Services{
			IMDS: metadata, AWS: func(context.Context, map[string]string) (bootstrap.AWS, error) { return nil, nil }, Command: "/usr/bin/eksnode",
			Lookup: func(context.Context, string) ([]string, error) { return []string{"10.0.0.9", "10.0.0.8"}, nil },
			Log:    func(string) {},
		}
		h := hosttest.Live(t)
		start(t)
		clean(t, h)
		image, imageFolders := disk(t)
		for name, b := range boots {
			t.Run(name, func(t *testing.T) {
				boot := func() testkit.Tree {
					start(t)
					items, err := s.Items(b.describe(t, s, h), bootstrap.Selection{})
					require.NoError(t, err)
					ownership, err := s.Ownership(t.Context())
					require.NoError(t, err)
					_, err = s.Apply(t.Context(), h, append([]plan.Item{ownership}, items...))
					require.NoError(t, err)
					files, _ := disk(t)
					return files
				}
				first := boot()
				changed := strings.Join(first.Since(image), "\n")
				for _, want := range b.leaves {
					assert.Contains(t, changed, want)
				}
				clean(t, h)
				files, folders := disk(t)
				assert.Empty(t, files.Since(image))
				for name := range folders {
					if _, there := imageFolders[name]; !there {
						assertEmpty(t, name)
					}
				}
				assert.Empty(t, boot().Since(first), "the second boot differs from the first")
				clean(t, h)
			})
		}
	})
}

// assertEmpty asserts that a folder that a first boot made and a scrub keeps
// contains only folders.
func assertEmpty(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		assert.True(t, e.IsDir(), "%s/%s", folder, e.Name())
	}
}

// clean scrubs the running machine. The scrub must have no findings.
func clean(t *testing.T, h *host.Host) {
	t.Helper()
	items, err := scrub.Spec{}.Items(scrub.ToScrub, nil)
	require.NoError(t, err)
	outcomes, err := plan.Apply(t.Context(), h, items, nil)
	require.NoError(t, err)
	for _, o := range outcomes {
		assert.Empty(t, o.Findings, o.Item)
	}
}
