package clustersetup

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
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

// fresh is what was read where nothing exists but the cluster.
func fresh() Found {
	return Found{
		Cluster: awsapi.Cluster{AuthenticationMode: "API_AND_CONFIG_MAP", ARN: "arn:aws:eks:eu-west-1:123456789012:cluster/c",
			ClusterSecurityGroup: "sg-1", Subnets: []string{"subnet-1", "subnet-2"}},
		Entry: &awsapi.AccessEntry{}, Role: &awsapi.Role{}, CNIRole: &awsapi.Role{}, Profile: &awsapi.Profile{},
		IPv6Policy: new(string), CNI: &CNI{Addon: true},
		Image: &awsapi.Image{ID: "ami-0123456789abcdef0", RootDevice: "/dev/sda1",
			Devices: []awsapi.BlockDevice{{Name: "/dev/sda1", Snapshot: "snap-1", Size: 8}}},
	}
}

const trustEC2 = `{"Statement":[{"Action":["sts:AssumeRole"],"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}],"Version":"2012-10-17"}`

func TestPrintedCommands(t *testing.T) {
	n := Node{Cluster: "c", Role: role, Found: fresh()}
	n.SSM, n.CNIOnNode = true, true
	assert.Contains(t, write(t, "policies", n), "policy/AmazonSSMManagedInstanceCore\naws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy\n")
	n.Windows = true
	assert.Contains(t, write(t, "access-entry", n), "--type EC2_WINDOWS\n")
	n.Windows, n.Found.Cluster.IPFamily, n.Subnets, n.Role = false, "ipv6", []string{"subnet-1", "subnet-2"}, "arn:aws-cn:iam::123456789012:role/node"
	assert.Contains(t, write(t, "tags", n), "--resources subnet-1 subnet-2 --tags Key=kubernetes.io/cluster/c,Value=shared\n")
	assert.Contains(t, write(t, "role", n), `{"Service":"ec2.amazonaws.com.cn"}`)
	assert.NotContains(t, write(t, "role", n), "--path")
	policies := write(t, "policies", n)
	assert.Contains(t, policies, "arn:aws-cn:iam::aws:policy/AmazonEKSWorkerNodePolicy")
	assert.Contains(t, policies, `"Action":["ec2:CreateTags"],"Effect":"Allow","Resource":"arn:aws-cn:ec2:*:*:network-interface/*"`)
	assert.Contains(t, policies, "arn:aws-cn:iam::123456789012:policy/AmazonEKS_CNI_IPv6_Policy")
	for _, action := range IPv6Actions {
		assert.Contains(t, policies, `"`+action+`"`)
	}
}

