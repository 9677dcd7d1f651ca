package arguments

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// flag is one setting of the contract.
type flag struct {
	// name is empty for a setting that only an environment variable can set.
	name string
	// variable is the environment variable with the same meaning.
	variable string
	// help describes the value in the usage text.
	help string
	// set stores a value that is not empty.
	set func(*Arguments, string) error
}

// flags returns the settings of the contract. Source: amazon-eks-ami, bootstrap.sh of
// Amazon Linux 2, before March 2026.
func flags() []flag {
	return []flag{
		{"", "PAUSE_CONTAINER_IMAGE", "pause image without its tag (default eks/pause of the region's registry)",
			func(a *Arguments, v string) error { a.PauseImage = v; return nil }},
		{"--apiserver-endpoint", "APISERVER_ENDPOINT",
			"address of the API server; with --b64-cluster-ca, DescribeCluster is not called",
			// YAML drops spaces around the address in the script's kubeconfig.
			func(a *Arguments, v string) error { a.Endpoint = strings.Trim(v, " "); return nil }},
		{"--aws-api-retry-attempts", "API_RETRY_ATTEMPTS", "number of retries of DescribeCluster (default 3)",
			setAttempts},
		{"--b64-cluster-ca", "B64_CLUSTER_CA", "certificate authority of the cluster, in base64",
			func(a *Arguments, v string) error { a.CA = v; return nil }},
		{"--cluster-id", "CLUSTER_ID", "ID of a local cluster on an Outpost",
			func(a *Arguments, v string) error { a.ClusterID = v; return nil }},
		{"--container-runtime", "CONTAINER_RUNTIME", "containerd, the only container runtime since Kubernetes 1.24",
			setRuntime},
		{"--containerd-config-file", "CONTAINERD_CONFIG_FILE", "file to use instead of containerd's template",
			func(a *Arguments, v string) error { a.ContainerdConfigFile = v; return nil }},
		{"--dns-cluster-ip", "DNS_CLUSTER_IP", "DNS servers of the cluster, separated by commas",
			func(a *Arguments, v string) error { a.DNS = split(v); return nil }},
		{"--docker-config-json", "DOCKER_CONFIG_JSON", "no effect: Docker is not supported",
			ignore("--docker-config-json")},
		{"--enable-docker-bridge", "ENABLE_DOCKER_BRIDGE", "no effect: Docker is not supported",
			ignore("--enable-docker-bridge")},
		{"--enable-local-outpost", "ENABLE_LOCAL_OUTPOST", "true or false: join a local cluster on an Outpost",
			setOutpost},
		{"--ip-family", "IP_FAMILY", "ipv4 or ipv6", setFamily},
		{"--kubelet-extra-args", "KUBELET_EXTRA_ARGS",
			"additional arguments for the kubelet, such as labels and taints",
			setExtraArgs},
		{"--local-disks", "LOCAL_DISKS", "raid0, raid10 or mount: use of the instance store's disks", setDisks},
		{"--mount-bpf-fs", "MOUNT_BPF_FS", "true or false: mount a bpf file system at /sys/fs/bpf (default true)",
			func(a *Arguments, v string) error { return setBool(&a.MountBPF, v) }},
		{"--pause-container-account", "PAUSE_CONTAINER_ACCOUNT", "AWS account of the registry with the pause image",
			setAccount},
		{"--pause-container-version", "PAUSE_CONTAINER_VERSION", "tag of the pause image (default 3.5)",
			func(a *Arguments, v string) error { a.PauseVersion = v; return nil }},
		{"--service-ipv4-cidr", "SERVICE_IPV4_CIDR",
			"network of the cluster's services; its tenth address is the cluster's DNS server",
			setIPv4CIDR},
		{"--service-ipv6-cidr", "SERVICE_IPV6_CIDR",
			"network of an IPv6 cluster's services; its tenth address is the cluster's DNS server",
			func(a *Arguments, v string) error { a.ServiceIPv6CIDR = v; return nil }},
		{"--use-max-pods", "USE_MAX_PODS",
			"true or false: limit pods to the addresses of the instance type (default true)",
			func(a *Arguments, v string) error { return setBool(&a.UseMaxPods, v) }},
	}
}

func find(name string) (flag, bool) {
	for _, f := range flags() {
		if f.name == name {
			return f, true
		}
	}
	return flag{}, false
}

