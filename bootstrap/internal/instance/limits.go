package instance

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:generate go run ./generate

// limits is a table of about 20 KB; the Go source it was made from compiles to
// more than ten times that.
//
//go:embed limits.txt
var limits string

// Limits are how many addresses an instance type has for pods, and how large it
// is.
type Limits struct {
	// ENIs is how many network interfaces the default network card takes, and
	// IPsPerENI how many IPv4 addresses each.
	ENIs, IPsPerENI int
	// VCPUs and MemoryMiB are 0 when EC2 was not asked: the built-in table does
	// not have them.
	VCPUs, MemoryMiB int `json:",omitempty"`
}

// DefaultMaxPods is the kubelet's own default, for types nobody knows.
const DefaultMaxPods = 110

// MaxPods is how many pods the VPC CNI finds addresses for: every interface
// keeps its first address to itself, and two pods use the node's (the CNI
// itself and kube-proxy).
func (l Limits) MaxPods() int { return l.ENIs*(l.IPsPerENI-1) + 2 }

// LimitsOf looks an instance type up in the built-in table. Sources:
// github.com/aws/amazon-vpc-cni-k8s, and for types it does not have
// github.com/aws/amazon-vpc-resource-controller-k8s, in the versions that
// limits.txt names.
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
