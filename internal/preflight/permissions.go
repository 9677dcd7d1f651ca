package preflight

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// simulate is the permission with which preflight evaluates a role's policies
// instead of reading their names.
const simulate = "iam:SimulatePrincipalPolicy"

type need struct {
	awsapi.Question
	// verdict is the result when the permission is missing.
	verdict Verdict
}

func needs(verdict Verdict, resource string, actions ...string) []need {
	return show.Each(actions, func(a string) need {
		return need{awsapi.Question{Action: a, Resource: resource}, verdict}
	})
}

// arn is the ARN of a resource in the cluster's region and an account.
func (f *facts) arn(service, account, resource string) string {
	of := awsnames.Split(f.cluster.value.ARN)
	if of.Account == "" {
		return "*"
	}
	return strings.Join([]string{"arn", of.Partition, service, of.Region, cmp.Or(account, of.Account), resource}, ":")
}

// workerNeeds are for joining. User data with the cluster's details saves the call
// of DescribeCluster.
func (f *facts) workerNeeds() []need {
	list := needs(Fail, "*", "ec2:DescribeInstances")
	describe := Fail
	if c := f.userData.value.Cluster; c.Endpoint != "" && c.CA != "" || f.launch.absent || f.managed() ||
		f.target.NodeClass != nil {
		describe = Warn
	}
	list = append(list, needs(describe, f.cluster.value.ARN, "eks:DescribeCluster")...)
	switch {
	case f.cni.value.by == podIdentity: // without credentials, the VPC CNI gives pods no addresses
		list = append(list, needs(Fail, f.cluster.value.ARN, assumeForPods)...)
	case f.addon(podIdentityAgent) != nil:
		list = append(list, needs(Warn, f.cluster.value.ARN, assumeForPods)...)
	}
	return list
}

const (
	podIdentityAgent = "eks-pod-identity-agent"
	assumeForPods    = "eks-auth:AssumeRoleForPodIdentity"
	// eksRegistry is the account of EKS's images in most regions
	// (https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html).
	eksRegistry = "602401143452"
)

// pulls are the actions of containerd: AmazonEC2ContainerRegistryPullOnly has them.
func pulls() []string { return []string{"ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"} }

// registryNeeds are for pulling EKS's images. A role that may pull only from the
// account's own registry works with images that are mirrored there.
func (f *facts) registryNeeds(doubtful []awsapi.Decision) []need {
	own := f.arn("ecr", "", "repository/eks/pause")
	verdict := Fail
	if !slices.ContainsFunc(doubtful, func(d awsapi.Decision) bool { return d.Resource == own }) {
		verdict = Warn
	}
	return append(needs(Fail, "*", "ecr:GetAuthorizationToken"),
		needs(verdict, f.arn("ecr", eksRegistry, "repository/eks/pause"), pulls()...)...)
}

func (f *facts) ssmNeeds() []need {
	return append(needs(Warn, f.arn("ec2", "", "instance/i-0123456789abcdef0"), "ssm:UpdateInstanceInformation"),
		needs(Warn, "*", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel",
			"ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel")...)
}

