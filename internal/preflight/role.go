package preflight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func (f *facts) role() (*awsapi.Role, *result) {
	// the check instance-profile fails
	if awsapi.IsNotFound(f.profile.err) && f.launch.err == nil && f.group.err == nil {
		return nil, &result{verdict: withoutRole}
	}
	if f.profile.err != nil {
		return nil, f.unseen(f.profile.err)
	}
	if f.profile.absent || f.profile.value.Role == nil && f.profile.value.Name == "" && f.target.Template != "" {
		return nil, &result{verdict: withoutRole}
	}
	if f.profile.value.Role == nil {
		return nil, &result{verdict: Unknown, evidence: "there is no role to check", remedy: f.addRole(), cause: noRole}
	}
	return f.profile.value.Role, nil
}

func ofRole(look func(*facts, *awsapi.Role) *result) func(*facts) *result {
	return func(f *facts) *result {
		role, not := f.role()
		if not != nil {
			return not
		}
		return look(f, role)
	}
}

func (f *facts) addRole() string {
	return "aws iam add-role-to-instance-profile --role-name ROLE --instance-profile-name " +
		cmp.Or(f.profile.value.Name, "PROFILE")
}

// noRole is the cause for checks of the role when there is none.
const noRole = "no role"

// checkProfile is one finding with the checks of the role when there is none.
func checkProfile(f *facts) *result {
	r := f.seenProfile()
	switch {
	case r.verdict != Fail:
	case f.profile.err != nil:
		return r.because(causeOf(f.profile.err))
	case f.profile.value.Role == nil:
		return r.because(noRole)
	}
	return r
}

func (f *facts) seenProfile() *result {
	named := f.launch.value.Profile[strings.LastIndex(f.launch.value.Profile, "/")+1:]
	role := f.profile.value.Role
	switch {
	case f.profile.absent:
		return &result{verdict: withoutRole}
	case f.launch.absent && f.profile.err == nil:
		return good("the role %s, as specified", role.Name)
	case f.managed() && named != "" && f.group.err == nil:
		return bad(f.seeTemplate(), "%s has the instance profile %s: EKS refuses it, as it makes one of the node "+
			"group's role", f.launch.value.From, named)
	case f.profile.err != nil:
		return f.noProfile(named)
	case f.managed(), f.target.NodeClass != nil && f.target.NodeClass.Role != "":
		return good("%s makes one with the role %s", f.maker(), role.Name)
	case named == "":
		return f.withoutProfile()
	case role == nil:
		return bad(f.addRole(), "the instance profile %s has no role", f.profile.value.Name)
	case f.target.Role != "" && f.target.Role[strings.LastIndex(f.target.Role, "/")+1:] != role.Name:
		return bad("aws iam get-instance-profile --instance-profile-name "+named,
			"the instance profile %s has the role %s, but --role names %s", f.profile.value.Name, role.Name,
			f.target.Role)
	}
	return good("%s with the role %s", f.profile.value.Name, role.Name)
}

// maker is who makes the instance profile of a role.
func (f *facts) maker() string {
	if f.managed() {
		return "EKS"
	}
	return "Karpenter"
}

// noProfile is the result when the instance profile or the role could not be read.
func (f *facts) noProfile(named string) *result {
	switch err := f.profile.err; {
	case !awsapi.IsNotFound(err) || f.launch.err != nil || f.group.err != nil:
		return f.unseen(err)
	case named == "" || f.target.NodeClass != nil && f.target.NodeClass.Role != "":
		return bad(f.createRole(f.namedRole()), "%v", err)
	default:
		return bad("aws iam get-role --role-name ROLE && aws iam create-instance-profile --instance-profile-name "+
			named+" && aws iam add-role-to-instance-profile --role-name ROLE --instance-profile-name "+named, "%v", err)
	}
}

