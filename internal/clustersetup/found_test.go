package clustersetup

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const (
	nodeRole  = "arn:aws:iam::123456789012:role/node"
	elsewhere = "arn:aws:eks:eu-west-1:999999999999:cluster/c"
)

// What exists already is not printed again. What would take access away is an error.
func TestManifestsBuildOnWhatExists(t *testing.T) {
	const otherTrust = `{"Version":"2012-10-17","Id":"mine","Statement":{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}}`
	nothing := "# Nothing to do: "
	for name, c := range map[string]struct {
		id     string
		change func(*Node)
		want   string // the manifest, or the error after "writing "
	}{
		"the role and its profile": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profiles = &awsapi.Role{Name: "node", Trust: trustEC2}, []string{"nodes"}
		}, nothing + "the role node trusts EC2, and the instance profile nodes has\n# the role.\n"},
		"the role without a profile": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profile = &awsapi.Role{Name: "node", Trust: trustEC2}, &awsapi.Profile{Name: "node"}
		}, "aws iam add-role-to-instance-profile --instance-profile-name node --role-name node\n"},
		"a profile with another role": {"role", func(n *Node) {
			n.Profile, n.Found.Profile = "shared", &awsapi.Profile{Name: "shared", Role: &awsapi.Role{Name: "other"}}
		}, "role: the instance profile shared has the role other, which instances may use: name another one with --instance-profile"},
		"a trust policy of another service": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profiles = &awsapi.Role{Name: "node", Trust: otherTrust}, []string{"node"}
		}, "# The role exists. Its trust policy keeps its statements and gets one for\n# ec2.amazonaws.com.\n" +
			`aws iam update-assume-role-policy --role-name node --policy-document '{"Id":"mine","Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"}},` +
			`{"Action":["sts:AssumeRole"],"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}],"Version":"2012-10-17"}'` + "\n"},
		"a trust policy that denies": {"role", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Trust: strings.Replace(trustEC2, "Allow", "Deny", 1)}
		}, "role: the trust policy of the role node denies sts:AssumeRole to ec2.amazonaws.com: see `aws iam get-role --role-name node`, or use another role"},
		"a trust policy that is no JSON": {"role", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Trust: "x"}
		}, "role: reading the trust policy of the role node: invalid character 'x' looking for beginning of value"},
		"other policies with the permissions": {"policies", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Policies: []string{"AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryReadOnly"}}
		}, nothing + "the role node has the policies.\n"},
		"a role of another account": {"policies", func(n *Node) {
			n.Found.Cluster.ARN, n.Found.Role = elsewhere, nil
		}, "# The role is in the account 123456789012, and the cluster is in 999999999999.\n# Nothing was read there. Run the commands with credentials of 123456789012.\n" +
			"aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy\n" +
			"aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly\n"},
		"a role that may not be read": {"policies", func(n *Node) {
			n.Found.Role, n.SSM, n.Found.Unread = nil, true, map[string][]string{"policies": {"reading the role node: denied\nrm -rf /"}}
		}, "# This could not be read, so the next lines assume that nothing exists: reading\n# the role node: denied rm -rf /\n" +
			"aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy\n" +
			"aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly\n" +
			"aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore\n"},
		"an IPv6 policy without subnet discovery": {"policies", func(n *Node) {
			n.Found.Cluster.IPFamily, n.CNIOnNode = "ipv6", true
			n.Found.Role = &awsapi.Role{Name: "node", Policies: []string{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", IPv6Policy}}
			n.Found.IPv6Policy = new(`{"Statement":[{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses","ec2:DescribeI*","ec2:DescribeTags","EC2:describenetworkinterfaces"],"Resource":"*"},{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"x"}]}`)
		}, "# The policy AmazonEKS_CNI_IPv6_Policy exists without ec2:DescribeSubnets,\n# ec2:DescribeSecurityGroups. It keeps its statements and gets one for them.\n" +
			"aws iam create-policy-version --policy-arn arn:aws:iam::123456789012:policy/AmazonEKS_CNI_IPv6_Policy --set-as-default --policy-document '" +
			`{"Statement":[{"Action":["ec2:AssignIpv6Addresses","ec2:DescribeI*","ec2:DescribeTags","EC2:describenetworkinterfaces"],"Effect":"Allow","Resource":"*"},{"Action":"ec2:CreateTags","Effect":"Allow","Resource":"x"},` +
			`{"Action":["ec2:DescribeSubnets","ec2:DescribeSecurityGroups"],"Effect":"Allow","Resource":"*"}]}'` + "\n"},
		"IRSA for the VPC CNI": {"cni-role", func(n *Node) { n.Found.CNI.IRSA = "arn:aws:iam::123456789012:role/irsa" },
			nothing + "the add-on vpc-cni has the role\n# arn:aws:iam::123456789012:role/irsa by its service account. That role stays.\n"},
		"pod identity for the VPC CNI, without the agent": {"cni-role", func(n *Node) { n.Found.CNI.PodIdentity = "arn:aws:iam::123456789012:role/mine" },
			"aws eks create-addon --cluster-name c --addon-name eks-pod-identity-agent\n"},
		"pod identity for the VPC CNI": {"cni-role", func(n *Node) {
			n.Found.CNI.PodIdentity, n.Found.CNI.Agent = "arn:aws:iam::123456789012:role/mine", true
		}, nothing + "the VPC CNI has the role arn:aws:iam::123456789012:role/mine by\n# pod identity. That role stays.\n"},
		"a configured add-on": {"cni-role", func(n *Node) {
			n.Found.CNI.Configuration, n.Found.CNI.Agent = `{"env":{"A":"it's"}}`, true
			n.Found.CNIRole = &awsapi.Role{Name: "node", Trust: strings.NewReplacer(`["sts:AssumeRole"]`, `["sts:*"]`, "ec2.", "pods.eks.").Replace(trustEC2), Policies: []string{"AmazonEKS_CNI_Policy"}}
		}, `aws eks update-addon --cluster-name c --addon-name vpc-cni --resolve-conflicts PRESERVE --configuration-values '{"env":{"A":"it'\''s"}}' ` +
			"--pod-identity-associations serviceAccount=aws-node,roleArn=arn:aws:iam::123456789012:role/AmazonEKSPodIdentityAmazonVPCCNIRole\n"},
		"no pod identity": {"cni-role", func(n *Node) { n.Found.Cluster.Outpost = true },
			"cni-role: EKS Pod Identity does not work here, because the cluster is on an Outpost: use --cni-permissions node"},
		"an entry of the right type": {"access-entry", func(n *Node) {
			n.Found.Entry, n.Found.Role = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: Username}, &awsapi.Role{Name: "node"}
		}, nothing + "the access entry of arn:aws:iam::123456789012:role/node has the\n# type EC2_LINUX.\n"},
		"an entry of another type": {"access-entry", func(n *Node) { n.Found.Entry = &awsapi.AccessEntry{Type: "STANDARD"} },
			"access-entry: the access entry of " + nodeRole + " has the type STANDARD, but these nodes need EC2_LINUX: EKS cannot change a type, and others may use the entry, so give these nodes their own role"},
		"an entry with another username": {"access-entry", func(n *Node) {
			n.Found.Entry, n.Found.Role = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: "x"}, &awsapi.Role{Name: "node"}
		}, "access-entry: the access entry of " + nodeRole + ` has the username "x", but nodes need system:node:{{EC2PrivateDNSName}}: others may use the entry, so give these nodes their own role`},
		"an entry of a deleted role": {"access-entry", func(n *Node) { n.Found.Entry = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: Username} },
			"# The role does not exist. Its access entry is for a deleted role and would not\n# let a new role of that name in.\naws eks delete-access-entry --cluster-name c --principal-arn " + nodeRole +
				"\naws eks create-access-entry --cluster-name c --principal-arn " + nodeRole + " --type EC2_LINUX\n"},
		"an entry in CONFIG_MAP": {"access-entry", func(n *Node) { n.Found.Cluster.AuthenticationMode = "CONFIG_MAP" },
			"access-entry: the authentication mode of the cluster c is CONFIG_MAP, which ignores access entries: use aws-auth, " +
				"or first `aws eks update-cluster-config --name c --access-config authenticationMode=API_AND_CONFIG_MAP`, which cannot be undone"},
		"an entry for another account": {"access-entry", func(n *Node) { n.Found.Cluster.ARN = elsewhere },
			"access-entry: the role " + nodeRole + " is in another account than the cluster c, and EKS accepts no access entry for such nodes: use aws-auth, or a role in the account 999999999999"},
		"an entry for another account, in API": {"access-entry", func(n *Node) { n.Found.Cluster.ARN, n.Found.Cluster.AuthenticationMode = elsewhere, "API" },
			"access-entry: the role " + nodeRole + " is in another account than the cluster c, and EKS accepts no access entry for such nodes: use a role in the account 999999999999"},
		"aws-auth in API": {"aws-auth", func(n *Node) { n.Found.Cluster.AuthenticationMode = "API" },
			"aws-auth: the authentication mode of the cluster c is API, which ignores aws-auth: use access-entry"},
		"a family that Karpenter does not write": {"nodeclass", func(n *Node) { n.Family, n.KarpenterFamily = "ubuntu", "" },
			"nodeclass: Karpenter writes no user data of the family ubuntu: use `eksnode userdata render --family karpenter --carrying ubuntu`"},
		"a root volume that is too small": {"nodeclass", func(n *Node) { n.Volumes.Size = 4 },
			"nodeclass: volume-size: 4 is smaller than the root volume of ami-0123456789abcdef0, which has 8 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			n := Node{Cluster: "c", Role: nodeRole, AMI: "ami-0123456789abcdef0", Family: "al2023", KarpenterFamily: "AL2023", Found: fresh()}
			c.change(&n)
			m, err := ByID(c.id)
			require.NoError(t, err)
			text, err := m.Write(n)
			if err != nil {
				assert.Empty(t, text)
				text = strings.TrimPrefix(err.Error(), "writing ")
			}
			assert.Equal(t, c.want, text)
		})
	}
}

