// Package bootstrap implements first boot. It reads the user data of either
// contract, gathers facts about the machine and its instance, and configures and
// starts the kubelet, containerd and the system. Every boot repeats this, and a
// repetition at any other time is safe: the configuration is always rendered
// from its source, never from an earlier result.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/disks"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/leftover"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/network"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// AWS holds the AWS API calls of first boot. They run only for facts that neither
// the input nor the instance metadata contain.
type AWS interface {
	// PrivateDNSName returns the instance's private DNS name. It waits until the
	// instance has a name.
	PrivateDNSName(ctx context.Context, region, instanceID string) (string, error)
	// InstanceLimits returns the limits of an instance type that is not in the
	// built-in table.
	InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error)
	// DescribeCluster waits until the cluster is active. attempts limits the
	// retries after a failed request.
	DescribeCluster(ctx context.Context, region, name string, attempts int) (Described, error)
}

// Services holds the services and functions that first boot uses.
type Services struct {
	// IMDS is the instance metadata service.
	IMDS Metadata
	// AWS returns the client of the AWS APIs. environment holds the variables
	// that the NodeConfig sets for every service, such as proxies.
	AWS func(ctx context.Context, environment map[string]string) (AWS, error)
	// Lookup resolves a host name to addresses.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Command is the path of this program on the node.
	Command string
	// Log writes one line to the journal.
	Log func(line string)
}

// Phase is one half of first boot.
type Phase string

// The phases.
const (
	// Config writes configuration and starts nothing.
	Config Phase = "config"
	// Run prepares disks and starts the services.
	Run Phase = "run"
)

// Phases lists the phases in order.
func Phases() []Phase { return []Phase{Config, Run} }

// Selection limits first boot to some phases and daemons.
type Selection struct {
	// Skip lists the phases to leave out.
	Skip []Phase
	// Daemons lists the services to configure and start. No entry means all
	// services; an empty name means none.
	Daemons []string
}

type (
	// Node describes the node that a machine becomes.
	Node = node.Node
	// Form is the contract of the user data: NodeConfig or bootstrap.sh.
	Form = node.Form
	// Cluster is the cluster that a node joins.
	Cluster = node.Cluster
	// Kubelet holds the kubelet's settings.
	Kubelet = node.Kubelet
	// PodsOrigin says where a node's number of pods comes from.
	PodsOrigin = node.PodsOrigin
	// Containerd holds containerd's settings.
	Containerd = node.Containerd
	// InstanceFacts are what EC2 says about the instance.
	InstanceFacts = instance.Facts
	// MachineFacts are what the machine says about itself.
	MachineFacts = machine.Facts
	// ProgramVersion is the version of the kubelet or containerd of a machine.
	ProgramVersion = machine.Version
	// Described is the cluster that DescribeCluster returns.
	Described = node.Described
	// Limits holds the network limits and the size of an instance type.
	Limits = instance.Limits
	// Metadata is the instance metadata service.
	Metadata = instance.Metadata
)

// IsEC2 reports whether the machine is an EC2 instance, and the evidence.
func IsEC2(h *host.Host) (is bool, why string, err error) { return machine.IsEC2(h) }

// Region returns the instance's region from the metadata service.
func Region(ctx context.Context, service Metadata) (string, error) {
	self, err := instance.ReadIdentity(ctx, service)
	return self.Region, err
}

// Ownership returns the item that reserves the secondary network interfaces for
// the VPC CNI. The metadata service names the primary interface.
func (s Services) Ownership(ctx context.Context) (plan.Item, error) {
	mac, err := instance.ReadLine(ctx, s.IMDS, "meta-data/mac")
	return network.Ownership{MAC: mac}, err
}

// Daemons lists the values of Selection.Daemons.
func Daemons() []string { return []string{string(render.Containerd), string(render.Kubelet)} }

