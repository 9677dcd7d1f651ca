// Package preflight finds reasons why a node would not join its cluster before the
// node starts. It checks the cluster, the image, the launch template or instance,
// the role and the network together. It changes nothing.
package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "OK"
	Fail Verdict = "FAIL"
	// Warn means that the setup may or may not work; preflight cannot decide.
	Warn Verdict = "WARN"
	// Unknown means that the check could not run.
	Unknown Verdict = "UNKNOWN"

	// notHere is for checks of another kind of target. withoutRole is for checks of
	// a role when the target names none. Reports have neither.
	notHere, withoutRole Verdict = "-", "?"
)

// Finding is the result of one check.
type Finding struct {
	// Check, Cause and Question are those of the check.
	Check    string  `json:"check"`
	Cause    string  `json:"cause,omitempty"`
	Question string  `json:"question"`
	Verdict  Verdict `json:"verdict"`
	// Evidence is what the check found.
	Evidence string `json:"evidence"`
	// Remedy is a command, or empty when the check passed.
	Remedy string `json:"remedy,omitempty"`
	// Unchecked are further checks that could not run for the same reason.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Report is the result of a preflight.
type Report struct {
	Cluster string `json:"cluster"`
	// Target is what was checked, such as an instance or a launch template.
	Target   string    `json:"target"`
	Findings []Finding `json:"findings"`
	// LeftOut are the checks that do not apply to the target.
	LeftOut []string `json:"leftOut,omitempty"`
	// NeedRole are the checks that need a role, when the target names none.
	NeedRole []string `json:"needRole,omitempty"`
}

// Unchecked counts the checks that are no findings of their own, because they
// could not run for the reason of another.
func (r Report) Unchecked() int {
	n := 0
	for _, f := range r.Findings {
		n += len(f.Unchecked)
	}
	return n
}

// Count counts the findings of a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// result is the verdict of a check with its evidence.
type result struct {
	verdict          Verdict
	evidence, remedy string
	// cause identifies the reason why a check could not run, such as a missing
	// permission. Checks with the same cause are one finding.
	cause string
}

func good(format string, args ...any) *result {
	return &result{verdict: OK, evidence: fmt.Sprintf(format, args...)}
}

func bad(remedy, format string, args ...any) *result {
	return &result{verdict: Fail, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

func maybe(remedy, format string, args ...any) *result {
	return &result{verdict: Warn, evidence: fmt.Sprintf(format, args...), remedy: remedy}
}

// unseen is the result when the check's data could not be read, or nil without an
// error. The remedy runs the preflight again.
func (f *facts) unseen(errs ...error) *result {
	err := cmp.Or(errs...)
	if err == nil {
		return nil
	}
	r := &result{verdict: Unknown, evidence: err.Error(), remedy: f.target.command(""), cause: causeOf(err)}
	switch {
	case errors.As(err, new(*awsapi.DeniedError)):
		r.remedy = "eksnode preflight --policy" // the policy that the caller needs
	case awsapi.IsNotFound(err):
		// The resource usually exists in another region or account.
		r.remedy = "aws configure list && aws sts get-caller-identity"
	}
	return r
}

// because makes a result one finding with other results of the same cause.
func (r *result) because(cause string) *result {
	r.cause = cause
	return r
}

// causeOf identifies the reason of an error. Calls for different resources fail for
// the same reason when they need the same permission or the same host.
func causeOf(err error) string {
	var denied *awsapi.DeniedError
	var unreached *awsapi.UnreachedError
	switch {
	case errors.As(err, &denied):
		return "permission " + denied.Permission
	case errors.As(err, &unreached):
		return "host " + unreached.Host
	}
	return err.Error()
}

// collected puts the results of checks together. The first check of a cause, or the
// one that fails, names the others.
type collected struct {
	findings []Finding
	first    map[string]int // index of the first finding of a cause
}

func (c *collected) add(check Check, said *result) {
	one := Finding{Check: check.ID, Cause: check.Cause, Question: check.Question,
		Verdict: said.verdict, Evidence: said.evidence, Remedy: said.remedy}
	i, known := c.first[said.cause]
	switch {
	case !known || said.cause == "":
		c.first[said.cause] = len(c.findings)
		c.findings = append(c.findings, one)
	case said.verdict == Fail && c.findings[i].Verdict == Unknown: // this check explains the others
		one.Unchecked = append([]string{c.findings[i].Check}, c.findings[i].Unchecked...)
		c.findings[i] = one
	default:
		c.findings[i].Unchecked = append(c.findings[i].Unchecked, check.ID)
	}
}

// Check is one reason why nodes do not join.
type Check struct {
	// ID names the check in reports and pages.
	ID string
	// Cause is what diagnose calls the fault on a node that was started; empty without one.
	Cause string
	// Question is the check's question, in one sentence.
	Question string
	// Why says what happens to a node when the check fails.
	Why string

	// node says that the check needs the settings of nodes: an instance, a launch
	// template, a node group or an EC2NodeClass.
	node bool
	look func(*facts) *result
}

// Table lists the checks in the order in which a node depends on them.
func Table() []Check {
	return []Check{
		{"cluster", "cluster-name", "Is the cluster there and ready for nodes?", "a node needs the cluster's endpoint, certificate authority and network", false, checkCluster},
		{"endpoint-access", "blocked", "Can nodes reach the cluster's endpoint?", "without private access, nodes reach the cluster through its public endpoint", false, checkEndpointAccess},
		{"kubelet-version", "version-skew", "Does the kubelet fit the control plane?", "a kubelet may be up to three minor versions older, and never newer", false, checkKubelet},
		{"addons", "", "Do the add-ons fit?", "kube-proxy follows the same rule, and VPC CNI before 1.13.1 supports only one iptables mode", false, checkAddons},
		{"node-group", "node-group-issue", "Is the managed node group healthy?", "EKS starts no nodes for a node group with errors", true, checkNodeGroup},
		{"node-group-template", "launch", "Does the launch template fit a managed node group?", "EKS refuses some settings and needs others", true, checkGroupTemplate},
		{"node-class-selectors", "node-pool", "Do the EC2NodeClass's selectors find something?", "Karpenter starts no nodes without subnets, security groups and images", true, checkSelectors},
		{"node-class", "launch", "Does the EC2NodeClass fit the image and the cluster?", "EC2 refuses some block devices, and others are not the root volume", true, checkClass},
		{"instance-state", "", "Is the instance running and healthy?", "EC2 starts no system on an instance that has ended, or whose host or disk has a fault", false, checkInstanceState},
		{"image-state", "launch", "Is the image available and bootable?", "the image must be available and have an EBS root device", false, checkImageState},
		{"image-owner", "", "Is the image yours?",
			"anyone may publish images under any name", false, ofImage(checkImageOwner)},
		{"image-ena", "", "Does the image have ENA?", "current instance types have no other network device", false,
			ofImage(checkImageENA)},
		{"image-architecture", "architecture", "Is the image for the instance type's architecture?",
			"otherwise EC2 does not start the instance", true, ofImage(checkArchitecture)},
		{"instance-type", "launch", "Can the instance type boot the image?", "EC2 refuses an image whose boot mode, NitroTPM or virtualization the type does not support", false, checkTypeImage},
		{"instance-type-zone", "capacity", "Is the instance type offered in the subnets' zones?", "EC2 starts no instance in a zone without the type", false, checkTypeZone},
		{"instance-quota", "capacity", "Does the account's quota of vCPUs allow the instance type?",
			"EC2 ends the launch with VcpuLimitExceeded", false, checkQuota},
		{"instance-plan", "capacity", "Does the account's plan have the instance type?",
			"accounts on the free plan start only types of the free tier", false, checkPlan},
		{"spot-role", "spot-role", "Is the service-linked role of EC2 Spot there?",
			"without it and the right to create it, EC2 starts no Spot instances for Karpenter", false, checkSpotRole},
		{"disks", "launch", "Do the launch template's disks fit the image?", "EC2 refuses small disks, and a wrong device name makes a second disk", false, checkDisks},
		{"disk-keys", "kms-key", "Can the disks' KMS keys be used?", "instances whose key cannot be used end with Client.InternalError", false, checkKeys},
		{"cluster-tag", "provider-id", "Does the instance have the cluster's tag?", "the cloud controller ignores nodes without the tag", true, checkClusterTag},
		{"metadata", "metadata", "Is the instance's metadata service on?", "first boot reads user data, names and credentials from this service", true, checkMetadata},
		{"user-data", "node-config", "Is the user data for this cluster?", "the user data tells the node which cluster to join", true, checkUserData},
		{"instance-profile", "credentials", "Is there an instance profile with a role?", "without credentials the kubelet gets no token", false, checkProfile},
		{"role-trust", "credentials", "May EC2 assume the role?",
			"otherwise the instance gets no credentials", false, ofRole(checkTrust)},
		{"role-separate", "unauthorized", "Does the node's role differ from the cluster's?",
			"the authenticator refuses one role for both",
			false, ofRole(checkRoleSeparate)},
		{"policy-worker", "permissions", "May the role describe the cluster and its instances?",
			"the node needs the permissions of AmazonEKSWorkerNodePolicy to join", false,
			permits((*facts).workerNeeds, "", "AmazonEKSWorkerNodePolicy")},
		{"policy-cni", "network-plugin", "May the VPC CNI manage addresses?", "otherwise pods get no addresses; the VPC CNI may have its own role, by pod identity or IRSA", false, checkPolicyCNI},
		{"policy-registry", "registry", "May the role pull images?",
			"the pause image and the add-ons come from ECR", false,
			permits(func(f *facts) []need { return f.registryNeeds(f.simulated.value) }, "", clustersetup.RegistryPolicies...)},
		{"policy-ssm", "", "May Systems Manager reach the node?",
			"a person must inspect a node that does not join, and the image may not allow SSH", false,
			permits((*facts).ssmNeeds, "the node still joins, but Session Manager reaches it only with the account's default host management",
				clustersetup.SessionPolicies...)},
		{"access", "unauthorized", "Does the cluster accept the role?",
			"otherwise the API server answers Unauthorized", false,
			ofRole(checkAccess)},
		{"aws-auth", "role-groups", "Is aws-auth right?", "a wrong line keeps the node out or gives the node a wrong name", false, checkAWSAuth},
		{"subnet-vpc", "addresses", "Are the subnets in the cluster's VPC, with free addresses?", "nodes and pods get addresses from the subnets", false, checkSubnets},
		{"subnet-tag", "", "Do the subnets have the cluster's tag, where it is needed?", "clusters up to 1.18 need the tag", false, checkSubnetTag},
		{"security-group-443", "blocked", "Do security groups let nodes reach the API server?",
			"the kubelet registers over port 443",
			true,
			func(f *facts) *result { return f.path(f.nodeSide("the node"), f.planeSide(), port{"tcp", 443}) }},
		{"security-group-10250", "kubelet-port", "Do security groups let the API server reach the kubelet?",
			"logs, exec and metrics use port 10250", true,
			func(f *facts) *result { return f.path(f.planeSide(), f.nodeSide("the node"), port{"tcp", 10250}) }},
		{"security-group-nodes", "", "Do security groups let nodes reach each other?", "DNS and services run on other nodes", true, checkNodeToNode},
		{"network-acl", "blocked", "Do network ACLs allow the traffic between nodes and control plane?", "network ACLs filter traffic between subnets in addition to security groups, and replies need their own rule", false, checkACL},
		{"service-cidr", "", "Does the service network differ from the other networks?", "nodes send traffic for addresses of the service network to services, so other machines with such addresses are out of reach", false, checkServiceCIDR},
		{"subnet-ipv6", "addresses", "Do the subnets have IPv6, where it is needed?", "in an IPv6 cluster, nodes and pods have IPv6 addresses", false, checkIPv6},
		{"egress", "aws-api", "Can nodes reach AWS's services?", "nodes need EC2, ECR, S3 and STS, through a gateway or endpoints, and EKS when the user data has no endpoint and certificate authority", false, checkEgress},
		{"egress-ssm", "", "Can nodes reach Systems Manager?", "Session Manager needs ssm and ssmmessages, through a gateway or endpoints", false, checkEgressSSM},
		{"sts-region", "", "Is STS on in the region?", "nodes and pods get and use credentials at the STS endpoint of their region", false, checkSTS},
		{"vpc-dns", "dns", "Does the network resolve names?", "nodes find private endpoints by name", false, checkDNS},
		{"private-zones", "dns", "Do private hosted zones leave AWS's names alone?", "a private hosted zone of a VPC hides the public records of its domain", false, checkZones},
		{"dhcp-domain", "other-node", "Is the domain AWS's own?", "a node's name must be the private DNS name that EC2 assigns (amazon-eks-ami #1263 and #1376)", false, checkDomain},
	}
}

// published are the families of user data that EKS's own images read, and those built with
// its recipes, by their names.
var published = []struct {
	name     func() *regexp.Regexp
	families []string
}{
	{show.Regexp(`^amazon-eks-node-al2023-`), []string{"al2023"}},
	{show.Regexp(`^amazon-eks-(gpu-|arm64-)?node-[0-9]`), []string{"al2"}},
	{show.Regexp(`^bottlerocket-`), []string{"bottlerocket"}},
	{show.Regexp(`^Windows_Server-.*EKS_Optimized`), []string{"windows"}},
	{show.Regexp(`^ubuntu-eks/`), []string{"ubuntu", "al2"}},
}

// readBy returns the families that an image reads, or nil when they are unknown.
func readBy(i awsapi.Image) []string {
	for _, p := range published {
		if p.name().MatchString(i.Name) {
			return p.families
		}
	}
	switch _, own := i.Tags[awsapi.TagPrefix+"distro"]; {
	case i.Platform == "windows":
		return []string{"windows"}
	case own:
		return []string{"al2023", "al2", "ubuntu"}
	default:
		return nil
	}
}

// fits returns the fault when the image does not read this family of user data, or
// nil.
func (f *facts) fits(family string) *result {
	i := f.image.value
	if f.image.err != nil || f.image.absent {
		return nil
	}
	known := readBy(i)
	switch {
	case known == nil && family == "windows":
		return bad(f.userDataOf("al2023"), "the user data is for windows, but the image's platform is %q", i.Platform)
	case known == nil || slices.Contains(known, family):
		return nil
	case i.OwnerAlias == "" && i.Platform != "windows" && i.Tags[awsapi.TagPrefix+"distro"] == "":
		return maybe(f.userDataOf(known[0]), "the user data is for %s, but images named %s read %s", family, i.Name, strings.Join(known, ", "))
	}
	return bad(f.userDataOf(known[0]), "the user data is for %s, but %s (%s) reads %s", family, i.ID, i.Name, strings.Join(known, ", "))
}

func (f *facts) userDataOf(family string) string {
	return fmt.Sprintf("eksnode userdata render --family %s --cluster %s", family, f.target.Cluster)
}

// family is the best family for the image.
func (f *facts) family() string {
	if family := familyOf(f.group.value.AMIType); family != "" {
		return family
	}
	if known := readBy(f.image.value); known != nil {
		return known[0]
	}
	return "al2023"
}
