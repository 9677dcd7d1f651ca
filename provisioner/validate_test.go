package provisioner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptedSpecs(t *testing.T) {
	for name, spec := range map[string]Spec{
		"the least":              {KubernetesVersion: "1.34.4"},
		"the oldest, the newest": {KubernetesVersion: "1.24.0"},
		"a pre-release":          {KubernetesVersion: "1.37.0-rc.1"},
		"everything": {
			Distro: "debian", KubernetesVersion: "1.34.4", SourceURL: "https://me:secret@mirror.example:8443/a/b",
			Versions:  map[string]string{"cni-plugins": "1.6.2", "ecr-credential-provider": "1.31.7"},
			Checksums: map[string]string{"kubelet": strings.Repeat("aB", 32)},
			Packages:  []string{"chrony", "libstdc++6", "NetworkManager", "python3.11"},
			Sysctls:   map[string]string{"vm.max_map_count": "262144", "net.ipv4.conf.eth0/100.rp_filter": "2", "kernel.core_pattern": "|/bin/false %p"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, spec.Validate()) })
	}
}
