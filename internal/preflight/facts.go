package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// Target selects what preflight checks. Exactly one of Instance, Template and AMI
// is set.
type Target struct {
	Cluster  string
	Instance string
	// Template is the ID or name of a launch template. TemplateVersion is a number,
	// $Latest or $Default.
	Template, TemplateVersion string
	AMI                       string
	// Subnets are the subnets of future nodes. Empty means the subnets of the
	// instance or the cluster.
	Subnets []string
	// Kubelet is the image's kubelet version. Empty reads the image's tags.
	Kubelet string
	// AWSAuth is the ConfigMap aws-auth as kubectl prints it, or nil.
	AWSAuth []byte
}

// Validate returns the faults of the target.
func (t Target) Validate() error {
	if t.Cluster == "" {
		return errors.New("cluster: the name is missing")
	}
	named := 0
	for _, one := range []string{t.Instance, t.Template, t.AMI} {
		if one != "" {
			named++
		}
	}
	if named != 1 {
		return errors.New("name one of an instance, a launch template and an image")
	}
	return nil
}

func (t Target) String() string {
	switch {
	case t.Instance != "":
		return "instance " + t.Instance
	case t.Template != "":
		return fmt.Sprintf("launch template %s, version %s", t.Template, t.TemplateVersion)
	default:
		return "image " + t.AMI
	}
}

// command is the command for this preflight with further flags.
func (t Target) command(flags string) string {
	words := []string{"eksnode preflight --cluster", t.Cluster}
	switch {
	case t.Instance != "":
		words = append(words, "--instance", t.Instance)
	case t.Template != "":
		words = append(words, "--launch-template", t.Template, "--launch-template-version", "'"+t.TemplateVersion+"'")
	default:
		words = append(words, "--ami", t.AMI)
	}
	return strings.TrimSpace(strings.Join(append(words, flags), " "))
}

// KubernetesTag is the image's tag with the kubelet's version.
const KubernetesTag = "eksnode:kubernetes-version"

// fact is a value that was read, or the error of reading it.
type fact[T any] struct {
	value T
	err   error
	// absent says that the target has no such value.
	absent bool
}

func learn[T any](value T, err error) fact[T] { return fact[T]{value: value, err: err} }

// after reads a value that depends on another fact.
func after[T, O any](before fact[O], read func(O) fact[T]) fact[T] {
	if before.err != nil || before.absent {
		return fact[T]{err: before.err, absent: before.absent}
	}
	return read(before.value)
}

// facts are the data for all checks.
type facts struct {
	target        Target
	account       fact[string]
	cluster       fact[awsapi.Cluster]
	launch        fact[awsapi.Launch]
	image         fact[awsapi.Image]
	architectures fact[[]string]
	profile       fact[awsapi.Profile]
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

// gather reads all other data from AWS.
func gather(ctx context.Context, a *awsapi.AWS, t Target, account fact[string]) *facts {
	f := &facts{target: t, account: account}
	f.cluster = learn(a.Cluster(ctx, t.Cluster))
	image := t.AMI
	switch {
	case t.Instance != "":
		f.launch = learn(a.Instance(ctx, t.Instance))
	case t.Template != "":
		f.launch = learn(a.Template(ctx, t.Template, t.TemplateVersion))
	default:
		f.launch.absent = true
	}
	if image == "" {
		image = f.launch.value.Image
	}
	f.image = fact[awsapi.Image]{err: f.launch.err, absent: image == "" && f.launch.err == nil}
	if image != "" {
		f.image = learn(a.Image(ctx, image))
	}
	f.node(ctx, a)
	f.network(ctx, a)
	f.addons = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.Addon] { return learn(a.Addons(ctx, c.Name)) })
	return f
}

func (f *facts) node(ctx context.Context, a *awsapi.AWS) {
	f.architectures = after(f.launch, func(l awsapi.Launch) fact[[]string] {
		if l.Type == "" {
			return fact[[]string]{absent: true}
		}
		return learn(a.Architectures(ctx, l.Type))
	})
	f.profile = after(f.launch, func(l awsapi.Launch) fact[awsapi.Profile] {
		if l.Profile == "" {
			return fact[awsapi.Profile]{}
		}
		return learn(a.Profile(ctx, l.Profile))
	})
	f.entry = after(f.profile, func(p awsapi.Profile) fact[awsapi.AccessEntry] {
		// The mode CONFIG_MAP has no access entries, and EKS refuses the call.
		if p.Role == nil || f.cluster.err != nil || f.cluster.value.AuthenticationMode == configMap {
			return fact[awsapi.AccessEntry]{err: f.cluster.err}
		}
		entry, err := a.AccessEntry(ctx, f.target.Cluster, p.Role.ARN)
		if awsapi.IsNotFound(err) {
			err = nil
		}
		return learn(entry, err)
	})
	f.userData = after(f.launch, readUserData)
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
		if len(ids) == 0 && f.launch.value.Subnet != "" {
			ids = []string{f.launch.value.Subnet}
		}
		if len(ids) == 0 {
			ids = c.Subnets
		}
		return learn(a.Subnets(ctx, ids))
	})
	f.planeSubnets = after(f.cluster, func(c awsapi.Cluster) fact[[]awsapi.Subnet] { return learn(a.Subnets(ctx, c.Subnets)) })
	f.acls = after(f.subnets, func(nodes []awsapi.Subnet) fact[[]awsapi.ACL] {
		if f.planeSubnets.err != nil {
			return fact[[]awsapi.ACL]{err: f.planeSubnets.err}
		}
		var ids []string
		for _, s := range slices.Concat(nodes, f.planeSubnets.value) {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		return learn(a.ACLs(ctx, slices.Compact(ids)))
	})
	f.nodeGroups = after(f.launch, func(l awsapi.Launch) fact[[]awsapi.SecurityGroup] {
		if len(l.SecurityGroups) == 0 {
			return fact[[]awsapi.SecurityGroup]{}
		}
		return learn(a.SecurityGroups(ctx, l.SecurityGroups))
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
	if err := t.Validate(); err != nil {
		return Report{}, err
	}
	account, err := a.Account(ctx)
	if once(err) {
		return Report{}, err
	}
	f := gather(ctx, a, t, learn(account, err))
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("checking %s: %w", t, context.Cause(ctx))
	}
	return f.check(), nil
}

// check runs every check that applies to the facts.
func (f *facts) check() Report {
	r := Report{Cluster: f.target.Cluster, Target: f.target.String(), Findings: []Finding{}}
	for _, c := range Table() {
		if c.node && f.launch.absent {
			r.LeftOut = append(r.LeftOut, c.ID)
			continue
		}
		said := c.look(f)
		r.Findings = append(r.Findings, Finding{c.ID, c.Question, said.verdict, said.evidence, said.remedy})
	}
	return r
}