// The commands use only operations and parameters that the AWS CLI has.
func TestTheAWSCLIAcceptsTheCommands(t *testing.T) {
	n := Node{
		Cluster: "c", Role: role, AMI: "resolve:ssm:/nodes/1.34", InstanceType: "m7g.large", Profile: "nodes",
		UserData: []byte("hello"), Subnets: []string{"subnet-1"}, SSM: true, Found: fresh(),
	}
	for _, change := range []func(){
		func() {}, func() { n.Windows = true }, func() { n.Windows, n.Found.Cluster.IPFamily = false, "ipv6" }, func() { n.Volumes.Rate = 200 }, func() { n.CNIOnNode = true },
	} {
		change()
		for _, id := range []string{"role", "policies", "cni-role", "access-entry", "tags"} {
			if id == "cni-role" && n.CNIOnNode {
				continue
			}
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

func TestAWSAuthIsCreatedOrCompleted(t *testing.T) {
	n := Node{Cluster: "c", Role: role}
	const created = `apiVersion: v1
kind: ConfigMap
metadata:
  name: aws-auth
  namespace: kube-system
  uid: 00000000-0000-0000-0000-000000000000
data:
  mapRoles: |
    - rolearn: arn:aws:iam::123456789012:role/node
      username: system:node:{{EC2PrivateDNSName}}
      groups:
        - system:bootstrappers
        - system:nodes
`
	const head = "# This creates aws-auth in a cluster without one. If aws-auth exists, the\n# API server refuses it, because of the uid, and nothing is replaced.\n" +
		"# To merge with that one: kubectl get configmap aws-auth -n kube-system -o yaml | eksnode manifests --cluster c --role " + role + " --only aws-auth --aws-auth - | kubectl apply -f -\n"
	assert.Equal(t, head+created, write(t, "aws-auth", n))

	const given = "# The given ConfigMap has no resourceVersion, which would reveal later changes.\n"
	n.AWSAuth = []byte(created)
	assert.Equal(t, given+head+"# Nothing changes.\n"+created, write(t, "aws-auth", n))
	n.AWSAuth = []byte(strings.Replace(created, "uid: ", "resourceVersion: \"0\"\n  uid: ", 1))
	assert.Equal(t, given+head+"# Nothing changes.\n"+created, write(t, "aws-auth", n), "resourceVersion 0 must be dropped, because it would replace any ConfigMap")

	live := strings.Replace(created, "uid: 0", "resourceVersion: \"7\"\n  uid: 1", 1)
	n.AWSAuth, n.Windows = []byte(live), true
	assert.Equal(t, "# Line 1 of mapRoles has the role already. Its entry also gets eks:kube-proxy-windows.\n# What changes in mapRoles:\n# +     - eks:kube-proxy-windows\n"+
		live+"        - eks:kube-proxy-windows\n", write(t, "aws-auth", n))
}

// Other entries stay byte for byte, also unknown ones.
func TestAWSAuthKeepsOtherEntries(t *testing.T) {
	const roles = `# made by hand
- rolearn: arn:aws:iam::1:role/other
  username:   "x"
  groups: [g]
  extra: z
- {rolearn: "` + role + `", username: wrong, groups: [system:nodes, mine]}
- rolearn: arn:aws:iam::1:role/last
  username: last
  groups: ['h']
# the end`
	n := Node{Cluster: "c", Role: role, AWSAuth: []byte(`apiVersion: v1
kind: ConfigMap
immutable: false
metadata: {name: aws-auth, namespace: kube-system, resourceVersion: "7", uid: abc, labels: {a: b}}
data:
  mapUsers: |
    - userarn: arn:aws:iam::1:user/a # the boss
  mapAccounts: "[\"111111111111\"]"
  mine: "a\tb \n"
  mapRoles: |-
    ` + strings.ReplaceAll(roles, "\n", "\n    ") + "\nbinaryData: {x: eA==}\n")}
	text := write(t, "aws-auth", n)
	var m map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &m))
	assert.Equal(t, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": false, "binaryData": map[string]any{"x": "eA=="},
		"metadata": map[string]any{"name": "aws-auth", "namespace": "kube-system", "resourceVersion": "7", "uid": "abc", "labels": map[string]any{"a": "b"}},
		"data": map[string]any{
			"mapUsers": "- userarn: arn:aws:iam::1:user/a # the boss\n", "mapAccounts": `["111111111111"]`, "mine": "a\tb \n",
			"mapRoles": roles + "\n" + n.entry(""),
		},
	}, m)
	assert.Contains(t, text, "# Line 6 of mapRoles names the role with its path, which the authenticator ignores. The line stays, and an entry without the path is added.\n")
	assert.NotContains(t, text, "# - ")
	assert.Contains(t, text, "# + - rolearn: arn:aws:iam::123456789012:role/node\n")
}

