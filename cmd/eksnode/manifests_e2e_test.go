//go:build e2e && linux && !agent

package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

const newRole, sampleRole = "arn:aws:iam::123456789012:role/eks/fresh", aws.NodeRole

// notRun are the manifests that moto cannot carry out, with the reason. Tests in
// e2e/join apply those for kubectl to a real API server.
var notRun = map[string]string{
	"aws-auth":  "kubectl: moto has no Kubernetes API",
	"vpc-cni":   "kubectl: moto has no Kubernetes API",
	"nodeclass": "kubectl: moto has no Kubernetes API",
}

// setUp is a cluster and the flags of a person.
type setUp struct {
	role   string
	change func(*aws.World)
	flags  []string
	// blocked are the manifests that have a reason in place of commands.
	blocked []string
	check   func(*testing.T, *aws.World)
	// launches runs the commands for a launch template and for tags too. They do not
	// depend on the rest of the set-up.
	launches bool
	// tooNew is a field that is newer than the AWS CLI of Debian 13. The test compares
	// its command with the SDK instead.
	tooNew string
}

func attached(w *aws.World, role string) string {
	return string(w.Do("iam:ListAttachedRolePolicies", "RoleName", role))
}

func setUps() map[string]setUp {
	ipv6 := func(w *aws.World) {
		w.Clusters["my-cluster"]["kubernetesNetworkConfig"] = map[string]any{"ipFamily": "ipv6", "serviceIpv6Cidr": "fd12::/108"}
	}
	bare := func(w *aws.World) { clear(w.Entries) }
	cniRole := "arn:aws:iam::123456789012:role/" + clustersetup.CNIRole
	return map[string]setUp{
		"a new role": {role: newRole, launches: true, change: func(w *aws.World) {
			bare(w)
			w.Addons["vpc-cni"]["configurationValues"] = `{"env":{"WARM_ENI_TARGET":"2"}}`
		}, check: func(t *testing.T, w *aws.World) {
			role := string(w.Do("iam:GetRole", "RoleName", "fresh"))
			assert.Contains(t, role, "<Arn>"+newRole+"</Arn>")
			assert.Contains(t, role, "ec2.amazonaws.com")
			assert.Contains(t, string(w.Do("iam:GetInstanceProfile", "InstanceProfileName", "fresh")), "<RoleName>fresh</RoleName>")
			assert.Contains(t, attached(w, "fresh"), "AmazonEKSWorkerNodePolicy")
			assert.NotContains(t, attached(w, "fresh"), "CNI")
			assert.Contains(t, attached(w, clustersetup.CNIRole), "AmazonEKS_CNI_Policy")
			assert.Equal(t, cniRole, w.AssociatedRole("kube-system", "aws-node"))
			assert.JSONEq(t, `{"env":{"WARM_ENI_TARGET":"2"}}`, w.Addons["vpc-cni"]["configurationValues"].(string), "the add-on keeps its values")
			assert.Contains(t, slices.Collect(maps.Keys(w.Addons)), "eks-pod-identity-agent")
			assert.Equal(t, "EC2_LINUX", w.Entries[newRole])
		}},
		"an existing role": {role: sampleRole, change: bare},
		"everything exists": {role: sampleRole, change: func(w *aws.World) {
			w.Associate("kube-system", "aws-node", cniRole)
			w.Addons["eks-pod-identity-agent"] = map[string]any{}
		}},
		"the VPC CNI on the nodes' role": {role: newRole, change: bare, flags: []string{"--cni-permissions", "node", "--ssm"}, check: func(t *testing.T, w *aws.World) {
			assert.Contains(t, attached(w, "fresh"), "AmazonEKS_CNI_Policy")
			assert.Contains(t, attached(w, "fresh"), "AmazonSSMManagedInstanceCore")
			assert.Empty(t, w.Associations)
		}},
		"a VPC CNI that is no add-on": {role: newRole, change: func(w *aws.World) { bare(w); clear(w.Addons) }, check: func(t *testing.T, w *aws.World) {
			assert.Equal(t, cniRole, w.AssociatedRole("kube-system", "aws-node"))
		}},
		"IRSA": {role: sampleRole, change: func(w *aws.World) {
			w.Addons["vpc-cni"]["serviceAccountRoleArn"] = "arn:aws:iam::123456789012:role/irsa"
		}, check: func(t *testing.T, w *aws.World) {
			assert.Empty(t, w.Associations)
			assert.Equal(t, "arn:aws:iam::123456789012:role/irsa", w.Addons["vpc-cni"]["serviceAccountRoleArn"])
		}},
		"IPv6": {role: newRole, change: func(w *aws.World) { bare(w); ipv6(w) }, check: func(t *testing.T, w *aws.World) {
			assert.Contains(t, attached(w, clustersetup.CNIRole), clustersetup.IPv6Policy)
		}},
		"IPv6 with an old policy on the nodes' role": {role: newRole, flags: []string{"--cni-permissions", "node"}, change: func(w *aws.World) {
			bare(w)
			ipv6(w)
			w.Do("iam:CreatePolicy", "PolicyName", clustersetup.IPv6Policy, "PolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses"],"Resource":"*"}]}`)
		}, check: func(t *testing.T, w *aws.World) {
			said := string(w.Do("iam:GetPolicyVersion", "PolicyArn", "arn:aws:iam::123456789012:policy/"+clustersetup.IPv6Policy, "VersionId", "v2"))
			assert.Contains(t, said, "DescribeSecurityGroups")
			assert.Contains(t, attached(w, "fresh"), clustersetup.IPv6Policy)
		}},
		"CONFIG_MAP": {role: newRole, blocked: []string{"access-entry"}, change: func(w *aws.World) {
			bare(w)
			w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
		}, check: func(t *testing.T, w *aws.World) { assert.Empty(t, w.Entries) }},
		"API": {role: newRole, blocked: []string{"aws-auth"}, change: func(w *aws.World) {
			bare(w)
			w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "API"}
		}},
		"an entry of another type": {role: sampleRole, blocked: []string{"access-entry"}, change: func(w *aws.World) { w.Entries[sampleRole] = "STANDARD" },
			check: func(t *testing.T, w *aws.World) { assert.Equal(t, "STANDARD", w.Entries[sampleRole]) }},
		"an entry of a deleted role": {role: newRole, change: func(w *aws.World) { w.Entries[newRole] = "EC2_LINUX" }},
		"Windows": {role: newRole, flags: []string{"--windows"}, blocked: []string{"nodeclass"}, change: bare, check: func(t *testing.T, w *aws.World) {
			assert.Equal(t, "EC2_WINDOWS", w.Entries[newRole])
		}},
		"a role that another service uses": {role: "arn:aws:iam::123456789012:role/shared", change: func(w *aws.World) {
			bare(w)
			w.Do("iam:CreateRole", "RoleName", "shared", "AssumeRolePolicyDocument", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
		}, check: func(t *testing.T, w *aws.World) {
			role := string(w.Do("iam:GetRole", "RoleName", "shared"))
			assert.Contains(t, role, "lambda.amazonaws.com")
			assert.Contains(t, role, "ec2.amazonaws.com")
		}},
		"volumes with a rate": {
			role: sampleRole, change: func(*aws.World) {}, launches: true, tooNew: "VolumeInitializationRate",
			flags: []string{"--volume-initialization-rate", "200", "--volume-size", "50"},
		},
		"volumes with a key": {role: sampleRole, change: func(*aws.World) {}, launches: true, flags: []string{"--kms-key", "alias/nodes"}},
	}
}

// Every printed command runs with the AWS CLI. After that, everything is done.
func TestEveryPrintedCommandRuns(t *testing.T) {
	for name, s := range setUps() {
		t.Run(name, func(t *testing.T) {
			w := aws.Sample(t)
			s.change(w)
			w.Serve()
			s.run(t, w, "my-cluster")
			if s.check != nil {
				s.check(t, w)
			}
		})
	}
}

func (s setUp) manifest(t *testing.T, cluster, id string) (text, failure string) {
	t.Helper()
	args := append([]string{"manifests", "--cluster", cluster, "--role", s.role, "--ami", aws.NodeImage}, s.flags...)
	code, out, errOut := command(t, "", append(args, "--only", id)...)
	if code != 0 {
		assert.Empty(t, out, id)
		require.NotEmpty(t, errOut, id)
	}
	return out, errOut
}

// run runs the commands of all manifests in their order, and prints them again.
func (s setUp) run(t *testing.T, w *aws.World, cluster string) {
	t.Helper()
	for _, again := range []bool{false, true} {
		for _, m := range clustersetup.Table() {
			text, failure := s.manifest(t, cluster, m.ID)
			if slices.Contains(s.blocked, m.ID) || strings.Contains(failure, "not needed for these nodes") {
				assert.NotEmpty(t, failure, m.ID)
				continue
			}
			require.Empty(t, failure, m.ID)
			switch {
			case notRun[m.ID] != "":
				assert.NotContains(t, text, "aws ", m.ID)
			case m.ID == "launch-template" || m.ID == "tags":
				if s.launches && !again {
					s.launch(t, w, m.ID, text)
				}
			case again:
				assert.True(t, strings.HasPrefix(text, "# Nothing to do: "), "%s: %s", m.ID, text)
				assert.NotRegexp(t, `(?m)^[^#]`, text, m.ID)
			default:
				_, err := w.Shell(text, nil)
				require.NoError(t, err, m.ID)
			}
		}
	}
}

