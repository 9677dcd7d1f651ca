package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// role returns the node's role, or the result to report when it is unknown.
func (f *facts) role() (*awsapi.Role, *result) {
	if f.profile.err != nil {
		r := f.unseen(f.profile.err)
		return nil, &r
	}
	if f.profile.value.Role == nil {
		r := bad(f.addRole(), "there is no role to check")
		return nil, &r
	}
	return f.profile.value.Role, nil
}

// addRole is the command that adds a role to the instance profile.
func (f *facts) addRole() string {
	name := f.profile.value.Name
	if name == "" {
		name = "PROFILE"
	}
	return "aws iam add-role-to-instance-profile --role-name ROLE --instance-profile-name " + name
}

func checkProfile(f *facts) result {
	named := f.launch.value.Profile[strings.LastIndex(f.launch.value.Profile, "/")+1:]
	switch {
	case f.profile.err != nil && awsapi.IsNotFound(f.profile.err):
		return bad("aws iam create-instance-profile --instance-profile-name "+named+" && aws iam add-role-to-instance-profile --role-name ROLE --instance-profile-name "+named,
			"%v", f.profile.err)
	case f.profile.err != nil:
		return f.unseen(f.profile.err)
	case named == "" && f.target.Instance != "":
		return bad("aws ec2 associate-iam-instance-profile --instance-id "+f.target.Instance+" --iam-instance-profile Name=PROFILE", "%s has no instance profile", f.launch.value.From)
	case named == "":
		return bad(f.newVersion(map[string]any{"IamInstanceProfile": map[string]string{"Name": "PROFILE"}}), "%s has no instance profile", f.launch.value.From)
	case f.profile.value.Role == nil:
		return bad(f.addRole(), "the instance profile %s has no role", f.profile.value.Name)
	}
	return good("%s with the role %s", f.profile.value.Name, f.profile.value.Role.Name)
}

// oneOrMore is a JSON value that IAM writes as one value or as a list.
type oneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	var one T
	if json.Unmarshal(text, &one) == nil {
		*o = []T{one}
		return nil
	}
	return json.Unmarshal(text, (*[]T)(o))
}

// principal is the principal of a statement: services, others or everybody.
type principal struct{ services oneOrMore[string] }

// UnmarshalJSON implements json.Unmarshaler.
func (p *principal) UnmarshalJSON(text []byte) error {
	var everybody string
	if json.Unmarshal(text, &everybody) == nil {
		if everybody == "*" {
			p.services = []string{"*"}
		}
		return nil
	}
	var kinds struct{ Service oneOrMore[string] }
	err := json.Unmarshal(text, &kinds)
	p.services = kinds.Service
	return err
}

// ec2 says whether the principal is EC2, under its names in all partitions.
func (p principal) ec2() bool {
	return slices.ContainsFunc(p.services, func(name string) bool {
		return name == "*" || name == "ec2.amazonaws.com" || name == "ec2.amazonaws.com.cn"
	})
}

const trustEC2 = `'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`

func checkTrust(f *facts) result {
	role, not := f.role()
	if not != nil {
		return *not
	}
	var policy struct {
		Statement oneOrMore[struct {
			Effect    string
			Action    oneOrMore[string]
			Principal principal
		}]
	}
	if err := json.Unmarshal([]byte(role.Trust), &policy); err != nil {
		return f.unseen(fmt.Errorf("reading the trust policy of %s: %w", role.Name, err))
	}
	lets, denied := false, false
	for _, s := range policy.Statement {
		assume := slices.ContainsFunc(s.Action, func(a string) bool { return strings.EqualFold(a, "sts:AssumeRole") || a == "sts:*" || a == "*" })
		if assume && s.Principal.ec2() {
			denied = denied || s.Effect == "Deny"
			lets = lets || s.Effect == "Allow"
		}
	}
	if lets && !denied {
		return good("%s trusts ec2.amazonaws.com", role.Name)
	}
	return untrusted(role, denied)
}

// newRole is the command that makes a role for nodes alone.
const newRole = "aws iam create-role --role-name NODE-ROLE --assume-role-policy-document " + trustEC2

