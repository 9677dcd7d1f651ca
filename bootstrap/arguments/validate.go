package arguments

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

var (
	clusterName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`) })
	imageName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,400}[A-Za-z0-9]$`) })
	imageTag    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`) })
)

// Validate checks all values and returns the joined errors. Values that
// DescribeCluster supplies may be missing.
func (a *Arguments) Validate() error {
	var errs []error
	add := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if !clusterName().MatchString(a.Cluster) {
		add("the cluster's name", "%q must be up to 100 letters, digits, - and _", a.Cluster)
	}
	if a.Endpoint != "" {
		if _, err := nodeconfig.ReadEndpoint(a.Endpoint); err != nil {
			add("--apiserver-endpoint", "%v", err)
		}
	}
	if _, err := nodeconfig.Unbase64(a.CA); err != nil {
		add("--b64-cluster-ca", "the value is not base64: %v", err)
	}
	if !imageTag().MatchString(a.PauseVersion) {
		add("--pause-container-version", "%q is not an image tag", a.PauseVersion)
	}
	if a.PauseImage != "" && !imageName().MatchString(a.PauseImage) {
		add("PAUSE_CONTAINER_IMAGE", "%q is not an image name", a.PauseImage)
	}
	for _, err := range nodeconfig.CheckFlags(a.KubeletExtraArgs) {
		add("--kubelet-extra-args", "%v", err)
	}
	if a.ClusterID != "" {
		if err := nodeconfig.CheckOutpostID(a.ClusterID); err != nil {
			add("--cluster-id", "%v", err)
		}
	}
	if a.Outpost != nil && *a.Outpost && a.ClusterID == "" && !a.Describe() {
		add("--enable-local-outpost", "true needs --cluster-id")
	}
	a.checkFamily(add)
	return errors.Join(errs...)
}

// NoNetwork is what the AWS CLI prints for a missing network. Amazon Linux 2's script
// takes it as --service-ipv4-cidr, and then chooses the network from the VPC.
const NoNetwork = "None"

// Network returns the address of a network, whose prefix the script does not need.
func Network(cidr string) (netip.Addr, error) {
	address, _, isPrefix := strings.Cut(cidr, "/")
	if !isPrefix {
		return netip.ParseAddr(address)
	}
	prefix, err := netip.ParsePrefix(cidr)
	return prefix.Addr(), err
}

func (a *Arguments) checkFamily(add func(flag, format string, args ...any)) {
	for _, ip := range a.DNS {
		if address, err := netip.ParseAddr(ip); err != nil || address.Zone() != "" {
			add("--dns-cluster-ip", "%q is no address", ip)
		}
	}
	for _, c := range []struct{ flag, value string }{{"--service-ipv4-cidr", a.ServiceIPv4CIDR}, {"--service-ipv6-cidr", a.ServiceIPv6CIDR}} {
		if c.value == "" || c.value == NoNetwork && c.flag == "--service-ipv4-cidr" {
			continue
		}
		network, err := Network(c.value)
		if err != nil || network.Is4() != (c.flag == "--service-ipv4-cidr") {
			add(c.flag, "%q is no such network", c.value)
		}
	}
	if a.ServiceIPv6CIDR != "" && a.IPFamily == "ipv4" {
		add("--ip-family", "must be ipv6 if --service-ipv6-cidr is set")
	}
	if a.IPFamily == "ipv6" && a.ServiceIPv6CIDR == "" && len(a.DNS) == 0 && !a.Describe() {
		add("--ip-family", "ipv6 needs --service-ipv6-cidr or --dns-cluster-ip")
	}
}
