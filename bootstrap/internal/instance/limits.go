package instance

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:generate go run ./generate

// limits is a table of about 20 KB. The same table as Go source compiles to more than
// ten times that size.
//
//go:embed limits.txt
var limits string

// Limits holds the network limits and the size of an instance type.
type Limits struct {
	// ENIs is the maximum number of network interfaces on the default network card,
	// and IPsPerENI the number of IPv4 addresses of each interface.
	ENIs, IPsPerENI int
	// VCPUs and MemoryMiB come from EC2 only; 0 means unknown, because the built-in
	// table does not have them.
	VCPUs, MemoryMiB int `json:",omitempty"`
}

// DefaultMaxPods is the kubelet's default, for unknown instance types.
const DefaultMaxPods = 110

// MaxPods returns the number of pods for which the VPC CNI has addresses. The first
// address of every interface is not for pods. Two pods use the node's address: the
// CNI itself and kube-proxy.
func (l Limits) MaxPods() int { return l.ENIs*(l.IPsPerENI-1) + 2 }

// LimitsOf returns an instance type's limits from the built-in table. Sources:
// github.com/aws/amazon-vpc-cni-k8s, and for its missing types
// github.com/aws/amazon-vpc-resource-controller-k8s, in the versions named in
// limits.txt.
func LimitsOf(instanceType string) (Limits, bool) {
	if !strings.Contains(instanceType, ".") || strings.ContainsAny(instanceType, " \n#") {
		return Limits{}, false
	}
	for line := range strings.Lines(limits) {
		i := strings.Index(line, " "+instanceType)
		if i < 0 || line[0] == '#' {
			continue
		}
		for name := range strings.FieldsSeq(line[i:]) {
			if name != instanceType {
				continue
			}
			var l Limits
			if _, err := fmt.Sscan(line, &l.ENIs, &l.IPsPerENI); err != nil {
				return Limits{}, false
			}
			return l, true
		}
	}
	return Limits{}, false
}