// Check returns an error for every unknown phase or daemon in the selection.
func (s Selection) Check() error {
	var errs []error
	for _, p := range s.Skip {
		if !slices.Contains(Phases(), p) {
			errs = append(errs, fmt.Errorf("unknown phase %q; known are %s, %s", p, Config, Run))
		}
	}
	for _, d := range s.Daemons {
		if d != "" && !slices.Contains(Daemons(), d) {
			errs = append(errs, fmt.Errorf("unknown daemon %q; known are %s", d, strings.Join(Daemons(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// concerns reports whether the selection includes a service. The SOCI snapshotter goes
// with containerd, which cannot pull images without it.
func (s Selection) concerns(service render.Service) bool {
	if service == render.SOCI {
		service = render.Containerd
	}
	return len(s.Daemons) == 0 || slices.Contains(s.Daemons, string(service))
}

// Items returns the steps that configure and start the node, in order.
func (s Services) Items(n *node.Node, pick Selection) ([]plan.Item, error) {
	files, err := render.Files(n)
	if err != nil {
		return nil, err
	}
	var items []plan.Item
	if !slices.Contains(pick.Skip, Config) {
		chosen := slices.DeleteFunc(slices.Clone(files), func(f render.File) bool {
			return !slices.ContainsFunc(f.Of, pick.concerns)
		})
		partial := len(pick.Daemons) > 0
		items = append(items,
			leftover.State{Node: n, Files: files},
			configuration{chosen, partial, n.Form == node.NodeConfig},
			controlPlane{n, s.Lookup},
			system{chosen, partial},
		)
	}
	if slices.Contains(pick.Skip, Run) {
		return items, nil
	}
	items = append(items, disks.Disks{LocalStorage: n.Disks, InstanceID: n.Instance.ID})
	if n.MountBPF {
		items = append(items, bpf{})
	}
	return append(items, starting(n, files, pick)...), nil
}

// Apply applies and logs the items. The error joins all failures.
func (s Services) Apply(ctx context.Context, h *host.Host, items []plan.Item) ([]plan.Outcome, error) {
	return plan.Apply(ctx, h, items, logSink{s.Log})
}

// logSink logs one line for each action and each finished item.
type logSink struct{ log func(string) }

func (logSink) Begin(string, string, int)                  {}
func (logSink) Progress(string, plan.Action, int64, int64) {}

func (l logSink) End(o plan.Outcome) {
	for _, a := range o.Actions {
		l.log(fmt.Sprintf("%s: %s %s (%s)", o.Item, a.Verb, a.Target, a.Reason))
	}
	for _, a := range o.Findings {
		l.log(fmt.Sprintf("warning: %s: %s: %s", o.Item, a.Target, a.Reason))
	}
	switch o.Status {
	case plan.Unchanged:
		l.log(o.Item + ": nothing to do")
	case plan.Failed:
		l.log(o.Item + ": failed: " + o.Error)
	case plan.Skipped:
		l.log(o.Item + ": skipped")
	case plan.Done:
	}
}

// FromNodeConfig returns the node that a NodeConfig describes. cache is the file
// that keeps the NodeConfig and the facts about the instance until the next boot;
// empty means no cache.
func (s Services) FromNodeConfig(ctx context.Context, h *host.Host, c *nodeconfig.NodeConfig,
	cache string) (*node.Node, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("checking the NodeConfig:\n%w", err)
	}
	s.warn(c.Warnings())
	image, err := readDefaults(h)
	if err != nil {
		return nil, err
	}
	user := c
	if c, err = image.under(user); err != nil {
		return nil, err
	}
	m, err := machine.Gather(ctx, h, s.Command)
	if err != nil {
		return nil, err
	}
	s.warn(m.Warnings)
	aws, err := s.AWS(ctx, c.Spec.Instance.Environment[nodeconfig.DefaultEnvironment])
	if err != nil {
		return nil, err
	}
	i, err := s.cachedFacts(ctx, h, cache, user, aws, node.WantsOf(c, m))
	if err != nil {
		return nil, err
	}
	pause := containerd.PauseImage
	if !m.HasPause {
		pause = s.pauseImage(ctx, m, i, "", arguments.New().PauseVersion)
	}
	n, warnings, err := node.FromNodeConfig(c, i, m, pause)
	if err != nil {
		return nil, err
	}
	image.set(n)
	s.warn(warnings)
	return n, nil
}

// FromArguments returns the node that the arguments of bootstrap.sh describe.
func (s Services) FromArguments(ctx context.Context, h *host.Host, a *arguments.Arguments) (*node.Node, error) {
	s.warn(a.Warnings)
	if err := a.Validate(); err != nil {
		return nil, fmt.Errorf("checking the arguments:\n%w", err)
	}
	if warning, _ := nodeconfig.ReadEndpoint(a.Endpoint); warning != "" && !a.Describe() {
		s.warn([]string{"--apiserver-endpoint: " + warning})
	}
	image, err := readDefaults(h)
	if err != nil {
		return nil, err
	}
	call := node.Call{Arguments: a, Image: image.config.Spec}
	if call.Machine, err = machine.Gather(ctx, h, s.Command); err != nil {
		return nil, err
	}
	s.warn(call.Machine.Warnings)
	aws, err := s.AWS(ctx, call.Image.Instance.Environment[nodeconfig.DefaultEnvironment])
	if err != nil {
		return nil, err
	}
	if a.Describe() {
		id, err := instance.ReadIdentity(ctx, s.IMDS)
		if err != nil {
			return nil, err
		}
		described, err := aws.DescribeCluster(ctx, id.Region, a.Cluster, a.RetryAttempts)
		if err != nil {
			return nil, fmt.Errorf("describing the cluster %s: %w; set --apiserver-endpoint and --b64-cluster-ca "+
				"to skip this request", a.Cluster, err)
		}
		call.Take(described)
	}
	if call.Instance, err = s.facts(ctx, aws, call.Wants()); err != nil {
		return nil, err
	}
	filled, err := readTemplates(h, &call)
	if err != nil {
		return nil, err
	}
	s.warn(filled)
	call.PauseImage = containerd.PauseImage
	switch {
	case a.PauseImage != "":
		call.PauseImage = a.PauseImage + ":" + a.PauseVersion
	case !call.Machine.HasPause || a.PauseAccount != "" || a.PauseVersion != arguments.New().PauseVersion:
		call.PauseImage = s.pauseImage(ctx, call.Machine, call.Instance, a.PauseAccount, a.PauseVersion)
	}
	n, warnings, err := call.Node()
	if err != nil {
		return nil, err
	}
	image.set(n)
	n.Environment = image.unproxied(call.Image.Instance.Environment, n.Cluster.Endpoint, call.Networks()...)
	s.warn(warnings)
	return n, nil
}

func (s Services) facts(ctx context.Context, aws AWS, want instance.Wants) (instance.Facts, error) {
	i, warnings, err := instance.Gather(ctx, s.IMDS, aws, want)
	s.warn(warnings)
	return i, err
}

// pauseImage returns EKS's pause image in the region's registry. A kernel in FIPS
// mode uses the registry's FIPS endpoint, if the region has one.
func (s Services) pauseImage(ctx context.Context, m machine.Facts, i instance.Facts, account, version string) string {
	r := node.RegistryOf(i.Region, i.Domain, account)
	if m.FIPS {
		name := r.Host(true)
		if _, err := s.Lookup(ctx, name); err == nil {
			return node.PauseImage(name, version)
		}
		s.Log("warning: " + name +
			" does not resolve: the pause image comes from an endpoint that is not validated for FIPS")
	}
	return node.PauseImage(r.Host(false), version)
}

func (s Services) warn(lines []string) {
	for _, l := range lines {
		s.Log("warning: " + l)
	}
}
