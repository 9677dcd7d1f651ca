//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// booting returns a machine with these files, and the log of its boot.
func booting(t *testing.T, files map[string]string) (*host.Host, *[]string, func(string)) {
	t.Helper()
	h := hosttest.Root(t, files)
	var lines []string
	return h, &lines, func(line string) { lines = append(lines, line) }
}

// metadata opens the metadata service at an address.
func metadata(t *testing.T, address string) *firstboot.Metadata {
	t.Helper()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
	m, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	return m
}

const vendor = "/sys/class/dmi/id/sys_vendor"

func TestBootOutsideEC2DoesNotWait(t *testing.T) {
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	slow := imdstest.Serve(imdstest.Typical())
	defer slow.Close()
	slow.Set(func(o *imdstest.Settings) { o.Delay = time.Hour })
	for name, address := range map[string]string{"connection refused": nobody.URL, "no response": slow.URL} {
		t.Run(name, func(t *testing.T) {
			for _, patience := range []time.Duration{0, 20 * time.Millisecond} {
				h, lines, log := booting(t, map[string]string{vendor: "QEMU\n"})
				there, err := awaitIMDS(t.Context(), h, metadata(t, address), patience, log)
				require.NoError(t, err)
				assert.False(t, there)
				assert.Equal(t, []string{`nothing to do: this is not an EC2 instance (the machine's vendor is "QEMU"), and no instance metadata service answers`}, *lines)
			}
		})
	}
}

func TestMetadataServiceOutsideEC2IsUsed(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	service.Set(func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusServiceUnavailable })
	h, lines, log := booting(t, nil)
	client := metadata(t, service.URL)
	there, err := awaitIMDS(t.Context(), h, client, elsewhere, log)
	require.NoError(t, err)
	assert.True(t, there)
	assert.Empty(t, *lines)
	_, err = client.Get(t.Context(), "meta-data/mac")
	require.NoError(t, err)
	assert.Equal(t, []string{"api/token", "api/token", "api/token", "meta-data/instance-id", "meta-data/mac"}, service.Requests(), "the token is kept")
}

// On EC2, and with a NodeConfig or a cache, boot does not probe the metadata service;
// the first reader waits for this service.
func TestBootWithNodeConfigDoesNotProbe(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"EC2":                  {vendor: "Amazon EC2\n"},
		"a NodeConfig":         {vendor: "QEMU\n", "/etc/eks/nodeadm.d/a.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"},
		"found before":         {vendor: "QEMU\n", "/run/eksnode/instance.json": "{}\n"},
		"a damaged NodeConfig": {vendor: "QEMU\n", "/etc/eks/nodeadm.d/a.yaml": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspek: {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h, lines, log := booting(t, files)
			client := metadata(t, "http://127.0.0.1:1")
			i := initFlags{joining: joining{cache: "/run/eksnode/instance.json", sources: []string{nodeconfig.UserDataSource, "file:///etc/eks/nodeadm.d/"}}}
			there, err := i.mayJoin(t.Context(), h, client, log)
			require.NoError(t, err)
			assert.True(t, there)
			assert.Greater(t, client.Attempts, 60, "Amazon's nodeadm makes 60 attempts")
			assert.Empty(t, *lines)
		})
	}
}

// DescribeCluster waits at least as long as Amazon Linux 2's script.
func TestClustersAreAwaitedAsByTheScript(t *testing.T) {
	for retries := range 8 {
		script, ours := 0.0, 0.0
		for i := range min(retries, 6) {
			script += float64(int(5) << (1 + i))
		}
		for i := range describeAttempts(retries) - 1 {
			ours += min(0.5*float64(int(1)<<min(i, 9)), 10)
		}
		assert.GreaterOrEqual(t, ours, script, "%d retries", retries)
	}
	assert.Equal(t, 1, describeAttempts(0))
}
