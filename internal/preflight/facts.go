package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// Target selects what preflight checks. Exactly one of Instance, Template,
// NodeGroup, NodeClass and AMI is set.
type Target struct {
	Cluster  string
	Instance string
	// Template is the ID or name of a launch template. TemplateVersion is a number,
	// $Latest or $Default.
	Template, TemplateVersion string
	// NodeGroup is the name of a managed node group.
	NodeGroup string
	// NodeClass is Karpenter's EC2NodeClass of the nodes.
	NodeClass *NodeClass
	AMI       string
	// Role is the name or ARN of the nodes' role, for a target that does not name
	// the role.
	Role string
	// Subnets are the subnets of future nodes. Empty means the subnets of the
	// instance or the cluster.
	Subnets []string
	// Kubelet is the image's kubelet version. Empty reads the image's tags.
	Kubelet string
	// AWSAuth is the ConfigMap aws-auth as kubectl prints it, or nil.
	AWSAuth []byte
}

// kubernetesTag is the image's tag with the kubelet's version.
const kubernetesTag = "eksnode:kubernetes-version"

// fact is a value that was read, or the error of reading it.
type fact[T any] struct {
	value T
	err   error
	// absent says that the target has no such value.
	absent bool
}

func (f fact[T]) state() (absent bool, err error) { return f.absent, f.err }

func learn[T any](value T, err error) fact[T] { return fact[T]{value: value, err: err} }

// after reads a value that depends on another fact.
func after[T, O any](before fact[O], read func(O) fact[T]) fact[T] {
	if before.err != nil || before.absent {
		return fact[T]{err: before.err, absent: before.absent}
	}
	return read(before.value)
}

// all reads a value for each of a list.
func all[T, O any](list []O, read func(O) (T, error)) fact[[]T] {
	var f fact[[]T]
	for _, from := range list {
		one, err := read(from)
		if err != nil {
			return fact[[]T]{err: err}
		}
		f.value = append(f.value, one)
	}
	return f
}

// unique are the different texts of a list, in order.
func unique(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

type facts struct {
	target        Target
	now           time.Time
	account       fact[string]
	cluster       fact[awsapi.Cluster]
	group         fact[awsapi.NodeGroup] // absent unless the target is one
	selected      selected
	launch        fact[awsapi.Launch]
	image         fact[awsapi.Image]
	architectures fact[[]string]
	types         fact[[]awsapi.InstanceType] // absent when the target names none
	health        fact[awsapi.Health]
	offerings     fact[[]string]       // zones
	quotas        fact[[]awsapi.Quota] // of the types, in their order
	freePlan      fact[bool]           // absent if a free plan has all types
	spotRole      fact[awsapi.Role]
	keys          fact[[]awsapi.Key]
	profile       fact[awsapi.Profile] // its role is the nodes' role, also without a profile
	simulated     fact[[]awsapi.Decision]
	cni           fact[cni]
	entry         fact[awsapi.AccessEntry]
	subnets       fact[[]awsapi.Subnet]
	planeSubnets  fact[[]awsapi.Subnet]
	acls          fact[[]awsapi.ACL]
	nodeGroups    fact[[]awsapi.SecurityGroup]
	planeGroups   fact[[]awsapi.SecurityGroup]
	vpc           fact[awsapi.VPC]
	addons        fact[[]awsapi.Addon]
	userData      fact[userdata.Report]

	// nats are the NAT gateways of the nodes' VPCs, and endpointGroups the security
	// groups of the cluster VPC's endpoints.
	nats           fact[[]awsapi.NAT]
	endpointGroups fact[[]awsapi.SecurityGroup]
	// hiding are the private hosted zones that hide AWS's names in the cluster's VPC.
	hiding fact[[]hidingZone]
}

// byName are the facts that checks need, by their names in the table.
func (f *facts) byName() map[string]interface{ state() (bool, error) } {
	return map[string]interface{ state() (bool, error) }{
		"cluster": f.cluster, "addons": f.addons, "group": f.group, "launch": f.launch, "keys": f.keys,
		"quotas": f.quotas, "freePlan": f.freePlan, "vpc": f.vpc, "subnets": f.subnets, "planeSubnets": f.planeSubnets,
		"acls": f.acls, "nodeGroups": f.nodeGroups, "planeGroups": f.planeGroups, "nats": f.nats,
		"endpointGroups": f.endpointGroups, "types": f.types,
		"instance": fact[string]{absent: f.target.Instance == ""},
		"class":    fact[*NodeClass]{absent: f.target.NodeClass == nil},
	}
}

// unready returns the result of a check whose facts are absent or unknown, or nil.
func (f *facts) unready(c Check) *result {
	known := f.byName()
	var errs []error
	for _, name := range c.Needs {
		absent, err := known[name].state()
		if absent && err == nil {
			return &result{verdict: notHere}
		}
		errs = append(errs, err)
	}
	return f.unseen(errs...)
}

func gather(ctx context.Context, a *awsapi.AWS, t Target, account fact[string]) *facts {
	f := &facts{target: t, now: time.Now(), account: account}
	f.cluster = learnCluster(ctx, a, t.Cluster, account)
	if once(f.cluster.err) {
		return f
	}
	f.launches(ctx, a)
	f.image = f.imageOf(ctx, a)
	f.node(ctx, a)
	f.network(ctx, a)
	f.addons = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.Addon] { return learn(a.Addons(ctx, c.Name)) })
	f.permissions(ctx, a)
	f.hardware(ctx, a)
	return f
}