// untrusted is the result when EC2 may not assume a role. IAM replaces trust
// policies only as a whole, so the remedy repeats the existing policy.
func untrusted(role *awsapi.Role, denied bool) result {
	if denied {
		return bad("aws iam get-role --role-name "+role.Name+" --query Role.AssumeRolePolicyDocument", "%s does not trust ec2.amazonaws.com: a statement denies it", role.Name)
	}
	var has, ec2 struct {
		Version   string `json:",omitempty"`
		ID        string `json:"Id,omitempty"`
		Statement oneOrMore[map[string]any]
	}
	if err := errors.Join(json.Unmarshal([]byte(role.Trust), &has), json.Unmarshal([]byte(strings.Trim(trustEC2, "'")), &ec2)); err != nil {
		return result{verdict: Unknown, evidence: fmt.Sprintf("reading the trust policy of %s: %v", role.Name, err), remedy: newRole}
	}
	has.Statement = slices.DeleteFunc(has.Statement, func(s map[string]any) bool { return s == nil }) // null in the JSON
	has.Statement = append(has.Statement, ec2.Statement...)
	if has.Version == "" && len(has.Statement) == 1 {
		has.Version = ec2.Version
	}
	text, err := json.Marshal(has)
	if err != nil {
		return result{verdict: Unknown, evidence: fmt.Sprintf("writing the trust policy of %s: %v", role.Name, err), remedy: newRole}
	}
	return bad("aws iam update-assume-role-policy --role-name "+role.Name+" --policy-document "+quote(string(text)), "%s does not trust ec2.amazonaws.com", role.Name)
}

func checkRoleSeparate(f *facts) result {
	role, not := f.role()
	switch {
	case not != nil:
		return *not
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case role.ARN == f.cluster.value.Role:
		return bad(newRole, "both are %s", role.ARN)
	}
	return good("%s and %s", role.ARN, f.cluster.value.Role)
}

// policies looks for one of several policies.
func (f *facts) policies(verdict Verdict, otherwise string, names ...string) result {
	role, not := f.role()
	if not != nil {
		return *not
	}
	for _, name := range names {
		if slices.Contains(role.Policies, name) {
			return good("%s has %s", role.Name, name)
		}
	}
	partition := "aws"
	if parts := strings.Split(role.ARN, ":"); len(parts) > 1 && parts[1] != "" {
		partition = parts[1]
	}
	return result{verdict: verdict, evidence: fmt.Sprintf("%s has no policy %s; %s", role.Name, strings.Join(names, " or "), otherwise),
		remedy: fmt.Sprintf("aws iam attach-role-policy --role-name %s --policy-arn arn:%s:iam::aws:policy/%s", role.Name, partition, names[0])}
}

const ownPolicy = "preflight does not recognize a custom policy with the same permissions"

func checkPolicyWorker(f *facts) result {
	return f.policies(Fail, ownPolicy, "AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy")
}

func checkPolicyCNI(f *facts) result {
	if f.cluster.value.IPFamily == "ipv6" {
		r := f.policies(Warn, "AWS has no managed policy for IPv6: create a policy for this role or for the VPC CNI's own role", "AmazonEKS_CNI_IPv6_Policy")
		if r.verdict == Warn {
			r.remedy = fmt.Sprintf("eksnode manifests --cluster %s --role %s --only policies | sh", f.target.Cluster, f.profile.value.Role.ARN)
		}
		return r
	}
	return f.policies(Warn, "the VPC CNI's own role may have it", "AmazonEKS_CNI_Policy")
}

func checkPolicyRegistry(f *facts) result {
	return f.policies(Fail, ownPolicy, "AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryFullAccess")
}

func checkPolicySSM(f *facts) result {
	return f.policies(Warn, "the node still joins, but Session Manager reaches it only with the account's default host management",
		"AmazonSSMManagedInstanceCore", "AmazonSSMManagedEC2InstanceDefaultPolicy", "AmazonEC2RoleforSSM")
}
