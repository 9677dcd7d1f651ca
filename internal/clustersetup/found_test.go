package clustersetup

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const (
	nodeRole  = "arn:aws:iam::123456789012:role/node"
	elsewhere = "arn:aws:eks:eu-west-1:999999999999:cluster/c"
)

// encrypted is a further volume of the image.
var encrypted = awsapi.BlockDevice{Name: "/dev/sdb", Snapshot: "snap-2", Size: 30, Encrypted: true}

// What exists already is not printed again. What would take access away is an error.
func TestManifestsBuildOnWhatExists(t *testing.T) {
	const otherTrust = `{"Version":"2012-10-17","Id":"mine","Statement":{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}}`
	built := map[string]string{} // the manifests, or the errors after "writing "
	for _, f := range txtar.Parse([]byte(testkit.Content(t, "testdata/built.txtar"))).Files {
		built[f.Name] = string(f.Data)
	}
	for name, c := range map[string]struct {
		id     string
		change func(*Node)
	}{
		"nothing, for the role":         {"role", func(n *Node) { n.Role = role }},
		"nothing, for its policies":     {"policies", func(n *Node) { n.Role = role }},
		"nothing, for the VPC CNI":      {"cni-role", func(n *Node) { n.Role = role }},
		"nothing, for the access entry": {"access-entry", func(n *Node) { n.Role = role }},
		"nothing, for tags":             {"tags", func(n *Node) { n.Role = role }},
		"nothing, for Karpenter": {"nodeclass", func(n *Node) {
			n.Role, n.Found.Image.Devices = role, append(n.Found.Image.Devices, encrypted)
		}},
		"the role and its profile": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profiles = &awsapi.Role{Name: "node", Trust: trustEC2}, []string{"nodes"}
		}},
		"the role without a profile": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profile = &awsapi.Role{Name: "node", Trust: trustEC2}, &awsapi.Profile{Name: "node"}
		}},
		"a profile with another role": {"role", func(n *Node) {
			n.Profile, n.Found.Profile = "shared", &awsapi.Profile{Name: "shared", Role: &awsapi.Role{Name: "other"}}
		}},
		"a trust policy of another service": {"role", func(n *Node) {
			n.Found.Role, n.Found.Profiles = &awsapi.Role{Name: "node", Trust: otherTrust}, []string{"node"}
		}},
		"a trust policy that denies": {"role", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Trust: strings.Replace(trustEC2, "Allow", "Deny", 1)}
		}},
		"a trust policy that is no JSON": {"role", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Trust: "x"}
		}},
		"other policies with the permissions": {"policies", func(n *Node) {
			n.Found.Role = &awsapi.Role{Name: "node", Policies: []string{"AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryReadOnly"}}
		}},
		"a role of another account": {"policies", func(n *Node) {
			n.Found.Cluster.ARN, n.Found.Role = elsewhere, nil
		}},
		"a role that may not be read": {"policies", func(n *Node) {
			n.Found.Role, n.SSM, n.Found.Unread = nil, true, map[string][]string{"policies": {"reading the role node: denied\nrm -rf /"}}
		}},
		"an IPv6 policy without subnet discovery": {"policies", func(n *Node) {
			n.Found.Cluster.IPFamily, n.CNIOnNode = "ipv6", true
			n.Found.Role = &awsapi.Role{Name: "node", Policies: []string{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", IPv6Policy}}
			n.Found.IPv6Policy = new(`{"Statement":[{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses","ec2:DescribeI*","ec2:DescribeTags","EC2:describenetworkinterfaces"],"Resource":"*"},{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"x"}]}`)
		}},
		"an IPv6 policy without tags": {"policies", func(n *Node) {
			n.Found.Cluster.IPFamily, n.CNIOnNode = "ipv6", true
			n.Found.Role = &awsapi.Role{Name: "node", Policies: []string{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", IPv6Policy}}
			n.Found.IPv6Policy = new(`{"Statement":{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses","ec2:DescribeI*","ec2:DescribeN*","ec2:DescribeS*"],"Resource":"*"}}`)
		}},
		"IRSA for the VPC CNI":                            {"cni-role", func(n *Node) { n.Found.CNI.IRSA = "arn:aws:iam::123456789012:role/irsa" }},
		"pod identity for the VPC CNI, without the agent": {"cni-role", func(n *Node) { n.Found.CNI.PodIdentity = "arn:aws:iam::123456789012:role/mine" }},
		"pod identity for the VPC CNI": {"cni-role", func(n *Node) {
			n.Found.CNI.PodIdentity, n.Found.CNI.Agent = "arn:aws:iam::123456789012:role/mine", true
		}},
		"a configured add-on": {"cni-role", func(n *Node) {
			n.Found.CNI.Configuration, n.Found.CNI.Agent = `{"env":{"A":"it's"}}`, true
			n.Found.CNIRole = &awsapi.Role{Name: "node", Trust: strings.NewReplacer(`["sts:AssumeRole"]`, `["sts:*"]`, "ec2.", "pods.eks.").Replace(trustEC2), Policies: []string{"AmazonEKS_CNI_Policy"}}
		}},
		"no pod identity": {"cni-role", func(n *Node) { n.Found.Cluster.Outpost = true }},
		"an entry of the right type": {"access-entry", func(n *Node) {
			n.Found.Entry, n.Found.Role = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: Username}, &awsapi.Role{Name: "node"}
		}},
		"an entry of another type": {"access-entry", func(n *Node) { n.Found.Entry = &awsapi.AccessEntry{Type: "STANDARD"} }},
		"an entry with another username": {"access-entry", func(n *Node) {
			n.Found.Entry, n.Found.Role = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: "x"}, &awsapi.Role{Name: "node"}
		}},
		"an entry of a deleted role":             {"access-entry", func(n *Node) { n.Found.Entry = &awsapi.AccessEntry{Type: "EC2_LINUX", Username: Username} }},
		"an entry in CONFIG_MAP":                 {"access-entry", func(n *Node) { n.Found.Cluster.AuthenticationMode = "CONFIG_MAP" }},
		"an entry for another account":           {"access-entry", func(n *Node) { n.Found.Cluster.ARN = elsewhere }},
		"an entry for another account, in API":   {"access-entry", func(n *Node) { n.Found.Cluster.ARN, n.Found.Cluster.AuthenticationMode = elsewhere, "API" }},
		"aws-auth in API":                        {"aws-auth", func(n *Node) { n.Found.Cluster.AuthenticationMode = "API" }},
		"a family that Karpenter does not write": {"nodeclass", func(n *Node) { n.Family, n.KarpenterFamily = "ubuntu", "" }},
		"a parameter, a profile and snapshots": {"nodeclass", func(n *Node) {
			n.AMI, n.Profile, n.KarpenterFamily = "resolve:ssm:/eksnode/debian/1.34/amd64:3", "nodes", "AL2"
			n.Volumes, n.Found.Image.Devices = Volumes{Size: 50, Rate: 200}, append(n.Found.Image.Devices, encrypted)
		}},
		"a key for an encrypted volume": {"nodeclass", func(n *Node) {
			n.Volumes.Key, n.Found.Image.Devices[0].Encrypted = "alias/x", true
		}},
		"an encrypted volume, which keeps its key": {"nodeclass", func(n *Node) {
			n.Found.Image.Devices[0].Encrypted = true
		}},
		"a launch template": {"launch-template", func(n *Node) {
			n.InstanceType, n.Profile, n.UserData = "m7g.large", "nodes", []byte("hello")
		}},
		"no image":                        {"launch-template", func(n *Node) { n.AMI = "" }},
		"a root volume that is too small": {"nodeclass", func(n *Node) { n.Volumes.Size = 4 }},
	} {
		t.Run(name, func(t *testing.T) {
			n := Node{Cluster: "c", Role: nodeRole, AMI: "ami-0123456789abcdef0", Family: "al2023", KarpenterFamily: "AL2023", Found: fresh()}
			c.change(&n)
			m, err := ByID(c.id)
			require.NoError(t, err)
			text, err := m.Write(n)
			if err != nil {
				assert.Empty(t, text)
				text = strings.TrimPrefix(err.Error(), "writing ") + "\n"
			}
			assert.Equal(t, built[name], text)
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