func TestVolumesAreChecked(t *testing.T) {
	for want, v := range map[string]Volumes{
		"volume-size: -1 is not a size from 1 to 16384 GiB":                                                                                           {Size: -1},
		"volume-initialization-rate: 99 is not a rate from 100 to 300 MiB/s":                                                                          {Rate: 99},
		"volume-initialization-rate: 301 is not a rate from 100 to 300 MiB/s":                                                                         {Rate: 301},
		"kms-key: EC2 accepts no key together with a volume initialization rate, because the rate needs the snapshot's ID; copy the AMI with the key": {Rate: 100, Key: "alias/x"},
	} {
		assert.EqualError(t, v.Validate(), want)
	}
}

func TestNodeClass(t *testing.T) {
	n := Node{
		Cluster: "c", Role: role, AMI: "ami-0123456789abcdef0", KarpenterFamily: "AL2023", Found: fresh(),
	}
	n.Found.Image.Devices = append(n.Found.Image.Devices, awsapi.BlockDevice{Name: "/dev/sdb", Snapshot: "snap-2", Size: 30, Encrypted: true})
	assert.Equal(t, `# This creates the EC2NodeClass eksnode. If there is one, the API server refuses
# this, because of the uid, and nothing is replaced. A NodePool uses it by
# spec.template.spec.nodeClassRef.
# The subnets are those of the cluster. Nodes may use other subnets of the VPC.
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: eksnode
  uid: 00000000-0000-0000-0000-000000000000
spec:
  amiFamily: AL2023
  amiSelectorTerms:
    - id: ami-0123456789abcdef0
  role: node
  subnetSelectorTerms:
    - id: subnet-1
    - id: subnet-2
  securityGroupSelectorTerms:
    - id: sg-1
  blockDeviceMappings:
    - deviceName: /dev/sda1
      rootVolume: true
      ebs:
        volumeSize: 20Gi
        volumeType: gp3
        encrypted: true
        deleteOnTermination: true
  metadataOptions:
    httpEndpoint: enabled
    httpPutResponseHopLimit: 1
    httpTokens: required
`, write(t, "nodeclass", n))
	n.AMI, n.Profile, n.Volumes, n.KarpenterFamily = "resolve:ssm:/eksnode/debian/1.34/amd64:3", "nodes", Volumes{Size: 50, Rate: 200}, "AL2"
	var class nodeClassJSON
	text := write(t, "nodeclass", n)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &class))
	assert.Equal(t, []map[string]string{{"ssmParameter": "/eksnode/debian/1.34/amd64:3"}}, class.Spec.Images)
	assert.Equal(t, "AL2", class.Spec.Family)
	assert.Equal(t, []string{"", "nodes"}, []string{class.Spec.Role, class.Spec.Profile}, "Karpenter takes one of them")
	devices, err := json.Marshal(class.Spec.Devices)
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"deviceName":"/dev/sda1","rootVolume":true,"ebs":{"volumeSize":"50Gi","volumeType":"gp3","snapshotID":"snap-1","volumeInitializationRate":200,"deleteOnTermination":true}},
		{"deviceName":"/dev/sdb","ebs":{"volumeSize":"30Gi","volumeType":"gp3","snapshotID":"snap-2","volumeInitializationRate":200,"deleteOnTermination":true}}]`, string(devices))
	assert.Contains(t, text, "# The snapshot snap-1 is not encrypted.")
	assert.NotContains(t, text, "# The snapshot snap-2")
	n.Volumes, n.Found.Image.Devices[0].Encrypted = Volumes{Key: "alias/x"}, true
	assert.Contains(t, write(t, "nodeclass", n), "encrypted: true\n        kmsKeyID: alias/x\n")
	n.Volumes.Key = ""
	assert.NotContains(t, write(t, "nodeclass", n), "encrypted", "an encrypted snapshot keeps its key")
}

// nodeClassJSON has the fields that the test reads.
type nodeClassJSON struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       struct {
		Family   string              `json:"amiFamily"`
		Images   []map[string]string `json:"amiSelectorTerms"`
		Role     string              `json:"role"`
		Profile  string              `json:"instanceProfile"`
		Subnets  []map[string]string `json:"subnetSelectorTerms"`
		Groups   []map[string]string `json:"securityGroupSelectorTerms"`
		Devices  []map[string]any    `json:"blockDeviceMappings"`
		Metadata map[string]any      `json:"metadataOptions"`
	} `json:"spec"`
}

// FuzzDocument completes any IAM document. All statements stay, and nothing is
// missing afterwards.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		trustEC2, "", "null", "[]", "{}", `{"Statement":{}}`, `{"Statement":[null,1,{"Effect":"Allow","Principal":"*","Action":"sts:*"}]}`,
		`{"Statement":{"Effect":"Allow","Principal":{"Service":["a","ec2.amazonaws.com"]},"Action":"sts:[","Condition":{"x":1}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s script
		if s.trust(&awsapi.Role{Name: "node", Trust: text}, "node", "", "ec2.amazonaws.com", "sts:AssumeRole") != nil || s.text.Len() == 0 {
			return
		}
		_, out, found := strings.Cut(s.text.String(), "--policy-document ")
		require.True(t, found)
		out = strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(out, "'"), "'\n"), `'\''`, "'")
		before, err := readDocument(text)
		require.NoError(t, err)
		after, err := readDocument(out)
		require.NoError(t, err)
		assert.Len(t, after.Statement, len(before.Statement)+1)
		assert.True(t, Trusts(out, "ec2.amazonaws.com", "sts:AssumeRole"))
	})
}
