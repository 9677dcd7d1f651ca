package clustersetup

import (
	"fmt"
	"slices"
	"strings"
)

// ec2Service is the principal of EC2 in a partition
// (https://github.com/eksctl-io/eksctl/blob/main/pkg/apis/eksctl.io/v1alpha5/partitions.go).
func ec2Service(partition string) string {
	names := map[string]string{"aws-cn": "ec2.amazonaws.com.cn", "aws-iso": "ec2.c2s.ic.gov", "aws-iso-b": "ec2.sc2s.sgov.gov"}
	if name := names[partition]; name != "" {
		return name
	}
	return "ec2.amazonaws.com"
}

// alternatives are AWS's managed policies for the nodes' role. The first of a line is
// attached where the role has none of the line.
var alternatives = [][]string{
	{"AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy"},
	{"AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryFullAccess"},
}

var sessionManager = []string{"AmazonSSMManagedInstanceCore", "AmazonSSMManagedEC2InstanceDefaultPolicy", "AmazonEC2RoleforSSM"}

// foreign says that the role is in another account than the cluster.
func (n Node) foreign() bool {
	_, account, _ := n.role()
	return n.Found.Account != "" && n.Found.Account != account
}

// inOtherAccount names the account in which a script must run.
func (n Node) inOtherAccount(s *script) {
	if _, account, _ := n.role(); n.foreign() {
		s.comment("The role is in the account %s, and the cluster is in %s. Nothing was read there. Run the commands with credentials of %s.", account, n.Found.Account, account)
	}
}

// profileName is the name of the nodes' instance profile.
func (n Node) profileName() string {
	_, _, name := n.role()
	switch {
	case n.Profile != "":
		return n.Profile
	case n.Found.Role != nil && len(n.Found.Role.Profiles) > 0:
		return n.Found.Role.Profiles[0]
	}
	return name
}

// trust adds what lets a service assume a role: a new role, or a statement in the
// trust policy of an existing one.
func (s *script) trust(found *Role, name, path, service string, actions ...string) error {
	ours := allow("Principal", map[string]string{"Service": service}, actions...)
	if found == nil || !found.Exists {
		words := []string{"aws", "iam", "create-role", "--role-name", name}
		if path != "" {
			words = append(words, "--path", path)
		}
		s.run(append(words, "--assume-role-policy-document", newDocument(ours))...)
		s.run("aws", "iam", "wait", "role-exists", "--role-name", name)
		return nil
	}
	d, err := readDocument(found.Trust)
	if err != nil {
		return fmt.Errorf("reading the trust policy of the role %s: %w", name, err)
	}
	missing, denied := d.missing(actions, func(one statement) bool { return one.trusts(service) })
	switch {
	case denied:
		return blocked("the trust policy of the role %s denies %s to %s: see `aws iam get-role --role-name %s`, or use another role", name, strings.Join(actions, " and "), service, name)
	case len(missing) == 0:
		return nil
	}
	text, err := d.with(ours)
	if err != nil {
		return fmt.Errorf("writing the trust policy of the role %s: %w", name, err)
	}
	s.comment("The role exists. Its trust policy keeps its statements and gets one for %s.", service)
	s.run("aws", "iam", "update-assume-role-policy", "--role-name", name, "--policy-document", text)
	return nil
}

func writeRole(n Node) (string, error) {
	partition, _, name := n.role()
	var s script
	n.inOtherAccount(&s)
	if err := s.trust(n.Found.Role, name, n.path(), ec2Service(partition), "sts:AssumeRole"); err != nil {
		return "", err
	}
	profile := n.profileName()
	add := func() {
		s.run("aws", "iam", "add-role-to-instance-profile", "--instance-profile-name", profile, "--role-name", name)
	}
	switch there := n.Found.Profile; {
	case n.Found.Role != nil && slices.Contains(n.Found.Role.Profiles, profile):
	case there != nil && there.Role == name:
	case there != nil && there.Role != "":
		return "", blocked("the instance profile %s has the role %s, which instances may use: name another one with --instance-profile", profile, there.Role)
	case there != nil && there.Exists:
		add()
	default:
		s.run("aws", "iam", "create-instance-profile", "--instance-profile-name", profile)
		s.run("aws", "iam", "wait", "instance-profile-exists", "--instance-profile-name", profile)
		add()
	}
	return s.done("the role %s trusts EC2, and the instance profile %s has the role.", name, profile), nil
}

// has says whether a role has one of several policies.
func (r *Role) has(names ...string) bool {
	return r != nil && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.Policies, name) })
}

func (s *script) attach(role, policy string) {
	s.run("aws", "iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
}

func writePolicies(n Node) (string, error) {
	partition, _, name := n.role()
	var s script
	n.inOtherAccount(&s)
	needed := alternatives
	if n.SSM {
		needed = append(slices.Clone(needed), sessionManager)
	}
	for _, names := range needed {
		if !n.Found.Role.has(names...) {
			s.attach(name, "arn:"+partition+":iam::aws:policy/"+names[0])
		}
	}
	if n.CNIOnNode {
		if err := n.cniPolicy(&s, name, n.Found.Role); err != nil {
			return "", err
		}
	}
	return s.done("the role %s has the policies.", name), nil
}
