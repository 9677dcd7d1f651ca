// Package arguments is the first of the two contracts by which clusters tell a
// machine how to join: the command line of /etc/eks/bootstrap.sh, as Amazon
// Linux 2 had it and as thousands of launch templates call it.
//
// The package only reads. What the arguments mean for a machine is decided in
// package node.
package arguments

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Arguments are what bootstrap.sh was called with. Empty means not given,
// except for the flags that New gives a default.
type Arguments struct {
	Cluster string
	// Endpoint and CA (base64), both given, make DescribeCluster unnecessary.
	Endpoint, CA string
	// RetryAttempts is how often DescribeCluster is tried again.
	RetryAttempts int
	ClusterID     string
	// Outpost is nil when not given: DescribeCluster then decides.
	Outpost *bool

	// DNS are the cluster's DNS servers.
	DNS                              []string
	ServiceIPv4CIDR, ServiceIPv6CIDR string
	// IPFamily is ipv4, ipv6 or empty, which DescribeCluster then decides.
	IPFamily string

	KubeletExtraArgs     string
	UseMaxPods           bool
	ContainerdConfigFile string
	// PauseAccount is the AWS account of the registry of the pause image, and
	// PauseVersion the image's tag.
	PauseAccount, PauseVersion string
	// LocalDisks is raid0, raid10, mount or empty.
	LocalDisks string
	// MountBPF asks for a bpf file system at /sys/fs/bpf.
	MountBPF bool
	// Warnings are about what was given and has no effect.
	Warnings []string
}

// ErrHelp says that help was asked for.
var ErrHelp = errors.New("help was asked for")

// New returns the arguments of a call without flags.
func New() *Arguments {
	return &Arguments{RetryAttempts: 3, UseMaxPods: true, MountBPF: true, PauseVersion: "3.5"}
}

// Parse reads the command line after the program's name. Each flag takes its
// value as the next argument, as in the shell script, or after an equals sign.
// Every mistake is named at once; what the script silently took for a cluster's
// name or passed over is a mistake here.
func Parse(args []string) (*Arguments, error) {
	a := New()
	var errs []error
	var positional []string
	given := map[string]string{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "-h" || arg == "--help" {
			return nil, ErrHelp
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			positional = append(positional, arg)
			continue
		}
		name, value, attached := strings.Cut(arg, "=")
		f, known := find(name)
		if !known {
			errs = append(errs, fmt.Errorf("unknown flag %s%s", nodeconfig.Printable(name), suggestion(name)))
			// The value of an unknown flag is no cluster's name.
			if !attached && len(args) > 1 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		}
		if !attached {
			if len(args) == 0 {
				errs = append(errs, fmt.Errorf("%s needs a value: %s", f.name, f.help))
				continue
			}
			value, args = args[0], args[1:]
		}
		if earlier, twice := given[f.name]; twice && earlier != value {
			a.Warnings = append(a.Warnings, f.name+" is given twice; the later counts")
		}
		given[f.name] = value
		if err := f.set(a, value); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", f.name, value, err))
		}
	}
	return a, errors.Join(append(errs, a.positional(positional)...)...)
}

func (a *Arguments) positional(names []string) []error {
	var errs []error
	names = slices.DeleteFunc(names, func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(names) == 0 {
		return []error{errors.New("the cluster's name is missing")}
	}
	a.Cluster = names[0]
	for _, n := range names[1:] {
		errs = append(errs, fmt.Errorf("%q does not belong here: the cluster's name is already %q; put a value with spaces in quotes", n, a.Cluster))
	}
	return errs
}

// Describe says whether DescribeCluster has to be asked.
func (a *Arguments) Describe() bool { return a.Endpoint == "" || a.CA == "" }
