package machine

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var address = netip.MustParseAddr("10.77.1.2")

func TestConfigIsCompleted(t *testing.T) {
	config, err := Config{Root: "/tree", InstanceID: "i-0a1b"}.complete(address)
	require.NoError(t, err)
	assert.Equal(t, Config{
		Kind: Nspawn, Root: "/tree", InstanceID: "i-0a1b", Hostname: "ip-10-77-1-2", User: "admin",
		ReadyWithin: time.Minute, Memory: 1024, CPUs: 2,
	}, config)

	config, err = Config{Kind: QEMU, Image: "/image.raw", InstanceID: "i-1", Hostname: "node", User: "root", Memory: 512, CPUs: 1}.complete(address)
	require.NoError(t, err)
	assert.Equal(t, Config{
		Kind: QEMU, Image: "/image.raw", InstanceID: "i-1", Hostname: "node", User: "root",
		ReadyWithin: 10 * time.Minute, Memory: 512, CPUs: 1,
	}, config)
}

func TestConfigIsRefused(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   string
	}{
		"kind":         {Config{Kind: "podman", Root: "/tree", InstanceID: "i-1"}, `kind "podman" is unknown: it is one of ["nspawn" "qemu" "node"]`},
		"no source":    {Config{InstanceID: "i-1"}, "exactly one of root and image must be given"},
		"two sources":  {Config{Root: "/tree", Image: "/image", InstanceID: "i-1"}, "exactly one of root and image must be given"},
		"no image":     {Config{Kind: Node, Root: "/tree", InstanceID: "i-1"}, "a machine of kind node needs an image: its disk is a copy"},
		"more disks":   {Config{Root: "/tree", InstanceID: "i-1", NVMe: 1}, "a machine of kind nspawn has no disks but its own"},
		"no id":        {Config{Root: "/tree"}, `instance id "" must match ^[a-z0-9][a-z0-9-]{0,40}$`},
		"a path as id": {Config{Root: "/tree", InstanceID: "../i-1"}, `instance id "../i-1" must match ^[a-z0-9][a-z0-9-]{0,40}$`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.config.complete(address)
			assert.EqualError(t, err, test.want)
		})
	}
}

func TestPackagesOfKinds(t *testing.T) {
	assert.Contains(t, Packages(Nspawn), "systemd-container")
	assert.NotContains(t, Packages(Nspawn), "qemu-system-x86")
	assert.Contains(t, Packages(QEMU), "qemu-system-x86")
	assert.Subset(t, Packages(Kinds()...), append(Packages(Nspawn), Packages(QEMU)...))
}
