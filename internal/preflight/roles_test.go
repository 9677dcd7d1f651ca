package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// grouped returns the sample as a managed node group with an image of its own.
func grouped() *facts {
	f := templated()
	f.target = Target{Cluster: "my-cluster", NodeGroup: "workers"}
	f.launch.value.Profile = ""
	f.profile.value = awsapi.Profile{Role: f.profile.value.Role}
	f.group = known(awsapi.NodeGroup{
		Name: "workers", Status: "ACTIVE", Role: nodeRole, Subnets: []string{"subnet-1", "subnet-2"}, AMIType: custom,
		Template: "lt-1", TemplateVersion: "1", Capacity: "ON_DEMAND", Min: 1, Desired: 2, Max: 3,
	})
	return f
}

// eksImage returns a managed node group with an image of EKS.
func eksImage() *facts {
	f := grouped()
	g := &f.group.value
	g.AMIType, g.Version, g.Release = "AL2023_x86_64_STANDARD", "1.34", "1.34.1-20251002"
	f.launch.value.Image, f.launch.value.UserData = "", nil
	f.image, f.userData = fact[awsapi.Image]{absent: true}, fact[userdata.Report]{}
	return f
}

// classed returns the sample as an EC2NodeClass.
func classed(t *testing.T) *facts {
	t.Helper()
	f := templated()
	c, err := ReadNodeClass("class.yaml", []byte(minimal))
	require.NoError(t, err)
	f.target = Target{Cluster: "my-cluster", NodeClass: c}
	f.profile.value = awsapi.Profile{Role: f.profile.value.Role}
	f.selected = selected{
		subnets: known([]string{"subnet-1", "subnet-2"}), groups: known([]string{"sg-cluster"}), image: f.image,
		found: []string{"subnet-1 subnet-2", "sg-cluster", f.image.value.ID},
	}
	f.launch = known(c.launch(f.selected, "my-cluster"))
	f.userData = c.userData()
	return f
}

func TestGroupsAndClassesPass(t *testing.T) {
	for name, f := range map[string]*facts{"own image": grouped(), "EKS's image": eksImage(), "a class": classed(t)} {
		r := f.check()
		for _, finding := range r.Findings {
			assert.Equal(t, OK, finding.Verdict, "%s: %s: %s", name, finding.Check, finding.Evidence)
			assert.NotEmpty(t, finding.Evidence, finding.Check)
		}
		assert.Empty(t, r.LeftOut, name)
		assert.Empty(t, r.NeedRole, name)
	}
}

// useClass makes the target another EC2NodeClass.
func (f *facts) useClass(t *testing.T, text string) {
	t.Helper()
	c, err := ReadNodeClass("class.yaml", []byte(text))
	require.NoError(t, err)
	f.target.NodeClass = c
	f.launch.value.NoMetadata = c.Metadata.Endpoint == "disabled"
	f.launch.value.UserData, f.userData = []byte(c.UserData), c.userData()
}

func TestARoleOfAnotherAccountIsRefused(t *testing.T) {
	assert.EqualError(t, Target{Role: "arn:aws:iam::123456789012:role/node"}.fitsAccount("210987654321"),
		"role: arn:aws:iam::123456789012:role/node belongs to the account 123456789012, but the credentials are for "+
			"210987654321; instances can use only roles of their own account")
	assert.NoError(t, Target{Role: "arn:aws:iam::123456789012:role/node"}.fitsAccount("123456789012"))
}

func TestCommandsRepeatTheTarget(t *testing.T) {
	for want, target := range map[string]Target{
		"eksnode preflight --cluster a --nodegroup g":                                                       {Cluster: "a", NodeGroup: "g"},
		"eksnode preflight --cluster a --ami ami-1 --role node --subnet subnet-1,subnet-2":                  {Cluster: "a", AMI: "ami-1", Role: "node", Subnets: []string{"subnet-1", "subnet-2"}},
		"eksnode preflight --cluster a --launch-template lt-1 --launch-template-version '$Latest' --role r": {Cluster: "a", Template: "lt-1", TemplateVersion: "$Latest", Role: "r"},
	} {
		assert.Equal(t, want, target.command(""))
	}
}

