package arguments

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// flag is one row of the contract.
type flag struct {
	name string
	// help is a phrase for the usage text.
	help string
	set  func(*Arguments, string) error
}

// flags is the contract's table. Source: amazon-eks-ami, bootstrap.sh of Amazon
// Linux 2, before March 2026.
func flags() []flag {
	return []flag{
		{"--apiserver-endpoint", "the API server's address; with --b64-cluster-ca, DescribeCluster is not called",
			func(a *Arguments, v string) error { a.Endpoint = v; return nil }},
		{"--aws-api-retry-attempts", "how often DescribeCluster is tried again (default 3)", setAttempts},
		{"--b64-cluster-ca", "the cluster's certificate authority in base64",
			func(a *Arguments, v string) error { a.CA = v; return nil }},
		{"--cluster-id", "the id of a local cluster on an Outpost",
			func(a *Arguments, v string) error { a.ClusterID = v; return nil }},
		{"--container-runtime", "containerd; nothing else works since Kubernetes 1.24", setRuntime},
		{"--containerd-config-file", "a file that takes the place of containerd's template",
			func(a *Arguments, v string) error { a.ContainerdConfigFile = v; return nil }},
		{"--dns-cluster-ip", "the cluster's DNS servers, separated by commas",
			func(a *Arguments, v string) error { a.DNS = split(v); return nil }},
		{"--docker-config-json", "of no effect: there is no Docker", ignore("--docker-config-json")},
		{"--enable-docker-bridge", "of no effect: there is no Docker", func(a *Arguments, v string) error {
			if v == "false" {
				return nil
			}
			return ignore("--enable-docker-bridge")(a, v)
		}},
		{"--enable-local-outpost", "true or false: join a local cluster on an Outpost", setOutpost},
		{"--ip-family", "ipv4 or ipv6", setFamily},
		{"--kubelet-extra-args", "further arguments for the kubelet, such as labels and taints",
			func(a *Arguments, v string) error { a.KubeletExtraArgs = strings.TrimSpace(v); return nil }},
		{"--local-disks", "raid0, raid10 or mount: what becomes of the instance store's disks", setDisks},
		{"--mount-bpf-fs", "true or false: mount a bpf file system at /sys/fs/bpf (default true)",
			func(a *Arguments, v string) error { return setBool(&a.MountBPF, v) }},
		{"--pause-container-account", "the AWS account whose registry has the pause image", setAccount},
		{"--pause-container-version", "the pause image's tag (default 3.5)",
			func(a *Arguments, v string) error { a.PauseVersion = v; return nil }},
		{"--service-ipv4-cidr", "the services' network; its tenth address is the cluster's DNS",
			func(a *Arguments, v string) error { a.ServiceIPv4CIDR = v; return nil }},
		{"--service-ipv6-cidr", "the services' network of an IPv6 cluster; its tenth address is the cluster's DNS",
			func(a *Arguments, v string) error { a.ServiceIPv6CIDR = v; return nil }},
		{"--use-max-pods", "true or false: limit pods to what the instance type has addresses for (default true)",
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

// Flags lists the names of the flags, with their dashes.
func Flags() []string {
	var names []string
	for _, f := range flags() {
		names = append(names, f.name)
	}
	return names
}

// suggestion names the flag that an unknown one probably means.
func suggestion(name string) string {
	if best := nodeconfig.Nearest(name, Flags()); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

func setAttempts(a *Arguments, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 100 {
		return errors.New("must be a number from 0 to 100")
	}
	a.RetryAttempts = n
	return nil
}

func setRuntime(_ *Arguments, v string) error {
	if v != "containerd" && v != "" {
		return errors.New("containerd is the only container runtime since Kubernetes 1.24")
	}
	return nil
}

func setOutpost(a *Arguments, v string) error {
	if v == "" {
		return nil
	}
	a.Outpost = new(bool)
	return setBool(a.Outpost, v)
}

func setFamily(a *Arguments, v string) error {
	a.IPFamily = strings.ToLower(v)
	if a.IPFamily != "ipv4" && a.IPFamily != "ipv6" && v != "" {
		return errors.New("must be ipv4 or ipv6")
	}
	return nil
}

func setDisks(a *Arguments, v string) error {
	switch v {
	case "raid0", "raid10", "mount":
		a.LocalDisks = v
	case "none", "":
		a.LocalDisks = ""
	default:
		return errors.New("must be raid0, raid10 or mount")
	}
	return nil
}

func setAccount(a *Arguments, v string) error {
	a.PauseAccount = v
	if v != "" && (len(v) != 12 || strings.Trim(v, "0123456789") != "") {
		return errors.New("an AWS account has 12 digits")
	}
	return nil
}

func setBool(to *bool, v string) error {
	switch v {
	case "true", "false":
		*to = v == "true"
		return nil
	default:
		return errors.New("must be true or false")
	}
}

func ignore(name string) func(*Arguments, string) error {
	return func(a *Arguments, v string) error {
		if v != "" {
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

// Usage is the help text.
func Usage(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s [flags] CLUSTER\n\nJoins this instance to an EKS cluster as a node.\n\n", program)
	fmt.Fprintf(&b, "  %-26s %s\n", "-h, --help", "print this")
	for _, f := range flags() {
		fmt.Fprintf(&b, "  %-26s %s\n", f.name, f.help)
	}
	return b.String()
}