// withoutProfile is the result when an instance or a launch template has no
// instance profile.
func (f *facts) withoutProfile() *result {
	const whose = "right for a managed node group (check it with --nodegroup), but self-managed nodes get no " +
		"credentials"
	from, role := f.launch.value.From, f.profile.value.Role
	add := f.newVersion(map[string]any{"IamInstanceProfile": map[string]string{"Name": "PROFILE"}})
	switch {
	case f.target.Instance != "":
		return bad("aws ec2 associate-iam-instance-profile --instance-id "+f.target.Instance+
			" --iam-instance-profile Name=PROFILE", "%s has no instance profile", from)
	case role != nil:
		return maybe(add, "%s has no instance profile: %s; the role is %s, as specified", from, whose, role.Name)
	}
	return bad(add, "%s has no instance profile: %s; --role names the role", from, whose)
}

// ec2Services are the names of EC2 in the trust policies of a partition. China has
// an own name in addition
// (https://docs.amazonaws.cn/en_us/IAM/latest/UserGuide/reference_policies_elements_principal.html).
func ec2Services(partition string) []string {
	return []string{clustersetup.EC2Service(partition), "ec2.amazonaws.com"}
}

func checkTrust(f *facts, role *awsapi.Role) *result {
	var p clustersetup.Document
	if err := json.Unmarshal([]byte(role.Trust), &p); err != nil {
		return f.unseen(fmt.Errorf("reading the trust policy of %s: %w", role.Name, err))
	}
	services := ec2Services(partition(role.ARN))
	missing, denied := p.Missing([]string{"sts:AssumeRole"}, func(s clustersetup.Statement) bool {
		return s.Principal.Is(services...)
	})
	if len(missing) == 0 && !denied {
		return good("%s trusts %s", role.Name, services[0])
	}
	return f.untrusted(role, denied)
}

func (f *facts) newRole() string { return f.createRole("NODE-ROLE") }

// createRole is the command that makes a role for nodes.
func (f *facts) createRole(name string) string {
	return "aws iam create-role --role-name " + name +
		` --assume-role-policy-document '{"Version":"2012-10-17","Statement":[` +
		`{"Effect":"Allow","Principal":{"Service":"` + clustersetup.EC2Service(f.partition()) +
		`"},"Action":"sts:AssumeRole"}]}'`
}

// namedRole is the name of the role that the target names, or a placeholder. A
// role's ARN with a path needs more than a name.
func (f *facts) namedRole() string {
	name := f.target.Role
	if c := f.target.NodeClass; c != nil && c.Role != "" {
		name = c.Role
	}
	if _, after, isARN := strings.Cut(name, ":role/"); isARN {
		name = after
	}
	if name == "" || strings.ContainsAny(name, ":/") {
		return "NODE-ROLE"
	}
	return name
}

// untrusted is the result when EC2 may not assume a role. IAM replaces trust
// policies only as a whole, so the remedy repeats the existing policy.
func (f *facts) untrusted(role *awsapi.Role, denied bool) *result {
	service := ec2Services(partition(role.ARN))[0]
	if denied {
		return bad("aws iam get-role --role-name "+role.Name+" --query Role.AssumeRolePolicyDocument",
			"%s does not trust %s: a statement denies it", role.Name, service)
	}
	text, err := clustersetup.Extended(role.Trust, map[string]any{
		"Effect": "Allow", "Principal": map[string]string{"Service": service}, "Action": "sts:AssumeRole",
	})
	if err != nil {
		return &result{verdict: Unknown, evidence: fmt.Sprintf("reading the trust policy of %s: %v", role.Name, err),
			remedy: f.newRole()}
	}
	return bad("aws iam update-assume-role-policy --role-name "+role.Name+" --policy-document "+show.ShellQuote(text),
		"%s does not trust %s", role.Name, service)
}

func checkRoleSeparate(f *facts, role *awsapi.Role) *result {
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case role.ARN == f.cluster.value.Role:
		return bad(f.newRole(), "both are %s", role.ARN)
	}
	return good("%s and %s", role.ARN, f.cluster.value.Role)
}