// EC2 has another name in China's trust policies.
func TestPartitionsAreRespected(t *testing.T) {
	china := strings.Replace(nodeRole, "arn:aws:", "arn:aws-cn:", 1)
	f := sample()
	f.profile.value.Role.ARN = china
	assert.Equal(t, OK, found(t, f, "role-trust").Verdict, "IAM in China accepts ec2.amazonaws.com too")
	f.profile.value.Role.Trust = strings.Replace(ec2Trust, "ec2.amazonaws.com", "ec2.amazonaws.com.cn", 1)
	assert.Equal(t, OK, found(t, f, "role-trust").Verdict)
	f.profile.value.Role.Trust = `{"Statement":[]}`
	said := found(t, f, "role-trust")
	assert.Equal(t, "node does not trust ec2.amazonaws.com.cn", said.Evidence)
	assert.Contains(t, said.Remedy, `"Service":"ec2.amazonaws.com.cn"`)
	f = sample()
	f.profile.value.Role.Trust = strings.Replace(ec2Trust, "ec2.amazonaws.com", "ec2.amazonaws.com.cn", 1)
	assert.Equal(t, Fail, found(t, f, "role-trust").Verdict, "only China has this name")
	for _, partition := range []string{"aws-cn", "aws-us-gov"} {
		f := sample()
		f.profile.value.Role.ARN = strings.Replace(nodeRole, "arn:aws:", "arn:"+partition+":", 1)
		f.simulated = lacking(f, "ec2:DescribeInstances")
		assert.Contains(t, found(t, f, "policy-worker").Remedy, "--policy-arn arn:"+partition+":iam::aws:policy/AmazonEKSWorkerNodePolicy")
	}
	f = sample()
	f.cluster.value.ARN = "arn:aws-us-gov:eks:us-gov-west-1:123456789012:cluster/my-cluster"
	assert.Equal(t, "arn:aws-us-gov:ecr:us-gov-west-1:123456789012:repository/eks/pause", f.arn("ecr", "", "repository/eks/pause"))
	assert.Equal(t, "arn:aws-us-gov:iam::123456789012:oidc-provider/", f.provider())
}

// In China, the names of some endpoint services begin with cn.
func TestEndpointServicesOfChinaHaveTheirNames(t *testing.T) {
	for partition, region := range map[string]string{"aws": "eu-west-1", "aws-us-gov": "us-gov-west-1", "aws-cn": "cn-north-1"} {
		f := sample()
		f.cluster.value.ARN = "arn:" + partition + ":eks:" + region + ":123456789012:cluster/my-cluster"
		for i := range f.subnets.value {
			f.subnets.value[i].Routes = nil
		}
		said, session := found(t, f, "egress"), found(t, f, "egress-ssm")
		prefix := map[string]string{"aws-cn": "cn."}[partition]
		for _, service := range []string{"ec2", "ecr.api", "ecr.dkr", "sts"} {
			assert.Contains(t, said.Evidence, " "+prefix+"com.amazonaws."+region+"."+service, partition)
		}
		assert.Contains(t, said.Evidence, " com.amazonaws."+region+".s3", partition)
		assert.Contains(t, said.Remedy, "--service-name "+prefix+"com.amazonaws."+region+".ec2 ", partition)
		assert.Contains(t, session.Remedy, "--service-name com.amazonaws."+region+".ssm ", partition)
	}
}

// Without the simulation, names can say yes, but not no.
func TestNamesOfPoliciesDecideWithoutTheSimulation(t *testing.T) {
	f := sample()
	f.simulated.err = &awsapi.DeniedError{Permission: simulate}
	r := f.check()
	assert.Empty(t, faults(r))
	assert.Equal(t, "node has AmazonEKSWorkerNodePolicy; iam:SimulatePrincipalPolicy would also show denials", found(t, f, "policy-worker").Evidence)
	f.profile.value.Role.Policies = []string{"own", "AmazonEKSWorkerNodeMinimalPolicy"}
	for _, check := range []string{"policy-worker", "policy-registry", "policy-cni", "policy-ssm"} {
		said := found(t, f, check)
		assert.Equal(t, Warn, said.Verdict, check)
		assert.Contains(t, said.Evidence, "preflight sees permissions of other policies only with iam:SimulatePrincipalPolicy")
		assert.NoError(t, cli.Check(said.Remedy))
	}
}

