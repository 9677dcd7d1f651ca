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

// description makes the node of a machine.
type description func(*testing.T, bootstrap.Services, *host.Host) *bootstrap.Node

// boots are the ways to join, each with the paths that it must write.
var boots = map[string]struct {
	kubelet, containerd string
	describe            description
	leaves              []string
}{
	"NodeConfig": {"1.34.4", "2.1.4", nodeConfig(everything), []string{
		"+ /data/k8s-disks/0/kubelet/kubeconfig", `+ /etc/systemd/system/data-k8s\x2ddisks-0.mount`, "+ /etc/systemd/system/var-lib-containerd.mount",
		"+ /etc/systemd/system/multi-user.target.wants/var-log-pods.mount", "+ /etc/soci-snapshotter-grpc/config.toml", "+ /etc/containerd/config.toml",
		"+ /etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "+ /etc/systemd/system.conf.d/environment.conf", "+ /etc/systemd/system/chronyd.service.d/environment.conf",
		"~ /etc/eks/image-credential-provider/config.json", "~ /var/lib/kubelet/kubeconfig",
	}},
	"NodeConfig, old versions": {"1.26.15", "1.7.27", nodeConfig(everything), []string{"+ /etc/eks/kubelet/environment"}},
	"NodeConfig, new versions": {"1.36.3", "2.3.0", nodeConfig(everything), []string{"+ /etc/eks/kubelet/environment"}},
	"NodeConfig, Outpost": {"1.34.4", "2.1.4", nodeConfig(outpost), []string{
		"~ /etc/hosts", "+ /var/lib/kubelet/bootstrap-kubeconfig", "- /var/lib/kubelet/kubeconfig", `+ /etc/systemd/system/mnt-k8s\x2ddisks-2.mount`,
	}},
	"bootstrap.sh": {"1.34.4", "2.1.4", call("--kubelet-extra-args", "--node-labels=a=b", "--local-disks", "raid0", "--mount-bpf-fs", "false"), []string{
		"+ /etc/containerd/config.toml", "+ /etc/systemd/system/multi-user.target.wants/kubelet.service", "~ /var/lib/kubelet/kubeconfig",
	}},
	"bootstrap.sh, old versions": {"1.24.17", "1.7.27", call("--local-disks", "mount"), []string{`+ /etc/systemd/system/mnt-k8s\x2ddisks-2.mount`}},
	"bootstrap.sh, new versions": {"1.36.3", "2.3.0", call("--use-max-pods", "false", "--dns-cluster-ip", "10.100.0.10"), []string{"+ /etc/containerd/config.toml"}},
	"bootstrap.sh, Outpost":      {"1.34.4", "2.1.4", call("--enable-local-outpost", "true", "--cluster-id", "b"), []string{"~ /etc/hosts"}},
}

func nodeConfig(text string) description {
	return func(t *testing.T, s bootstrap.Services, h *host.Host) *bootstrap.Node {
		t.Helper()
		c, err := nodeconfig.Decode([]byte(text))
		require.NoError(t, err)
		n, err := s.FromNodeConfig(t.Context(), h, c, "")
		require.NoError(t, err)
		n.Containerd.SOCI = c.Spec.Feature(nodeconfig.FastImagePull) // the machine that runs this test may be too small
		return n
	}
}

// call describes a node by arguments of bootstrap.sh.
func call(more ...string) description {
	return func(t *testing.T, s bootstrap.Services, h *host.Host) *bootstrap.Node {
		t.Helper()
		a, err := arguments.Parse(append([]string{"old", "--apiserver-endpoint", "https://old.example", "--b64-cluster-ca", "Y2E="}, more...))
		require.NoError(t, err)
		n, err := s.FromArguments(t.Context(), h, a)
		require.NoError(t, err)
		n.Containerd.PauseImage = "localhost/kubernetes/pause:latest" // as on images with their own pause image
		return n
	}
}

// A scrubbed image boots, joins with every setting, and is scrubbed again: its
// disk must equal the image. A second boot must equal the first.
func TestScrubRemovesEverythingOfAFirstBoot(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		s, h := services(t), hosttest.Live(t)
		for name, b := range boots {
			t.Run(name, func(t *testing.T) {
				record(t, "/", b.kubelet, b.containerd)
				start(t)
				clean(t, h)
				image, imageFolders := disk(t, "/")
				boot := func() testkit.Tree {
					start(t)
					items, err := s.Items(b.describe(t, s, h), bootstrap.Selection{})
					require.NoError(t, err)
					ownership, err := s.Ownership(t.Context())
					require.NoError(t, err)
					_, err = s.Apply(t.Context(), h, append([]plan.Item{ownership}, items...))
					require.NoError(t, err)
					files, _ := disk(t, "/")
					return files
				}
				first := boot()
				changed := strings.Join(first.Since(image), "\n")
				for _, want := range b.leaves {
					assert.Contains(t, changed, want)
				}
				clean(t, h)
				files, folders := disk(t, "/")
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

// The disk of a node that is down is scrubbed too.
func TestScrubRemovesFirstBootFromAnImageRoot(t *testing.T) {
	for name, b := range boots {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			provisioned(t, root)
			record(t, root, b.kubelet, b.containerd)
			s, h := services(t), hosttest.Mounted(t, root)
			clean(t, h)
			image, _ := disk(t, root)
			items, err := s.Items(b.describe(t, s, h), bootstrap.Selection{Skip: []bootstrap.Phase{bootstrap.Run}})
			require.NoError(t, err)
			_, err = s.Apply(t.Context(), h, items)
			require.NoError(t, err)
			files, _ := disk(t, root)
			assert.Greater(t, len(files.Since(image)), 5)
			clean(t, h)
			files, _ = disk(t, root)
			assert.Empty(t, files.Since(image))
		})
	}
}

func services(t *testing.T) bootstrap.Services {
	t.Helper()
	service := imdstest.Serve(imdstest.Typical())
	t.Cleanup(service.Close)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	metadata, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	return bootstrap.Services{
		IMDS: metadata, AWS: func(context.Context, map[string]string) (bootstrap.AWS, error) { return nil, nil }, Command: "/usr/bin/eksnode",
		Lookup: func(context.Context, string) ([]string, error) { return []string{"10.0.0.9", "10.0.0.8"}, nil },
		Log:    func(string) {},
	}
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

// clean scrubs the machine. The scrub must have no findings.
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
