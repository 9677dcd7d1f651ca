package manifests

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

const role = "arn:aws:iam::123456789012:role/eks/node"

func write(t *testing.T, id string, n Node) string {
	t.Helper()
	m, err := ByID(id)
	require.NoError(t, err)
	text, err := m.Write(n)
	require.NoError(t, err)
	return text
}

func TestCommands(t *testing.T) {
	n := Node{Cluster: "c", Role: role}
	assert.Equal(t, "aws eks create-access-entry --cluster-name c --principal-arn "+role+" --type EC2_LINUX\n", write(t, "access-entry", n))
	assert.Equal(t, "aws ec2 create-tags --resources INSTANCE --tags Key=kubernetes.io/cluster/c,Value=owned\n", write(t, "tags", n))
	assert.Equal(t, `aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy
aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly
aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore
aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy
`, write(t, "policies", n))
	n.Windows = true
	assert.Contains(t, write(t, "access-entry", n), "--type EC2_WINDOWS\n")
	n.Windows, n.IPv6, n.Subnets, n.Role = false, true, []string{"subnet-1", "subnet-2"}, "arn:aws-cn:iam::123456789012:role/node"
	assert.Contains(t, write(t, "tags", n), "--resources subnet-1 subnet-2 --tags Key=kubernetes.io/cluster/c,Value=shared\n")
	assert.Contains(t, write(t, "policies", n), "ec2:AssignIpv6Addresses")
	assert.Contains(t, write(t, "policies", n), "arn:aws-cn:iam::aws:policy/AmazonEKSWorkerNodePolicy")
}

// What is for the AWS CLI has operations, parameters and members that there are.
func TestTheCLITakesThem(t *testing.T) {
	n := Node{
		Cluster: "c", Role: role, AMI: "resolve:ssm:/nodes/1.34", InstanceType: "m7g.large", Profile: "nodes", SecurityGroups: []string{"sg-1"},
		UserData: []byte("hello"), Subnets: []string{"subnet-1"},
	}
	for _, change := range []func(){func() {}, func() { n.Windows = true }, func() { n.Windows, n.IPv6 = false, true }} {
		change()
		for _, id := range []string{"policies", "access-entry", "tags"} {
			for line := range strings.Lines(write(t, id, n)) {
				assert.NoError(t, cli.Check(strings.TrimSuffix(line, "\n")))
			}
		}
		assert.NoError(t, cli.Check("aws ec2 create-launch-template --launch-template-name nodes --launch-template-data '"+write(t, "launch-template", n)+"'"))
	}
	for _, action := range regexp.MustCompile(`ec2:[A-Za-z0-9]+`).FindAllString(strings.ReplaceAll(write(t, "policies", n), ":ec2:*", ""), -1) {
		assert.True(t, cli.Operation(action), action)
	}
}

func TestLaunchTemplate(t *testing.T) {
	n := Node{Cluster: "c", Role: role}
	m, err := ByID("launch-template")
	require.NoError(t, err)
	_, err = m.Write(n)
	require.ErrorIs(t, err, ErrNotNeeded)
	n.AMI, n.InstanceType, n.Profile, n.SecurityGroups, n.UserData = "ami-0123456789abcdef0", "m7g.large", "nodes", []string{"sg-1"}, []byte("hello")
	var data map[string]any
	require.NoError(t, json.Unmarshal([]byte(write(t, "launch-template", n)), &data))
	assert.Equal(t, map[string]any{
		"ImageId": "ami-0123456789abcdef0", "InstanceType": "m7g.large", "SecurityGroupIds": []any{"sg-1"}, "UserData": "aGVsbG8=",
		"IamInstanceProfile": map[string]any{"Name": "nodes"},
		"MetadataOptions":    map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": float64(2)},
		"TagSpecifications": []any{map[string]any{"ResourceType": "instance", "Tags": []any{
			map[string]any{"Key": "kubernetes.io/cluster/c", "Value": "owned"},
		}}},
	}, data)
}

