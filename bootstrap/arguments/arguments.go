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
	// PauseImage is the pause image without its tag, when it is not EKS's.
	PauseImage string
	// LocalDisks is raid0, raid10, mount or empty.
	LocalDisks string
	// MountBPF asks for a bpf file system at /sys/fs/bpf.
	MountBPF bool
	// Warnings are about settings without effect, or with another effect than
	// their text says.
	Warnings []string
	// Variables are the environment variables that set something.
	Variables []string
}

// ErrHelp says that the call has --help.
var ErrHelp = errors.New("the call has --help")

// New returns the arguments of a call without flags.
func New() *Arguments {
	return &Arguments{RetryAttempts: 3, UseMaxPods: true, MountBPF: true, PauseVersion: "3.5"}
}

// Parse reads the command line after the program's name. Each flag takes its
// value as the next argument, as in the shell script, or after an equals sign;
// an empty value is the default. Every mistake is named at once, also those with
// which the script would join.
func Parse(args []string) (*Arguments, error) {
	a, problems, err := read(args, nil)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(problems...)
}

// Read reads a call as Amazon Linux 2's script does: getenv has the settings for
// which no flag is given, and a mistake that the script passes over is a warning.
func Read(args []string, getenv func(string) string) (*Arguments, error) {
	a, problems, err := read(args, getenv)
	if err != nil {
		return nil, err
	}
	var fatal []error
	for _, p := range problems {
		var h harmless
		if !errors.As(p, &h) {
			fatal = append(fatal, p)
			continue
		}
		a.Warnings = append(a.Warnings, p.Error()+"; "+h.instead)
	}
	return a, errors.Join(fatal...)
}

// read returns what is wrong as problems. Its error is ErrHelp or nil.
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

// call is a command line in its parts.
type call struct {
	// values are the flags' last values, and order the flags in the order in
	// which they were given.
	values map[string]string
	order  []string
	// positional are the arguments outside of flags, and doubtful those that may
	// be the values of unknown flags.
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
			c.problems = append(c.problems, harmless{fmt.Errorf("unknown flag %s%s", nodeconfig.Printable(name), suggestion(name)), "the flag is ignored"})
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
			a.Warnings = append(a.Warnings, f.name+" is given twice; the later counts")
		}
		if !twice {
			c.order = append(c.order, f.name)
		}
		c.values[f.name] = value
	}
	return c, nil
}

// positional takes the first name for the cluster's. Only where there is no
// other, that is the argument after an unknown flag.
func (a *Arguments) positional(names, doubtful []string) []error {
	var problems []error
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	names, doubtful = slices.DeleteFunc(names, blank), slices.DeleteFunc(doubtful, blank)
	if len(names) == 0 && len(doubtful) > 0 {
		names = doubtful[:1]
	}
	if len(names) == 0 {
		return []error{errors.New("the cluster's name is missing")}
	}
	a.Cluster = names[0]
	for _, n := range names[1:] {
		problems = append(problems, harmless{
			fmt.Errorf("%q does not belong here: the cluster's name is already %q; put a value with spaces in quotes", n, a.Cluster), "the argument is ignored",
		})
	}
	return problems
}

// Describe says whether the call needs DescribeCluster.
func (a *Arguments) Describe() bool { return a.Endpoint == "" || a.CA == "" }