// launch runs the commands that need a name or an instance from the person.
func (s setUp) launch(t *testing.T, w *aws.World, id, text string) {
	t.Helper()
	files := map[string]string{"FILE": text}
	create := "aws ec2 create-launch-template --launch-template-name one --launch-template-data "
	script := create + "file://FILE"
	if id == "tags" {
		script = strings.ReplaceAll(text, "INSTANCE", "i-1")
	}
	_, err := w.Shell(script, files)
	if s.tooNew == "" || id == "tags" {
		require.NoError(t, err, id)
		return
	}
	require.ErrorContains(t, err, `"`+s.tooNew+`", must be one of`)
	require.NoError(t, cli.Check(create+"'"+text+"'"))
}

// China has other ARNs and another name of EC2.
func TestEveryPrintedCommandRunsInChina(t *testing.T) {
	w := aws.New(t)
	w.Region = "cn-north-1"
	w.Images = []*aws.Image{aws.NewImage(aws.NodeImage, "node", aws.Account, "2026-04-01T00:00:00.000Z")}
	w.Images[0].Devices = []aws.Drive{{Name: "/dev/xvda", Snapshot: "snap-1", Size: 8}}
	w.Do("eks:POST /clusters", `{"name":"china","version":"1.34","roleArn":"arn:aws-cn:iam::123456789012:role/cluster",
		"resourcesVpcConfig":{"subnetIds":["subnet-1"],"securityGroupIds":[]},"kubernetesNetworkConfig":{"serviceIpv4Cidr":"10.100.0.0/16"}}`)
	w.Clusters["china"] = map[string]any{
		"certificateAuthority": map[string]any{"data": aws.CA},
		"accessConfig":         map[string]any{"authenticationMode": "API"},
		"resourcesVpcConfig":   map[string]any{"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-1", "subnetIds": []string{"subnet-1"}},
	}
	w.Addons["vpc-cni"] = map[string]any{}
	w.Serve()
	t.Setenv("AWS_REGION", "cn-north-1")
	setUp{role: "arn:aws-cn:iam::123456789012:role/fresh", blocked: []string{"aws-auth"}}.run(t, w, "china")
	assert.Contains(t, string(w.Do("iam:GetRole", "RoleName", "fresh")), "ec2.amazonaws.com.cn")
	assert.Contains(t, attached(w, "fresh"), "arn:aws-cn:iam::aws:policy/AmazonEKSWorkerNodePolicy")
}