// The role's entry is completed in place, in every YAML form.
func TestMapRolesAreMerged(t *testing.T) {
	const arn, end = "arn:aws:iam::123456789012:role/node", "\"system:bootstrappers\""
	own := "- rolearn: " + arn + "\n  username: " + Username + "\n"
	entry := (Node{Role: role}).entry
	flow := `{rolearn: "` + arn + `", username: "` + Username + `", groups: ["system:bootstrappers", "system:nodes"]}`
	for name, c := range map[string]struct{ old, want string }{
		"empty":                 {"", entry("")},
		"null":                  {"null\n", entry("")},
		"a comment":             {"# none yet", "# none yet\n" + entry("")},
		"an empty list":         {"[]", "[" + flow + "]"},
		"a flow list":           {"[{rolearn: a}] # ]\n", "[{rolearn: a}, " + flow + "] # ]\n"},
		"JSON":                  {`[{"rolearn":"a","groups":[]}]`, `[{"rolearn":"a","groups":[]}, ` + flow + `]`},
		"a trailing comma":      {"[{rolearn: a},]", "[{rolearn: a}," + flow + "]"},
		"indented":              {"  - rolearn: a\n    groups:\n    - b", "  - rolearn: a\n    groups:\n    - b\n" + entry("  ")},
		"a closed document":     {"- rolearn: a\n...\n", "- rolearn: a\n" + entry("")},
		"complete":              {own + "  groups: [system:nodes, 'system:bootstrappers', x]", own + "  groups: [system:nodes, 'system:bootstrappers', x]"},
		"complete, other case":  {strings.Replace(entry(""), ":role/node", ":role/NODE", 1), strings.Replace(entry(""), ":role/node", ":role/NODE", 1)},
		"groups in a block":     {own + "  groups:\n  - system:nodes # ours\n- rolearn: b\n", own + "  groups:\n  - system:nodes # ours\n  - system:bootstrappers\n- rolearn: b\n"},
		"groups at the end":     {own + "  groups:\n    - system:nodes", own + "  groups:\n    - system:nodes\n    - system:bootstrappers"},
		"groups in a flow":      {own + "  groups: [system:nodes] # x\n", own + "  groups: [system:nodes, " + end + "] # x\n"},
		"groups in quotes":      {own + "  groups: ['system:nodes']\n", own + "  groups: ['system:nodes', " + end + "]\n"},
		"multi-byte characters": {"- {rolearn: é}\n- {x: é, rolearn: " + arn + ", username: '" + Username + "', groups: [é, system:nodes]}\n", "- {rolearn: é}\n- {x: é, rolearn: " + arn + ", username: '" + Username + "', groups: [é, system:nodes, " + end + "]}\n"},
		"no groups":             {own, own + "  groups:\n    - system:bootstrappers\n    - system:nodes\n"},
		"aliases":               {"- &n {rolearn: " + arn + ", username: &u '" + Username + "', groups: &g [system:nodes, 'system:bootstrappers']}\n- *n\n- {rolearn: " + arn + ", username: *u, groups: *g}", "- &n {rolearn: " + arn + ", username: &u '" + Username + "', groups: &g [system:nodes, 'system:bootstrappers']}\n- *n\n- {rolearn: " + arn + ", username: *u, groups: *g}"},
		"twice, the last holds": {strings.Replace(own, Username, "x", 1) + own + "  groups: [system:nodes]\n", strings.Replace(own, Username, "x", 1) + own + "  groups: [system:nodes, " + end + "]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			n := Node{Cluster: "c", Role: role}
			got, _, err := n.merge(c.old)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			again, _, err := n.merge(got)
			require.NoError(t, err)
			assert.Equal(t, got, again, "a second merge must change nothing")
		})
	}
}

