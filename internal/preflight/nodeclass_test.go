package preflight

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// minimal is an EC2NodeClass that the API server accepts.
const minimal = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
spec:
  amiFamily: AL2023
  role: node
  amiSelectorTerms:
    - id: ami-0123456789abcdef0
  subnetSelectorTerms:
    - tags: {a: b}
  securityGroupSelectorTerms:
    - tags: {a: "*"}
`

func TestNodeClassesAreReadFromEveryManifest(t *testing.T) {
	indented := "  - " + strings.ReplaceAll(strings.TrimRight(minimal, "\n"), "\n", "\n    ") + "\n"
	for name, text := range map[string]string{
		"alone":            minimal,
		"after a NodePool": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\n---\n# nothing\n---\n" + minimal,
		"a List":           "apiVersion: v1\nkind: List\nitems:\n" + indented,
		"kubectl get":      minimal + "status:\n  conditions: [{type: Ready}]\n",
		"v1beta1":          strings.Replace(minimal, "aws/v1", "aws/v1beta1", 1),
		"JSON": `{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"default"},"spec":{"role":"node","amiSelectorTerms":[{"alias":"al2023@latest"}],` +
			`"subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[{"id":"sg-1"}]}}`,
		"an anchor":   strings.NewReplacer("tags: {a: b}", "tags: &x {a: b}", `tags: {a: "*"}`, "tags: *x").Replace(minimal),
		"a parameter": strings.Replace(minimal, "id: ami-0123456789abcdef0", "ssmParameter: /eksnode/debian", 1),
		"all fields": minimal + `  associatePublicIPAddress: false
  blockDeviceMappings:
    - deviceName: /dev/xvda
      rootVolume: true
      ebs: {volumeSize: 20Gi, volumeType: gp3, iops: 3000, throughput: 125, encrypted: true, kmsKeyID: alias/a, snapshotID: snap-1, volumeInitializationRate: 100, deleteOnTermination: true}
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}
  kubelet: {maxPods: 20}
  tags: {team: a}
  instanceStorePolicy: RAID0
  detailedMonitoring: true
  capacityReservationSelectorTerms: [{id: cr-1}]
  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]
  connectionTracking: {udpTimeout: 30}
  cpuOptions: {nestedVirtualization: enabled}
  placementGroupSelector: {name: a}
  ipPrefixCount: 1
  context: abc
`,
	} {
		c, err := ReadNodeClass("f.yaml", []byte(text))
		require.NoError(t, err, name)
		assert.Equal(t, "default", c.Name, name)
		assert.Equal(t, "node", c.Role, name)
		assert.NotEmpty(t, c.Subnets, name)
	}
}

