package node

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

func TestRegistriesOfAllPartitions(t *testing.T) {
	for _, c := range []struct{ region, domain, account, want string }{
		{"eu-west-1", "amazonaws.com", "", "602401143452.dkr.ecr.eu-west-1.amazonaws.com"},
		{"cn-north-1", "amazonaws.com.cn", "", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"},
		{"us-gov-east-1", "amazonaws.com", "", "151742754352.dkr.ecr.us-gov-east-1.amazonaws.com"},
		{"us-iso-west-1", "c2s.ic.gov", "", "608367168043.dkr.ecr.us-iso-west-1.c2s.ic.gov"},
		{"us-isob-east-1", "sc2s.sgov.gov", "", "187977181151.dkr.ecr.us-isob-east-1.sc2s.sgov.gov"},
		{"eu-isoe-west-1", "cloud.adc-e.uk", "", "249663109785.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk"},
		{"us-isof-south-1", "csp.hci.ic.gov", "", "676585237158.dkr.ecr.us-isof-south-1.csp.hci.ic.gov"},
		{"eusc-de-east-1", "amazonaws.eu", "", "877088126301.dkr.ecr.eusc-de-east-1.amazonaws.eu"},
		{"eu-west-1", "amazonaws.com", "123456789012", "123456789012.dkr.ecr.eu-west-1.amazonaws.com"},
		// Regions newer than the table.
		{"eu-west-9", "amazonaws.com", "", "602401143452.dkr.ecr.us-west-2.amazonaws.com"},
		{"cn-east-9", "amazonaws.com.cn", "", "961992271922.dkr.ecr.cn-northwest-1.amazonaws.com.cn"},
		{"us-gov-north-9", "amazonaws.com", "", "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com"},
	} {
		assert.Equal(t, c.want, RegistryOf(c.region, c.domain, c.account).Host(false), c.region)
	}
	assert.Equal(t, "602401143452.dkr.ecr-fips.us-east-1.amazonaws.com", RegistryOf("us-east-1", "amazonaws.com", "").Host(true))
	assert.Equal(t, "h/eks/pause:3.5", PauseImage("h", "3.5"))
}

func TestRegistryAccountsHaveTwelveDigits(t *testing.T) {
	assert.Len(t, Regions(), 46)
	for _, region := range Regions() {
		r := RegistryOf(region, "d", "")
		assert.Regexp(t, regexp.MustCompile(`^\d{12}$`), r.Account, region)
		assert.Equal(t, region, r.Region)
	}
}

// Memory is reserved for the kubelet's limit of pods. With an expression, the user's
// maxPods has no effect, as in amazon-eks-ami's test case
// custom-max-pods-expression/kubelet-config-max-pods.
func TestReservedPods(t *testing.T) {
	for name, c := range map[string]struct {
		kubelet nodeconfig.Kubelet
		want    int
	}{
		"the instance type's":          {nodeconfig.Kubelet{}, 29},
		"configuration":                {nodeconfig.Kubelet{Config: nodeconfig.Document{"maxPods": int64(110)}}, 110},
		"fewer":                        {nodeconfig.Kubelet{Config: nodeconfig.Document{"maxPods": int64(8)}}, 8},
		"a flag":                       {nodeconfig.Kubelet{Flags: nodeconfig.Flags{"--v=2 --max-pods=110"}}, 110},
		"a flag and its value":         {nodeconfig.Kubelet{Flags: nodeconfig.Flags{"--max-pods", "110"}}, 110},
		"the last flag":                {nodeconfig.Kubelet{Flags: nodeconfig.Flags{"--max-pods=50", "--max-pods=60"}, Config: nodeconfig.Document{"maxPods": int64(110)}}, 60},
		"an expression":                {nodeconfig.Kubelet{MaxPodsExpression: "max_pods + 2", Config: nodeconfig.Document{"maxPods": int64(1)}}, 31},
		"an expression without result": {nodeconfig.Kubelet{MaxPodsExpression: "1 / (max_pods - 29)", Config: nodeconfig.Document{"maxPods": int64(110)}}, 110},
		"no number":                    {nodeconfig.Kubelet{Config: nodeconfig.Document{"maxPods": "many"}, Flags: nodeconfig.Flags{"--max-pods=x", "--max-pods"}}, 29},
	} {
		n, _, err := FromNodeConfig(of(c.kubelet), large(), modern(), "p")
		require.NoError(t, err)
		assert.Equal(t, c.want, n.ReservedPods(), name)
	}
}

// The expressions of nodeadm's own tests (amazon-eks-ami, eni_max_pods_test.go,
// July 2026), and language features that those tests do not use.
func TestMaxPodsExpressionsAsNodeadm(t *testing.T) {
	i := large()
	i.Limits.VCPUs, i.Limits.MemoryMiB = 2, 8192
	for expression, want := range map[string]int{
		"417":                                    417,
		"(default_enis * (ips_per_eni - 1)) + 2": 29,
		"(default_enis * ((ips_per_eni - 1) * 16)) + 2":                                                               434,
		"((default_enis * ((ips_per_eni * 16) - 1)) + 2) < 30 ? ((default_enis * ((ips_per_eni * 16) - 1)) + 2) : 30": 30,
		"((default_enis - 1) * (ips_per_eni - 1)) + 2":                                                                20,
		"((default_enis -1) * (ips_per_eni - 1)) + 2":                                                                 20,
		"max_pods < 30 ? max_pods : 30":                                                                               29,
		"max_pods":                                                                                                    29,
		"(vcpus * 10) < max_pods ? (vcpus * 10) : max_pods":                                                           20,
		"(physical_memory_mib / 1024) > 7 ? 110 : max_pods":                                                           110,
		"(physical_memory_mib / 1024) > 32 ? 110 : max_pods":                                                          29,
		"max_pods + 2": 31,
		"[max_pods, 110].exists(n, n > 100) ? 110 : max_pods":            110,
		"[8, 16, 32].filter(n, n <= max_pods).size()":                    2,
		"[8, 16, 32].map(n, n + ips_per_eni)[1]":                         26,
		"[default_enis, ips_per_eni].all(n, n > 2) ? 12 : 13":            12,
		"{'small': 17, 'large': 110}[max_pods > 20 ? 'large' : 'small']": 110,
		"has({'a': 1}.a) ? 7 : 8":                                        7,
		"'abc'.startsWith('a') && 'abc'.matches('^a.c$') ? 5 : 6":        5,
		"int('42') + 'abc'.size()":                                       45,
		"'43'":                                                           43,
		"2.9 * double(max_pods)":                                         84,
		"44u":                                                            44,
		"duration('45s').getSeconds()":                                   45,
		"timestamp('2026-07-01T00:00:46Z').getSeconds()":                 46,
		"type(max_pods) == int ? 47 : 48":                                47,
		"dyn(49)":                                                        49,
		"max_pods // as it is\n + 21":                                    50,
		"true || 1 / (max_pods - 29) == 1 ? 51 : 52":                     51,
	} {
		config := of(nodeconfig.Kubelet{MaxPodsExpression: expression})
		if err := config.Validate(); !assert.NoError(t, err, expression) {
			continue
		}
		n, warnings, err := FromNodeConfig(config, i, modern(), "p")
		require.NoError(t, err)
		assert.Empty(t, warnings, expression)
		assert.Equal(t, want, n.Kubelet.MaxPods, expression)
	}
}