func (f *facts) node(ctx context.Context, a *awsapi.AWS) {
	f.types = fact[[]awsapi.InstanceType]{err: f.launch.err, absent: f.launch.absent}
	f.architectures = after(f.launch, func(l awsapi.Launch) fact[[]string] { return f.architecturesOf(ctx, a, l) })
	f.profile = f.profileOf(ctx, a)
	f.entry = after(f.profile, func(p awsapi.Profile) fact[awsapi.AccessEntry] {
		// The mode CONFIG_MAP has no access entries, and EKS refuses the call.
		if p.Role == nil || f.cluster.err != nil || f.cluster.value.AuthenticationMode == clustersetup.ConfigMap {
			return fact[awsapi.AccessEntry]{err: f.cluster.err}
		}
		entry, err := a.AccessEntry(ctx, f.target.Cluster, p.Role.ARN)
		if awsapi.IsNotFound(err) {
			err = nil
		}
		return learn(entry, err)
	})
	f.userData = after(f.launch, f.userDataOfLaunch)
}

// readUserData reads the user data of a launch. A launch without any is no error.
func readUserData(l awsapi.Launch) fact[userdata.Report] {
	if len(l.UserData) == 0 {
		return fact[userdata.Report]{}
	}
	return learn(userdata.Check(l.UserData, ""))
}

func (f *facts) network(ctx context.Context, a *awsapi.AWS) {
	f.subnets = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.Subnet] {
		ids := f.target.Subnets
		switch named, err := f.subnetsOfTarget(); {
		case err != nil:
			return fact[[]awsapi.Subnet]{err: err}
		case len(named) > 0:
			ids = named
		case len(ids) == 0 && f.launch.value.Subnet != "":
			ids = []string{f.launch.value.Subnet}
		}
		if len(ids) == 0 {
			ids = c.Subnets
		}
		return learn(a.Subnets(ctx, ids))
	})
	f.planeSubnets = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.Subnet] {
		return learn(a.Subnets(ctx, c.Subnets))
	})
	f.acls = after(f.subnets, func(nodes []awsapi.Subnet) fact[[]awsapi.ACL] {
		if f.planeSubnets.err != nil {
			return fact[[]awsapi.ACL]{err: f.planeSubnets.err}
		}
		ids := show.Each(slices.Concat(nodes, f.planeSubnets.value), func(s awsapi.Subnet) string { return s.ID })
		return learn(a.ACLs(ctx, unique(ids)))
	})
	f.nodeGroups = after(f.launch, func(l awsapi.Launch) fact[[]awsapi.SecurityGroup] {
		return f.securityGroupsOf(ctx, a, l)
	})
	f.planeGroups = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.SecurityGroup] {
		ids := slices.Clone(c.SecurityGroups)
		if c.ClusterSecurityGroup != "" {
			ids = append(ids, c.ClusterSecurityGroup)
		}
		return learn(a.SecurityGroups(ctx, ids))
	})
	f.vpc = after(f.cluster, func(c awsapi.Cluster) fact[awsapi.VPC] { return learn(a.VPC(ctx, c.VPC)) })
	f.gateways(ctx, a)
}

// once says whether every call would fail with this error, so that nothing can be
// checked.
func once(err error) bool { return awsapi.IsUnanswered(err) || awsapi.IsUnknownCaller(err) }

// Run reads from AWS and runs every check that applies to the target.
func Run(ctx context.Context, a *awsapi.AWS, t Target) (Report, error) {
	account, err := a.Account(ctx)
	if once(err) {
		return Report{}, err
	}
	if err := t.fitsAccount(account); err != nil {
		return Report{}, err
	}
	f := gather(ctx, a, t, learn(account, err))
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("checking %s: %w", t, context.Cause(ctx))
	}
	if once(f.cluster.err) {
		return Report{}, f.cluster.err
	}
	if awsapi.IsNotFound(f.group.err) && f.cluster.err == nil {
		return Report{}, fmt.Errorf("%w; `aws eks list-nodegroups --cluster-name %s` lists the node groups",
			f.group.err, t.Cluster)
	}
	return f.check(), nil
}

func (f *facts) check() Report {
	r := Report{Cluster: f.target.Cluster, Target: f.target.String()}
	all := collected{findings: []Finding{}, first: map[string]int{}}
	for _, c := range Table() {
		if c.Node && f.launch.absent {
			r.LeftOut = append(r.LeftOut, c.ID)
			continue
		}
		said := f.unready(c)
		if said == nil {
			said = c.look(f)
		}
		switch said.verdict {
		case notHere:
			continue
		case withoutRole:
			r.NeedRole = append(r.NeedRole, c.ID)
			continue
		}
		all.add(c, said)
	}
	r.Findings = all.findings
	return r
}