// An IPv6 cluster needs other permissions for the VPC CNI.
func TestIPv6NeedsItsOwnPermissions(t *testing.T) {
	f := sample()
	f.cluster.value.IPFamily = "ipv6"
	f.simulated = lacking(f, "ec2:AssignIpv6Addresses")
	said := found(t, f, "policy-cni")
	assert.Equal(t, Warn, said.Verdict)
	assert.Contains(t, said.Evidence, "node lacks ec2:AssignIpv6Addresses; AWS has no managed policy for IPv6")
	assert.Equal(t, "eksnode manifests --cluster my-cluster --role "+nodeRole+" --only cni-role | sh", said.Remedy)
	f.cluster.value.IPFamily = "ipv4"
	assert.Equal(t, OK, found(t, f, "policy-cni").Verdict)
	for action, since := range map[string]string{
		"ec2:DescribeTags": "v1.20.4", "ec2:DescribeSubnets": "v1.22.1", "ec2:DescribeSecurityGroups": "v1.22.1",
	} {
		f := sample()
		f.cluster.value.IPFamily, f.addon("vpc-cni").Version = "ipv6", since
		f.simulated = lacking(f, action)
		assert.Contains(t, found(t, f, "policy-cni").Evidence, "node lacks "+action)
	}
	f = sample()
	f.cluster.value.IPFamily = "ipv6"
	assert.NotContains(t, fmt.Sprint(f.cniNeeds()), "ec2:DescribeSubnets", "only newer releases need it")
	f.addons.value = append(f.addons.value, awsapi.Addon{Name: podIdentityAgent, Status: "ACTIVE"})
	trust := strings.NewReplacer("ec2.", "pods.eks.", `"sts:AssumeRole"`, `["sts:AssumeRole","sts:TagSession"]`)
	f.cni.value = cni{by: podIdentity, role: &awsapi.Role{Name: "own", ARN: nodeRole, Trust: trust.Replace(ec2Trust)},
		simulated: lacking(f, "ec2:AssignIpv6Addresses")}
	said = found(t, f, "policy-cni")
	assert.Equal(t, "own lacks ec2:AssignIpv6Addresses, by pod identity", said.Evidence)
	assert.NoError(t, cli.Check(said.Remedy), said.Remedy)
	assert.Regexp(t, "^aws iam create-policy --policy-name AmazonEKS_CNI_IPv6_Policy .* && aws iam attach-role-policy "+
		"--role-name own --policy-arn arn:aws:iam::123456789012:policy/AmazonEKS_CNI_IPv6_Policy$", said.Remedy)
}