// cniNeeds are what the VPC CNI does in a cluster of this IP family
// (https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html).
func (f *facts) cniNeeds() []need {
	networkInterface := f.arn("ec2", "", "network-interface/eni-0123456789abcdef0")
	if f.cluster.value.IPFamily == "ipv6" {
		addon := f.addon("vpc-cni")
		list := slices.DeleteFunc(needs(Warn, "*", clustersetup.IPv6Actions...), func(n need) bool {
			return addon != nil && isOlder(addon.Version, "v1.22.1") &&
				(n.Action == "ec2:DescribeSubnets" || n.Action == "ec2:DescribeSecurityGroups")
		})
		for i := range list {
			if list[i].Action == "ec2:AssignIpv6Addresses" {
				list[i].Resource = networkInterface
			}
		}
		return list
	}
	list := needs(Warn, "*", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeNetworkInterfaces")
	return append(list, needs(Warn, networkInterface, "ec2:AssignPrivateIpAddresses", "ec2:AttachNetworkInterface",
		"ec2:CreateNetworkInterface",
		"ec2:DeleteNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute", "ec2:UnassignPrivateIpAddresses")...)
}

func (f *facts) permissions(ctx context.Context, a *awsapi.AWS) {
	f.cni = after(f.cluster, func(awsapi.Cluster) fact[cni] { return f.cniOf(ctx, a) })
	f.simulated = after(f.profile, func(p awsapi.Profile) fact[[]awsapi.Decision] {
		if p.Role == nil {
			return fact[[]awsapi.Decision]{absent: true}
		}
		return f.simulate(ctx, a, p.Role.ARN, slices.Concat(f.workerNeeds(), f.registryNeeds(nil),
			needs(Warn, f.arn("ecr", "", "repository/eks/pause"), pulls()...), f.ssmNeeds(), f.cniNeeds()))
	})
	if own := f.cni.value.role; f.cni.err == nil && own != nil {
		f.cni.value.simulated = f.simulate(ctx, a, own.ARN, f.cniNeeds())
	}
}

func (f *facts) simulate(ctx context.Context, a *awsapi.AWS, role string, list []need) fact[[]awsapi.Decision] {
	if f.cluster.err != nil {
		return fact[[]awsapi.Decision]{err: f.cluster.err}
	}
	var questions []awsapi.Question
	for _, n := range list {
		if !slices.Contains(questions, n.Question) {
			questions = append(questions, n.Question)
		}
	}
	return learn(a.Simulate(ctx, role, map[string]string{"aws:RequestedRegion": a.Region,
		"aws:SecureTransport": "true"}, questions))
}

// grant is a managed policy that contains permissions, and what else may.
type grant struct {
	role      *awsapi.Role
	simulated fact[[]awsapi.Decision]
	needs     []need
	// otherwise says what may be true when the permissions are missing.
	otherwise string
	// names are the managed policies; remedies attach the first.
	names []string
}

const createPolicy = "aws iam create-policy"

// judge says whether a role has permissions. Without the permission to simulate
// policies, only their names decide.
func (f *facts) judge(g grant) *result {
	var denied *awsapi.DeniedError
	switch {
	case errors.As(g.simulated.err, &denied) && denied.Permission == simulate:
		return g.byName()
	case g.simulated.err != nil:
		return f.unseen(g.simulated.err)
	}
	verdict := OK
	var missing []awsapi.Decision
	for _, d := range g.simulated.value {
		i := slices.IndexFunc(g.needs, func(n need) bool { return n.Question == d.Question })
		switch {
		case i < 0:
			continue
		case len(d.Missing) > 0 && !d.Denied && verdict != Fail:
			verdict = Warn
		case g.needs[i].verdict == Fail, verdict == Fail:
			verdict = Fail
		default:
			verdict = Warn
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return good("%s", g.permits())
	}
	said := fmt.Sprintf("%s lacks %s", g.role.Name, reasons(missing))
	if g.otherwise != "" {
		said += "; " + g.otherwise
	}
	return &result{verdict: verdict, evidence: said, remedy: g.remedy(missing)}
}

func (g grant) permits() string {
	for _, name := range g.names {
		if slices.Contains(g.role.Policies, name) {
			return g.role.Name + " has " + name
		}
	}
	actions := show.Each(g.needs, func(n need) string { return n.Action })
	return fmt.Sprintf("%s has %s, by its own policies", g.role.Name, strings.Join(actions, ", "))
}

// byName looks for managed policies by their names.
func (g grant) byName() *result {
	const unsure = "preflight sees permissions of other policies only with " + simulate
	for _, name := range g.names {
		if slices.Contains(g.role.Policies, name) {
			return good("%s has %s; %s would also show denials", g.role.Name, name, simulate)
		}
	}
	said := fmt.Sprintf("%s has no policy %s", g.role.Name, strings.Join(g.names, " or "))
	if g.otherwise != "" {
		said += "; " + g.otherwise
	}
	return maybe(g.attach(), "%s; %s", said, unsure)
}

func reasons(missing []awsapi.Decision) string {
	var order []string
	actions := map[string][]string{}
	for _, d := range missing {
		why := ""
		switch {
		case d.Organization:
			why = "a policy of the organization does not allow it"
		case d.Denied:
			why = "a statement denies it"
		case d.Boundary:
			why = "the permissions boundary does not allow it"
		case len(d.Missing) > 0:
			why = "the condition keys " + strings.Join(d.Missing, ", ") + " decide, and the simulation does not " +
				"know them"
		}
		if actions[why] == nil {
			order = append(order, why)
		}
		if !slices.Contains(actions[why], d.Action) {
			actions[why] = append(actions[why], d.Action)
		}
	}
	var list []string
	for _, why := range order {
		said := strings.Join(actions[why], ", ")
		if why != "" {
			said += " (" + why + ")"
		}
		list = append(list, said)
	}
	return strings.Join(list, " and ")
}

// remedy attaches the managed policy, or shows the reason where an additional
// policy does not help.
func (g grant) remedy(missing []awsapi.Decision) string {
	for _, d := range missing {
		if d.Organization || d.Denied || d.Boundary || len(d.Missing) > 0 {
			return fmt.Sprintf("aws iam simulate-principal-policy --policy-source-arn %s --action-names %s "+
				"--resource-arns %s", g.role.ARN, d.Action, show.ShellWord(d.Resource))
		}
	}
	return g.attach()
}

// attach gives the role the first policy. The account has that for IPv6, and AWS the others.
func (g grant) attach() string {
	owner, create := "aws", ""
	if g.names[0] == clustersetup.IPv6Policy {
		owner = awsnames.Split(g.role.ARN).Account
		create = fmt.Sprintf("%s --policy-name %s --policy-document %s && ", createPolicy, g.names[0],
			show.ShellQuote(clustersetup.IPv6Document(partition(g.role.ARN))))
	}
	return fmt.Sprintf("%saws iam attach-role-policy --role-name %s --policy-arn arn:%s:iam::%s:policy/%s", create,
		g.role.Name, partition(g.role.ARN), owner, g.names[0])
}

// permits is a check of the role's permissions for some needs.
func permits(needs func(*facts) []need, note string, policies ...string) func(*facts) *result {
	return ofRole(func(f *facts, role *awsapi.Role) *result {
		return f.judge(grant{role, f.simulated, needs(f), note, policies})
	})
}

//go:embed actions.txt
var actions string

// Actions are the permissions that a preflight needs, and no others. A test
// compares them with its calls.
func Actions() []string { return strings.Fields(actions) }

// Policy is the IAM policy with those permissions.
func Policy() (string, error) { return awsapi.Policy("EksnodePreflight", Actions()) }