func TestAWSAuth(t *testing.T) {
	n := Node{Cluster: "c", Role: role}
	const fresh = `apiVersion: v1
kind: ConfigMap
metadata:
  name: aws-auth
  namespace: kube-system
data:
  mapRoles: |
    - rolearn: arn:aws:iam::123456789012:role/node
      username: system:node:{{EC2PrivateDNSName}}
      groups:
        - system:bootstrappers
        - system:nodes
`
	assert.Equal(t, "# For clusters without an aws-auth: this would take the place of one that is there.\n# Hand that in with --aws-auth, and it is merged.\n"+fresh, write(t, "aws-auth", n))
	n.AWSAuth = []byte(fresh)
	assert.Equal(t, "# Nothing changes.\n"+fresh, write(t, "aws-auth", n))

	n.Windows = true
	assert.Equal(t, `# What changes:
#   apiVersion: v1
#   kind: ConfigMap
#   metadata:
#     name: aws-auth
#     namespace: kube-system
#   data:
#     mapRoles: |
#       - rolearn: arn:aws:iam::123456789012:role/node
#         username: system:node:{{EC2PrivateDNSName}}
#         groups:
#           - system:bootstrappers
#           - system:nodes
# +         - eks:kube-proxy-windows
`+fresh+"        - eks:kube-proxy-windows\n", write(t, "aws-auth", n))
}

// What others have there stays, in its order, also what we do not know.
func TestAWSAuthKeepsTheOthers(t *testing.T) {
	n := Node{Cluster: "c", Role: role, AWSAuth: []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: aws-auth, namespace: kube-system, resourceVersion: "7"}
data:
  mapUsers: |
    - userarn: arn:aws:iam::1:user/a # the boss
  mapRoles: |
    # made by hand
    - rolearn: arn:aws:iam::1:role/other
      username: x
      groups: [g]
      extra: z
    - {rolearn: "` + role + `", username: wrong, groups: [system:nodes, mine]}
    - {rolearn: "arn:aws:iam::1:role/last", username: last, groups: [h]}
`)}
	text := write(t, "aws-auth", n)
	var m struct {
		Metadata map[string]string
		Data     map[string]string
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &m))
	assert.Equal(t, "7", m.Metadata["resourceVersion"], "the API server refuses it if somebody else was quicker")
	assert.Equal(t, "- userarn: arn:aws:iam::1:user/a # the boss\n", m.Data["mapUsers"])
	assert.Contains(t, m.Data["mapRoles"], "# made by hand")
	var roles []map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(m.Data["mapRoles"]), &roles))
	assert.Equal(t, []map[string]any{
		{"rolearn": "arn:aws:iam::1:role/other", "username": "x", "groups": []any{"g"}, "extra": "z"},
		{"rolearn": "arn:aws:iam::123456789012:role/node", "username": username, "groups": []any{"system:nodes", "mine", "system:bootstrappers"}},
		{"rolearn": "arn:aws:iam::1:role/last", "username": "last", "groups": []any{"h"}},
	}, roles)
	assert.Contains(t, text, "# - ")
	assert.Contains(t, text, "# + ")
}

func TestRefusals(t *testing.T) {
	for want, n := range map[string]Node{
		"cluster: \"a b\" must be up to 100 letters, digits, - and _\nrole: \"node\" is no role's ARN such as arn:aws:iam::123456789012:role/node; an instance profile's is none":                     {Cluster: "a b", Role: "node"},
		"role: \"arn:aws:iam::123456789012:instance-profile/a\" is no role's ARN such as arn:aws:iam::123456789012:role/node; an instance profile's is none":                                          {Cluster: "c", Role: "arn:aws:iam::123456789012:instance-profile/a"},
		"writing aws-auth: reading the ConfigMap: it is none; `kubectl get configmap aws-auth -n kube-system -o yaml` prints it":                                                                      {Cluster: "c", Role: role, AWSAuth: []byte("kind: Secret\n")},
		"ami: \"ami-x\" is neither an image's id such as ami-0123456789abcdef0 nor a parameter such as resolve:ssm:/eksnode/debian/1.34/amd64\nwindows: EKS has no Windows nodes in clusters of IPv6": {Cluster: "c", Role: role, AMI: "ami-x", Windows: true, IPv6: true},
		"writing aws-auth: reading mapRoles: it is no list": {Cluster: "c", Role: role, AWSAuth: []byte("kind: ConfigMap\ndata: {mapRoles: 'a: b'}\n")},
	} {
		m, err := ByID("aws-auth")
		require.NoError(t, err)
		_, err = m.Write(n)
		assert.EqualError(t, err, want)
	}
	_, err := ByID("x")
	assert.EqualError(t, err, `the manifest "x" is not known; known are policies, access-entry, aws-auth, vpc-cni, launch-template, tags`)
}