func TestTrustOfTheCNIsRole(t *testing.T) {
	const issuer = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"
	statement := func(provider, sub, aud string) string {
		return `{"Statement":{"Effect":"Allow","Principal":{"Federated":"` + provider + `"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringLike":{"` + issuer + `:sub":"` + sub + `"},"StringEquals":{"` + issuer + `:aud":["` + aud + `"]}}}}`
	}
	provider := "arn:aws:iam::123456789012:oidc-provider/" + issuer
	further := func(condition string) string {
		return strings.Replace(statement(provider, cniAccount, audience), `"Condition":{`, `"Condition":{`+condition+`,`, 1)
	}
	const sub = issuer + ":sub"
	for trust, want := range map[string]string{
		statement(provider, cniAccount, audience):                                   "",
		statement(provider, "system:serviceaccount:*:aws-*", audience):              "",
		statement(provider, "system:serviceaccount:default:aws-node", audience):     "demands " + issuer + ":sub to be system:serviceaccount:default:aws-node, but the VPC CNI has " + cniAccount,
		statement(provider, cniAccount, "other"):                                    "demands " + issuer + ":aud to be other, but the VPC CNI has sts.amazonaws.com",
		statement(strings.Replace(provider, "ABC", "ABD", 1), cniAccount, audience): "does not trust " + provider + " for sts:AssumeRoleWithWebIdentity",
		ec2Trust:                          "does not trust " + provider + " for sts:AssumeRoleWithWebIdentity",
		statement(provider, "x", "other"): "demands " + sub + " to be x, but the VPC CNI has " + cniAccount,
		further(`"ForAnyValue:StringEqualsIfExists":{"` + sub + `":"` + cniAccount + `"}`): "",
		further(`"ForAllValues:StringLike":{"` + sub + `":"system:*"}`):                    "",
		further(`"StringEqualsIfExists":{"` + sub + `":"system:serviceaccount:*"}`):        "demands " + sub + " to be system:serviceaccount:*, but the VPC CNI has " + cniAccount,
		further(`"StringNotEquals":{"` + sub + `":"system:serviceaccount:default:x"}`):     "has the condition StringNotEquals for " + sub + ", which preflight cannot judge",
		further(`"StringNotLike":{"` + sub + `":"system:serviceaccount:kube-system:*"}`):   "has the condition StringNotLike for " + sub + ", which preflight cannot judge",
		further(`"Null":{"` + sub + `":"false"}`):                                          "has the condition Null for " + sub + ", which preflight cannot judge",
	} {
		f := sample()
		f.cluster.value.Issuer = "https://" + issuer
		for range 20 { // maps have another order each time
			fault, judged := f.webFault(&awsapi.Role{Name: "cni", Trust: trust})
			assert.Equal(t, want, fault, trust)
			assert.NotEqual(t, judged, strings.Contains(want, "cannot judge"), trust)
		}
	}
	for trust, want := range map[string]bool{
		`{"Statement":{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}}`: true,
		`{"Statement":{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":"sts:*"}}`:                             true,
		`{"Statement":{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":"sts:AssumeRole"}}`:                    false,
		ec2Trust: false,
		"{":      false,
	} {
		assert.Equal(t, want, clustersetup.Trusts(trust, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"), trust)
	}
}

// A launch template without a profile and without --role leaves the checks of the
// role out, instead of many failures with one cause.
func TestChecksOfTheRoleAreLeftOutWithoutOne(t *testing.T) {
	f := templated()
	f.launch.value.Profile, f.profile.value = "", awsapi.Profile{}
	r := f.check()
	assert.Equal(t, []string{"role-trust", "role-separate", "policy-worker", "policy-cni", "policy-registry", "policy-ssm", "access", "aws-auth"}, r.NeedRole)
	assert.Equal(t, 1, r.Count(Fail))
	f = templated()
	f.target.Role, f.launch.value.Profile = "node", ""
	f.profile.value = awsapi.Profile{Role: f.profile.value.Role}
	said := found(t, f, "instance-profile")
	assert.Equal(t, Warn, said.Verdict)
	assert.Contains(t, said.Evidence, "the role is node, as specified")
	assert.Empty(t, f.check().NeedRole)
}

// FuzzTrust reads any trust policy. The remedy repeats all of its statements.
func FuzzTrust(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"Statement":[]}`, `{"Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"sts:AssumeRole","Condition":{"StringEquals":{"a":["b",1]}}}}`,
		`{"Version":"2012-10-17","Id":"x","Statement":[{"Effect":"Deny","Principal":"*","Action":"*"}]}`, `{"Statement":[{"Sid":"it's"}]}`, `[]`, `{"Statement":1}`, `{"Statement":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, trust string) {
		clustersetup.Trusts(trust, "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
		(&facts{}).webFault(&awsapi.Role{Trust: trust})
		r := ofRole(checkTrust)(&facts{profile: fact[awsapi.Profile]{value: awsapi.Profile{Name: "p",
			Role: &awsapi.Role{Name: "node", Trust: trust}}}})
		_, document, put := strings.Cut(r.remedy, "aws iam update-assume-role-policy --role-name node --policy-document ")
		if !put {
			return
		}
		type policy struct {
			Version, ID string
			Statement   clustersetup.OneOrMore[map[string]any]
		}
		var before, after policy
		require.NoError(t, json.Unmarshal([]byte(trust), &before))
		document = strings.ReplaceAll(strings.Trim(document, "'"), `'\''`, "'")
		require.NoError(t, json.Unmarshal([]byte(document), &after), document)
		was := slices.DeleteFunc(append([]map[string]any{}, before.Statement...), func(s map[string]any) bool { return s == nil })
		require.Len(t, after.Statement, len(was)+1)
		assert.Equal(t, was, []map[string]any(after.Statement[:len(was):len(was)]))
	})
}
