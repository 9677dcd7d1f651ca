package instance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The values of amazon-eks-ami's eni-max-pods.txt.
func TestMaxPodsOfKnownTypes(t *testing.T) {
	for name, want := range map[string]int{
		"t3.nano": 4, "t3.medium": 17, "m5.large": 29, "m5.xlarge": 58, "m5.24xlarge": 737, "c5.metal": 737,
		"p4d.24xlarge": 737, "p5.48xlarge": 100, "m8g.medium": 8, "i4i.32xlarge": 737,
	} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l.MaxPods(), name)
	}
}

// The types that only amazon-vpc-cni-k8s lists: amazon-eks-ami has them too
// (nodeadm, instance-info.jsonl, July 2026).
func TestTypesOfTheVPCCNITable(t *testing.T) {
	for name, want := range map[string]Limits{
		"bmn-sf1.metal": {ENIs: 15, IPsPerENI: 50}, "c5a.metal": {ENIs: 15, IPsPerENI: 50}, "c5ad.metal": {ENIs: 15, IPsPerENI: 50},
		"cr1.8xlarge": {ENIs: 8, IPsPerENI: 30}, "hs1.8xlarge": {ENIs: 8, IPsPerENI: 30},
		"hpc6a.48xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc6id.32xlarge": {ENIs: 1, IPsPerENI: 50}, "hpc7a.12xlarge": {ENIs: 2, IPsPerENI: 50},
		"hpc7a.24xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc7a.48xlarge": {ENIs: 2, IPsPerENI: 50}, "hpc7a.96xlarge": {ENIs: 2, IPsPerENI: 50},
		"hpc8a.96xlarge": {ENIs: 2, IPsPerENI: 50}, "trn2.3xlarge": {ENIs: 2, IPsPerENI: 15}, "trn2.48xlarge": {ENIs: 2, IPsPerENI: 50},
		"u-6tb1.metal": {ENIs: 5, IPsPerENI: 30}, "u-9tb1.metal": {ENIs: 5, IPsPerENI: 30}, "u-12tb1.metal": {ENIs: 5, IPsPerENI: 30},
		"u-18tb1.metal": {ENIs: 15, IPsPerENI: 50}, "u-24tb1.metal": {ENIs: 15, IPsPerENI: 50},
	} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l, name)
	}
}

// These types have two network cards. The VPC CNI uses the interfaces of the default
// card only (its table and its eni-max-pods.txt, v1.23.2: 394 and 590 pods).
// amazon-eks-ami's nodeadm counts the interfaces of both cards: 737 and 1178 pods.
func TestOnlyTheDefaultNetworkCardCounts(t *testing.T) {
	for name, want := range map[string]int{"i7ie.48xlarge": 394, "i7ie.metal-48xl": 394, "i8ge.48xlarge": 590, "i8ge.metal-48xl": 590} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l.MaxPods(), name)
	}
}

func TestUnknownTypesHaveNoLimits(t *testing.T) {
	for _, name := range []string{"", "m5", "5.large", "m5.larg", "z99.large", "#", "# Generated", "2", "15"} {
		_, ok := LimitsOf(name)
		assert.False(t, ok, name)
	}
}

func TestTableIsComplete(t *testing.T) {
	types := 0
	for line := range strings.Lines(limits) {
		if line[0] == '#' {
			continue
		}
		for _, name := range strings.Fields(line)[2:] {
			types++
			l, ok := LimitsOf(name)
			assert.True(t, ok && l.MaxPods() > 2, name)
		}
	}
	assert.Greater(t, types, 1400)
}