// Flags lists the names of the flags, including the dashes.
func Flags() []string {
	return show.Each(flags(), func(f flag) string { return f.name })
}

// harmless is a mistake that Amazon Linux 2's script ignores. First boot logs a
// warning, and a check of user data reports an error.
type harmless struct {
	error
	// instead describes the effect of the mistake.
	instead string
}

// maxAttempts limits the total wait, because the pause between attempts doubles.
const maxAttempts = 100

func setAttempts(a *Arguments, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > maxAttempts {
		return harmless{fmt.Errorf("must be a number from 0 to %d", maxAttempts),
			fmt.Sprintf("%d attempts follow the first", a.RetryAttempts)}
	}
	a.RetryAttempts = n
	return nil
}

// setExtraArgs accepts arguments on several lines and joins them. Lines that end in a
// backslash are no mistake, because systemd joins such lines in the script's drop-in.
func setExtraArgs(a *Arguments, v string) error {
	v = strings.TrimSpace(strings.ReplaceAll(v, "\\\n", " "))
	a.KubeletExtraArgs = strings.ReplaceAll(v, "\n", " ")
	if v != a.KubeletExtraArgs {
		return harmless{errors.New("must be on one line"), "the lines are joined"}
	}
	return nil
}

func setRuntime(_ *Arguments, v string) error {
	if v != "containerd" {
		return errors.New("containerd is the only container runtime since Kubernetes 1.24")
	}
	return nil
}

func setOutpost(a *Arguments, v string) error {
	a.Outpost = new(bool)
	return setBool(a.Outpost, v)
}

func setFamily(a *Arguments, v string) error {
	a.IPFamily = strings.ToLower(v)
	if a.IPFamily != "ipv4" && a.IPFamily != "ipv6" {
		return errors.New("must be ipv4 or ipv6")
	}
	return nil
}

// setIPv4CIDR leaves the network open for None, which the AWS CLI prints for a missing
// network: the script then chooses the network from the VPC.
func setIPv4CIDR(a *Arguments, v string) error {
	if v != "None" {
		a.ServiceIPv4CIDR = v
	}
	return nil
}

func setDisks(a *Arguments, v string) error {
	switch v {
	case "raid0", "raid10", "mount":
		a.LocalDisks = v
	case "none":
	default:
		return errors.New("must be raid0, raid10 or mount")
	}
	return nil
}

func setAccount(a *Arguments, v string) error {
	a.PauseAccount = v
	if len(v) != 12 || strings.Trim(v, "0123456789") != "" {
		return errors.New("an AWS account has 12 digits")
	}
	return nil
}

// setBool treats every value except "true" as false, like the script.
func setBool(to *bool, v string) error {
	*to = v == "true"
	if v != "true" && v != "false" {
		return harmless{errors.New("must be true or false"), "the value counts as false"}
	}
	return nil
}

func ignore(name string) func(*Arguments, string) error {
	return func(a *Arguments, v string) error {
		if v != "false" {
			a.Warnings = append(a.Warnings, name+" has no effect: containerd is the only container runtime")
		}
		return nil
	}
}

func split(list string) []string {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Usage returns the help text.
func Usage(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s [flags] CLUSTER\n\nJoin this instance to an EKS cluster.\n\n", program)
	fmt.Fprintf(&b, "  %-26s %s\n", "-h, --help", "print this help")
	for _, f := range flags() {
		if f.name != "" {
			fmt.Fprintf(&b, "  %-26s %s\n", f.name, f.help)
		}
	}
	b.WriteString("\nEnvironment variables set the same values; flags override them:\n\n")
	for _, f := range flags() {
		fmt.Fprintf(&b, "  %-26s %s\n", f.variable, cmp.Or(f.name, f.help))
	}
	return b.String()
}

var (
	imageName = show.Regexp(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,400}[A-Za-z0-9]$`)
	imageTag  = show.Regexp(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// Validate checks all values and returns the joined errors. Values that
// DescribeCluster supplies may be missing.
func (a *Arguments) Validate() error {
	var errs []error
	add := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if err := nodeconfig.CheckClusterName(a.Cluster); err != nil {
		add("the cluster's name", "%v", err)
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
	for _, c := range []struct{ flag, value string }{{"--service-ipv4-cidr", a.ServiceIPv4CIDR},
		{"--service-ipv6-cidr", a.ServiceIPv6CIDR}} {
		if c.value == "" {
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
