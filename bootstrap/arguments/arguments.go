// Package arguments reads the bootstrap.sh contract: the command line of Amazon Linux
// 2's /etc/eks/bootstrap.sh, which many launch templates call.
//
// The package only parses and checks the arguments. Package node applies them.
package arguments

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Arguments holds the arguments of a call of bootstrap.sh. An empty value means that
// the flag is not set. New sets the defaults.
type Arguments struct {
	Cluster string
	// Endpoint and CA (base64). If both are set, DescribeCluster is not called.
	Endpoint, CA string
	// RetryAttempts is the number of retries of DescribeCluster.
	RetryAttempts int
	ClusterID     string
	// Outpost is nil if not set. DescribeCluster then supplies the value.
	Outpost *bool

	// DNS lists the cluster's DNS servers.
	DNS                              []string
	ServiceIPv4CIDR, ServiceIPv6CIDR string
	// IPFamily is ipv4, ipv6 or empty. DescribeCluster supplies an empty value.
	IPFamily string

	KubeletExtraArgs     string
	UseMaxPods           bool
	ContainerdConfigFile string
	// PauseAccount is the AWS account of the registry of the pause image, and
	// PauseVersion the image's tag.
	PauseAccount, PauseVersion string
	// PauseImage is the pause image without its tag; empty means EKS's image.
	PauseImage string
	// LocalDisks is raid0, raid10, mount or empty.
	LocalDisks string
	// MountBPF mounts a bpf file system at /sys/fs/bpf.
	MountBPF bool
	// Warnings lists settings that have no effect or an unexpected effect.
	Warnings []string
	// Variables lists the environment variables that were used.
	Variables []string
}

// ErrHelp reports that the arguments contain --help.
var ErrHelp = errors.New("the arguments contain --help")

// New returns the arguments of a call without flags.
func New() *Arguments {
	return &Arguments{RetryAttempts: 3, UseMaxPods: true, MountBPF: true, PauseVersion: "3.5"}
}

// Parse reads the arguments of a call. Each flag takes its value from the next
// argument, as in the shell script, or after an equals sign. An empty value means the
// default. The error lists all mistakes, including those that the script ignores.
func Parse(args []string) (*Arguments, error) { return ParseWith(args, nil) }

// ParseWith is Parse for a call with environment variables, which getenv returns.
func ParseWith(args []string, getenv func(string) string) (*Arguments, error) {
	a, problems, err := read(args, getenv)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(problems...)
}

// Read reads the arguments like Amazon Linux 2's script. getenv supplies the settings
// that no flag sets. A mistake that the script ignores is a warning.
func Read(args []string, getenv func(string) string) (*Arguments, error) {
	a, problems, err := read(args, getenv)
	if err != nil {
		return nil, err
	}
	var fatal []error
	for _, p := range problems {
		if h, ok := errors.AsType[harmless](p); ok {
			a.Warnings = append(a.Warnings, p.Error()+"; "+h.instead)
		} else {
			fatal = append(fatal, p)
		}
	}
	return a, errors.Join(fatal...)
}

// read returns the arguments and all mistakes. err is ErrHelp or nil.
func read(args []string, getenv func(string) string) (a *Arguments, problems []error, err error) {
	a = New()
	c, err := scan(a, args)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range c.order {
		f, _ := find(name)
		if value := c.values[name]; value != "" {
			if err := f.set(a, value); err != nil {
				c.problems = append(c.problems, fmt.Errorf("%s %q: %w", name, value, err))
			}
		}
	}
	for _, f := range flags() {
		if _, given := c.values[f.name]; given || getenv == nil {
			continue
		}
		value := getenv(f.variable)
		if value == "" {
			continue
		}
		a.Variables = append(a.Variables, f.variable)
		if err := f.set(a, value); err != nil {
			c.problems = append(c.problems, fmt.Errorf("the environment variable %s=%q: %w", f.variable, value, err))
		}
	}
	return a, append(c.problems, a.positional(c.positional, c.doubtful)...), nil
}

// call is a parsed command line.
type call struct {
	// values maps each flag to its last value. order lists the flags in the order of
	// the command line.
	values map[string]string
	order  []string
	// positional lists the arguments that are not flags or their values. doubtful
	// lists those that may be the value of an unknown flag.
	positional, doubtful []string
	problems             []error
}

func scan(a *Arguments, args []string) (*call, error) {
	c := &call{values: map[string]string{}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "-h" || arg == "--help" {
			return nil, ErrHelp
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			c.positional = append(c.positional, arg)
			continue
		}
		name, value, attached := strings.Cut(arg, "=")
		f, known := find(name)
		if !known {
			c.problems = append(c.problems, harmless{fmt.Errorf("unknown flag %s%s", nodeconfig.Printable(name),
				show.Meant(name, Flags())), "the flag is ignored"})
			if !attached && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				c.doubtful = append(c.doubtful, args[0])
				args = args[1:]
			}
			continue
		}
		if !attached {
			if len(args) == 0 {
				c.problems = append(c.problems, fmt.Errorf("%s needs a value: %s", f.name, f.help))
				continue
			}
			value, args = args[0], args[1:]
		}
		earlier, twice := c.values[f.name]
		if twice && earlier != value {
			a.Warnings = append(a.Warnings, f.name+" is set twice; the last value is used")
		}
		if !twice {
			c.order = append(c.order, f.name)
		}
		c.values[f.name] = value
	}
	return c, nil
}

// positional uses the first name as the cluster's name. An argument after an unknown
// flag is used only if there is no other name.
func (a *Arguments) positional(names, doubtful []string) []error {
	var problems []error
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	emptyFirst := len(names) > 0 && blank(names[0])
	names, doubtful = slices.DeleteFunc(names, blank), slices.DeleteFunc(doubtful, blank)
	if len(names) == 0 && len(doubtful) > 0 {
		names = doubtful[:1]
	}
	if len(names) == 0 {
		return []error{errors.New("the cluster's name is missing")}
	}
	a.Cluster = names[0]
	if emptyFirst {
		a.Warnings = append(a.Warnings,
			"an empty argument precedes the cluster's name: Amazon Linux 2's script takes it as the name, and fails")
	}
	for _, n := range names[1:] {
		problems = append(problems, harmless{
			fmt.Errorf("%q is unexpected: the cluster's name is already %q; put a value with spaces in quotes", n,
				a.Cluster), "the argument is ignored",
		})
	}
	return problems
}

// Describe reports whether the call needs DescribeCluster.
func (a *Arguments) Describe() bool { return a.Endpoint == "" || a.CA == "" }
