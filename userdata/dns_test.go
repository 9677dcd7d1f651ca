package userdata

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A report has the addresses of the cluster's DNS, whoever sets them.
func TestReportsHaveTheClusterDNS(t *testing.T) {
	const nodeConfig = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n"
	for text, want := range map[string][]string{
		"#!/bin/bash\n/etc/eks/bootstrap.sh c --dns-cluster-ip 172.20.0.10\n":                                       {"172.20.0.10"},
		nodeConfig + "    config:\n      clusterDNS: [10.100.0.10]\n":                                               {"10.100.0.10"},
		nodeConfig + "    config:\n      clusterDNS: [10.100.0.10]\n    flags: ['--cluster-dns=1.2.3.4,5.6.7.8']\n": {"1.2.3.4", "5.6.7.8"},
		"[settings.kubernetes]\ncluster-name = \"c\"\ncluster-dns-ip = \"10.100.0.10\"\n":                           {"10.100.0.10"},
		"[settings.kubernetes]\ncluster-name = \"c\"\ncluster-dns-ip = [\"10.100.0.10\", \"fd00::a\"]\n":            {"10.100.0.10", "fd00::a"},
		"#!/bin/bash\n/etc/eks/bootstrap.sh c\n":                                                                    nil,
	} {
		r, err := Check([]byte(text), "")
		require.NoError(t, err, text)
		assert.Equal(t, want, r.Cluster.DNSAddresses, text)
	}
}