func TestInvalidInputIsRefused(t *testing.T) {
	const print = "`kubectl get configmap aws-auth -n kube-system -o yaml`"
	auth := func(data string) Node {
		return Node{Cluster: "c", Role: role, AWSAuth: []byte("kind: ConfigMap\nmetadata: {resourceVersion: \"7\"}\ndata: " + data + "\n")}
	}
	raw := func(text string) Node { return Node{Cluster: "c", Role: role, AWSAuth: []byte(text)} }
	const reading = "writing aws-auth: reading the ConfigMap: "
	for want, n := range map[string]Node{
		"windows: EKS does not support Windows nodes in IPv6 clusters": {
			Cluster: "c", Role: role, Windows: true, Found: Found{Cluster: awsapi.Cluster{IPFamily: "ipv6"}},
		},
		reading + "the input is not a ConfigMap; " + print + " prints it":                                                                                    raw("kind: Secret\n"),
		reading + "the input is empty; " + print + " prints it, and a cluster without aws-auth needs no --aws-auth":                                          raw("\n"),
		reading + "the input has more than one document; " + print + " prints one":                                                                           raw("kind: ConfigMap\n---\nkind: ConfigMap\n"),
		reading + "the ConfigMap is \"x\" in the namespace \"default\"; " + print + " prints aws-auth":                                                       raw("kind: ConfigMap\nmetadata: {name: x, namespace: default}\n"),
		reading + "line 2: metadata is not an object":                                                                                                        raw("kind: ConfigMap\nmetadata: x\n"),
		reading + "the ConfigMap has 4194320 bytes, but Kubernetes stores at most 1 MiB":                                                                     raw("kind: ConfigMap\n" + strings.Repeat("#", 4<<20)),
		reading + "line 3: did not find expected ',' or '}'":                                                                                                 auth("{a: b"),
		reading + "line 3: data is not an object":                                                                                                            auth("[]"),
		reading + "line 4: mapRoles is not a string":                                                                                                         auth("\n  mapRoles: [x]"),
		reading + "reading mapRoles: line 1: mapRoles is not a list":                                                                                         auth("{mapRoles: 'a: b'}"),
		reading + "reading mapRoles: line 2: did not find expected '-' indicator":                                                                            auth("{mapRoles: \"- rolearn: a\\nb: c\\n\"}"),
		reading + "reading mapRoles: line 2: the authenticator cannot read this entry":                                                                       auth("{mapRoles: \"- rolearn: a\\n- b\\n\"}"),
		reading + "reading mapUsers: line 1: mapUsers is not a list":                                                                                         auth("{mapUsers: 'a'}"),
		reading + "reading mapAccounts: line 1: the authenticator cannot read this entry":                                                                    auth("{mapAccounts: '[{}]'}"),
		"writing aws-auth: comparing the merged ConfigMap with the original: yaml: unmarshal errors:\n  line 4: mapping key \"x\" already defined at line 3": auth("{x: a,\n  x: b}"),
		"writing aws-auth: merging mapRoles: line 1 gives arn:aws:iam::123456789012:role/node the username \"system:node:{{SessionName}}\", but nodes need system:node:{{EC2PrivateDNSName}}: " +
			"other users may need the entry, so give these nodes their own role, or change the entry with `kubectl edit configmap aws-auth -n kube-system`": auth("{mapRoles: '[{rolearn: \"arn:aws:iam::123456789012:role/node\", username: \"system:node:{{SessionName}}\"}]'}"),
		"writing aws-auth: merging mapRoles: line 3: other entries may have these groups by an alias of YAML: add system:bootstrappers with `kubectl edit configmap aws-auth -n kube-system`": auth("\n  mapRoles: |\n    - rolearn: b\n      groups: &g [x, system:nodes]\n    - {rolearn: " + nodeRole + ", username: '" + Username + "', groups: *g}"),
		"writing aws-auth: merging mapRoles: line 1: other entries may have these groups by an alias of YAML: add system:bootstrappers with `kubectl edit configmap aws-auth -n kube-system`": auth("\n  mapRoles: |\n    - {rolearn: " + nodeRole + ", username: '" + Username + "', groups: &g [system:nodes]}\n    - {rolearn: b, groups: *g}"),
	} {
		m, err := ByID("aws-auth")
		require.NoError(t, err)
		text, err := m.Write(n)
		assert.EqualError(t, err, want)
		assert.Empty(t, text)
	}
	_, err := ByID("x")
	assert.EqualError(t, err, `the manifest "x" is unknown; known manifests are role, policies, cni-role, access-entry, aws-auth, vpc-cni, launch-template, nodeclass, tags`)
}

// FuzzAWSAuth merges any ConfigMap. The result keeps all entries, and cannot replace
// an existing ConfigMap.
func FuzzAWSAuth(f *testing.F) {
	for _, roles := range []string{"", "null", "[]", "- rolearn: a", "- rolearn: " + role, "- &a {rolearn: b}\n- *a", "- rolearn: >\n    a\n\n# end", "[{rolearn: é}] # ]", "- rolearn: a\r\n"} {
		f.Add(roles, "- userarn: arn:aws:iam::1:user/a # x\n", "7")
		f.Add(roles, " \ta \n\n", "0")
	}
	f.Fuzz(func(t *testing.T, roles, other, version string) {
		old := map[string]any{
			"kind": "ConfigMap", "metadata": map[string]any{"resourceVersion": version, "labels": map[string]any{"a": other}},
			"data": map[string]any{"mapRoles": roles, "other": other},
		}
		text, err := json.Marshal(old)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &old)) // JSON has only valid characters
		out, err := writeAWSAuth(Node{Cluster: "c", Role: role, AWSAuth: text})
		if err != nil {
			return
		}
		var m struct {
			Metadata struct {
				ResourceVersion, UID string
				Labels               map[string]string
			}
			Data map[string]string
		}
		require.NoError(t, yaml.Unmarshal([]byte(out), &m), "%q", out)
		data := old["data"].(map[string]any)
		assert.Equal(t, data["other"], m.Data["other"])
		assert.Equal(t, data["other"], m.Metadata.Labels["a"])
		if m.Metadata.ResourceVersion == "" || m.Metadata.ResourceVersion == "0" {
			assert.Equal(t, createOnly, m.Metadata.UID)
		}
		before, err := entries("mapRoles", data["mapRoles"].(string), kyaml.MappingNode)
		require.NoError(t, err)
		after, err := entries("mapRoles", m.Data["mapRoles"], kyaml.MappingNode)
		require.NoError(t, err)
		if before != nil {
			require.GreaterOrEqual(t, len(after.Content), len(before.Content))
		}
	})
}