// A caller who may only read the cluster gets commands and the reason. Only the ARN
// of the role itself must be right.
func TestManifestsWithoutPermissions(t *testing.T) {
	w := aws.Sample(t)
	w.Serve()
	for _, action := range awsapi.SetupActions() {
		if action != "eks:DescribeCluster" {
			w.Deny(action)
		}
	}
	out := succeeds(t, "manifests", "--cluster", "my-cluster", "--role", sampleRole)
	assert.Contains(t, out, "nothing exists: reading\n# the role node: the permission iam:GetRole is missing: User:")
	assert.Contains(t, out, "aws iam create-role --role-name node ")
	assert.Contains(t, out, "aws eks create-access-entry ")
	w.Heal()

	w.Do("iam:CreateRole", "RoleName", "deep", "Path", "/eks/", "AssumeRolePolicyDocument", "{}")
	_, errOut := exits(t, 2, "manifests", "--cluster", "my-cluster", "--role", "arn:aws:iam::123456789012:role/deep")
	assert.Equal(t, "eksnode: --role: the account has no role arn:aws:iam::123456789012:role/deep; the role deep is arn:aws:iam::123456789012:role/eks/deep\n", errOut)

	out = succeeds(t, "manifests", "--cluster", "my-cluster", "--role", "arn:aws:iam::999999999999:role/node")
	assert.Contains(t, out, "# Not possible: the role arn:aws:iam::999999999999:role/node is in another\n# account than the cluster my-cluster,")
	assert.Contains(t, out, "Run the commands with credentials of 999999999999.")
	assert.NotContains(t, out, "Nothing to do: the role node", "the role of that name in this account is another role")
}