func TestWrongNodeClassesAreRefused(t *testing.T) {
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(minimal) }
	second := strings.Replace(minimal, "name: default", "name: second", 1)
	for want, text := range map[string]string{
		"f.yaml: the manifest is empty; `kubectl get ec2nodeclass NAME -o yaml` prints it": " \n",
		"f.yaml: there is no EC2NodeClass":                                                 "apiVersion: karpenter.sh/v1\nkind: NodePool\n",
		"f.yaml: there are 2 EC2NodeClasses: default (line 1), second (line 15); pass one of them, for example with `kubectl get ec2nodeclass NAME -o yaml | eksnode preflight --cluster CLUSTER --nodeclass -`": minimal + "---\n" + second,
		`f.yaml:1: kind: Pod (v1) is not an EC2NodeClass`:      "apiVersion: v1\nkind: Pod\n",
		"f.yaml:1: kind: is missing":                           "apiVersion: v1\n",
		"f.yaml:1: expected a Kubernetes object, found a list": "- a\n",
		"f.yaml:1: items: must be a list":                      "apiVersion: v1\nkind: List\n",
		`f.yaml:1: apiVersion: "karpenter.k8s.aws/v2" is not known for an EC2NodeClass; known are karpenter.k8s.aws/v1 and karpenter.k8s.aws/v1beta1`:                                  with("aws/v1", "aws/v2"),
		"f.yaml:1: kind: auto is a NodeClass of EKS Auto Mode, which runs only AWS's own images; your own images need Karpenter's EC2NodeClass (karpenter.k8s.aws/v1) or a node group": "apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: auto}\n",
		"f.yaml:1: metadata.name: is missing":                       with("  name: default\n", "  labels: {}\n"),
		"f.yaml:7: spec.Role: unknown field; did you mean role?\nx": with("role: node", "Role: node"),
		"f.yaml:6: spec.amiFamily: \"al2023\" is not known; known are AL2, AL2023, Bottlerocket, Custom, Ubuntu, Windows2019, Windows2022, Windows2025": with("AL2023", "al2023"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tag: unknown field; did you mean tags?":                                                                 with("- tags: {a: b}", "- tag: {a: b}"),
		"f.yaml:11: spec.subnetSelectorTerms[0]: must have one of tags, id":                                                                             with("- tags: {a: b}", "- {}"),
		"f.yaml:11: spec.subnetSelectorTerms[0]: id must be alone in its term":                                                                          with("- tags: {a: b}", "- {id: subnet-1, tags: {a: b}}"),
		`f.yaml:11: spec.subnetSelectorTerms[0].tags.a: is empty; write "*" for any value`:                                                              with("{a: b}", "{a: ''}"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tags.a: expected a text, found true or false; put the value in quotes":                                  with("{a: b}", "{a: true}"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tags.a: this tag is already set in line 11":                                                             with("{a: b}", "{a: b, a: c}"),
		"f.yaml:6: spec.subnetSelectorTerms: must have at least one term":                                                                               with("  subnetSelectorTerms:\n    - tags: {a: b}\n", ""),
		"f.yaml:9: spec.amiSelectorTerms[0]: alias must be alone in its term":                                                                           with("id: ami-0123456789abcdef0", "{alias: al2023@latest, owner: self}"),
		`f.yaml:6: spec.amiFamily: "Bottlerocket" does not fit the alias al2023@latest`:                                                                 with("id: ami-0123456789abcdef0", "alias: al2023@latest", "AL2023", "Bottlerocket"),
		`f.yaml:7: spec.role: "arn:aws:iam::1:role/x" is an ARN; Karpenter needs the role's name`:                                                       with("role: node", "role: arn:aws:iam::1:role/x"),
		"f.yaml:6: spec: must have either role or instanceProfile":                                                                                      with("role: node", "context: a"),
		"f.yaml:6: spec.amiFamily: is missing; only a term with alias makes it optional":                                                                with("  amiFamily: AL2023\n", "", "role: node", "role: node\n  context: a"),
		"f.yaml:14: spec.tags.kubernetes.io/cluster/a: this tag is Karpenter's own; leave it out":                                                       minimal + "  tags: {kubernetes.io/cluster/a: owned}\n",
		"f.yaml:14: spec.tags.karpenter.sh/nodepool: this tag is Karpenter's own; leave it out":                                                         minimal + "  tags: {karpenter.sh/nodepool: a}\n",
		"f.yaml:15: spec.blockDeviceMappings[0].ebs: must have snapshotID or volumeSize":                                                                minimal + "  blockDeviceMappings:\n    - ebs: {encrypted: true}\n",
		`f.yaml:14: spec.metadataOptions.httpTokens: "no" is not known; known are required, optional`:                                                   minimal + "  metadataOptions: {httpTokens: 'no'}\n",
		"f.yaml:14: spec.metadataOptions.httpPutResponseHopLimit: 65 is not between 1 and 64":                                                           minimal + "  metadataOptions: {httpPutResponseHopLimit: 65}\n",
		"f.yaml:14: spec.metadataOptions.httpPutResponseHopLimit: expected a whole number, found a text":                                                minimal + "  metadataOptions: {httpPutResponseHopLimit: '2'}\n",
		"f.yaml:14: spec.associatePublicIPAddress: expected true or false, found a text":                                                                minimal + "  associatePublicIPAddress: 'yes'\n",
		"f.yaml:14: spec.role: this field is already set in line 7":                                                                                     minimal + "  role: other\n",
		"f.yaml:14: spec.kubelet: karpenter.k8s.aws/v1beta1 does not have this field":                                                                   with("aws/v1", "aws/v1beta1") + "  kubelet: {}\n",
		"f.yaml:14: specs: unknown field":                                                                                                               minimal + "specs: {}\n",
		"f.yaml: line 2: mapping values are not allowed in this context":                                                                                "a: b\n c: d\n",
	} {
		want, _, part := strings.Cut(want, "\nx")
		_, err := ReadNodeClass("f.yaml", []byte(text))
		require.Error(t, err, want)
		if part {
			assert.Contains(t, err.Error(), want)
		} else {
			assert.EqualError(t, err, want)
		}
	}
	_, err := ReadNodeClass("-", []byte(minimal+"  a: b\n"))
	require.EqualError(t, err, "standard input:14: spec.a: unknown field")
	_, err = ReadNodeClass("f.yaml", []byte(strings.Repeat("#", mostYAML+1)))
	require.EqualError(t, err, "f.yaml: the manifest has more than 256 KiB")
}

// What a file sends is printed without control characters, and bounded.
func TestFaultsOfNodeClassesArePrintable(t *testing.T) {
	_, err := ReadNodeClass("f.yaml", []byte(minimal+"  \"\\e[31mred"+strings.Repeat("x", 9000)+"\": 1\n"))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "\x1b")
	assert.Less(t, len(err.Error()), 600)
	_, err = ReadNodeClass("f.yaml", []byte(minimal+strings.Repeat("  - x\n", 10)))
	require.Error(t, err)
}

func FuzzNodeClass(f *testing.F) {
	for _, text := range []string{
		"", minimal, minimal + "---\n" + minimal, "apiVersion: v1\nkind: List\nitems: [1]\n", "a: &a [*a]\n", "kind: EC2NodeClass\napiVersion: karpenter.k8s.aws/v1\nspec: &s {kubelet: *s}\n",
		minimal + "  kubelet: {maxPods: 1, x: {y: [1]}}\n  userData: |\n    MIME-Version: 1.0\n", minimal + "  blockDeviceMappings: [{}, {deviceName: a, ebs: {}}]\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadNodeClass("f.yaml", []byte(text))
		if err != nil {
			assert.NotContains(t, err.Error(), "\x1b")
			return
		}
		all := &facts{target: Target{Cluster: "c", NodeClass: c}}
		all.launch = learn(c.launch(selected{}, "c"), nil)
		all.userData = c.userData()
		for _, check := range []func(*facts) result{checkUserData, checkClass, checkSelectors, checkMetadata} {
			assert.NotEmpty(t, check(all).verdict)
		}
	})
}

func TestTheFileOfANodeClassIsQuotedInCommands(t *testing.T) {
	c, err := ReadNodeClass("my class.yaml", []byte(minimal))
	require.NoError(t, err)
	assert.Equal(t, "eksnode preflight --cluster a --nodeclass 'my class.yaml' --kubelet-version 1.34.1 --aws-auth -",
		Target{Cluster: "a", NodeClass: c, Kubelet: "1.34.1"}.command("--aws-auth -"))
}