// The policy for manifests equals the calls.
func TestThePolicyOfManifestsEqualsTheCalls(t *testing.T) {
	w := aws.Sample(t)
	w.Serve()
	w.Clusters["my-cluster"]["version"] = "1.18"
	manifests := []string{"manifests", "--cluster", "my-cluster", "--role", sampleRole, "--ami", aws.NodeImage}
	ok := func(more ...string) {
		t.Helper()
		succeeds(t, append(manifests, more...)...)
	}
	ok()
	w.Clusters["my-cluster"]["version"] = "1.34"
	w.Clusters["my-cluster"]["kubernetesNetworkConfig"] = map[string]any{"ipFamily": "ipv6", "serviceIpv6Cidr": "fd12::/108"}
	w.Do("iam:CreatePolicy", "PolicyName", clustersetup.IPv6Policy, "PolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"*"}]}`)
	w.Associate("kube-system", "aws-node", sampleRole)
	ok("--instance-profile", "other")
	w.Put("/eksnode/debian", aws.NodeImage)
	ok("--ami", "resolve:ssm:/eksnode/debian", "--volume-initialization-rate", "100")
	out, _ := exits(t, 0, "manifests", "--policy")
	var policy struct{ Statement []struct{ Action []string } }
	require.NoError(t, json.Unmarshal([]byte(out), &policy))
	assert.Equal(t, slices.Sorted(maps.Keys(w.Count())), policy.Statement[0].Action)
}

// A rate needs the snapshot of one AMI, so the parameter gets its present version.
func TestAnInitializationRatePinsTheParameter(t *testing.T) {
	w := aws.Sample(t)
	w.Serve()
	w.Put("/eksnode/debian", aws.NodeImage)
	args := []string{"manifests", "--cluster", "my-cluster", "--role", sampleRole, "--ami", "resolve:ssm:/eksnode/debian", "--only"}
	_, out, _ := command(t, "", append(args, "nodeclass")...)
	assert.Contains(t, out, "    - ssmParameter: /eksnode/debian\n")
	assert.NotContains(t, out, "snapshotID")
	w.Put("/eksnode/debian", aws.NodeImage)
	out = succeeds(t, append(args, "nodeclass", "--volume-initialization-rate", "300")...)
	assert.Contains(t, out, "    - ssmParameter: /eksnode/debian:2\n")
	assert.Contains(t, out, "        snapshotID: snap-1\n        volumeInitializationRate: 300\n")
	_, out, _ = command(t, "", append(args, "launch-template", "--volume-initialization-rate", "300")...)
	assert.Contains(t, out, `"ImageId": "resolve:ssm:/eksnode/debian:2"`)
	assert.Contains(t, out, `"VolumeInitializationRate": 300`)
}
