package preflight

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

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
		"all fields":  minimal + testkit.Content(t, "testdata/fields.yaml"),
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
		"f.yaml:1: metadata.name: is missing":                                                            with("  name: default\n", "  labels: {}\n"),
		"f.yaml:7: spec.Role: unknown field; did you mean role?\nx":                                      with("role: node", "Role: node"),
		"f.yaml:6: spec.amiFamily: unknown value \"al2023\"; did you mean AL2023?":                       with("AL2023", "al2023"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tag: unknown field; did you mean tags?":                  with("- tags: {a: b}", "- tag: {a: b}"),
		"f.yaml:11: spec.subnetSelectorTerms[0]: must have one of tags, id":                              with("- tags: {a: b}", "- {}"),
		"f.yaml:11: spec.subnetSelectorTerms[0]: id must be alone in its term":                           with("- tags: {a: b}", "- {id: subnet-1, tags: {a: b}}"),
		`f.yaml:11: spec.subnetSelectorTerms[0].tags.a: is empty; write "*" for any value`:               with("{a: b}", "{a: ''}"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tags.a: must be text, not a boolean; put true in quotes": with("{a: b}", "{a: true}"),
		"f.yaml:11: spec.subnetSelectorTerms[0].tags.a: the field is set twice; first in line 11":        with("{a: b}", "{a: b, a: c}"),
		"f.yaml:5: spec.subnetSelectorTerms: must have at least one term":                                with("  subnetSelectorTerms:\n    - tags: {a: b}\n", ""),
		"f.yaml:9: spec.amiSelectorTerms[0]: alias must be alone in its term":                            with("id: ami-0123456789abcdef0", "{alias: al2023@latest, owner: self}"),
		`f.yaml:6: spec.amiFamily: "Bottlerocket" does not fit the alias al2023@latest`:                  with("id: ami-0123456789abcdef0", "alias: al2023@latest", "AL2023", "Bottlerocket"),
		`f.yaml:7: spec.role: "arn:aws:iam::1:role/x" is an ARN; Karpenter needs the role's name`:        with("role: node", "role: arn:aws:iam::1:role/x"),
		"f.yaml:5: spec: must have either role or instanceProfile":                                       with("role: node", "context: a"),
		"f.yaml:5: spec.amiFamily: is missing; only a term with alias makes it optional":                 with("  amiFamily: AL2023\n", "", "role: node", "role: node\n  context: a"),
		"f.yaml:14: spec.tags.kubernetes.io/cluster/a: this tag is Karpenter's own; leave it out":        minimal + "  tags: {kubernetes.io/cluster/a: owned}\n",
		"f.yaml:14: spec.tags.karpenter.sh/nodepool: this tag is Karpenter's own; leave it out":          minimal + "  tags: {karpenter.sh/nodepool: a}\n",
		"f.yaml:15: spec.blockDeviceMappings[0].ebs: must have snapshotID or volumeSize":                 minimal + "  blockDeviceMappings:\n    - ebs: {encrypted: true}\n",
		`f.yaml:14: spec.metadataOptions.httpTokens: unknown value "no"; known are required, optional`:   minimal + "  metadataOptions: {httpTokens: 'no'}\n",
		"f.yaml:14: spec.metadataOptions.httpPutResponseHopLimit: 65 is not between 1 and 64":            minimal + "  metadataOptions: {httpPutResponseHopLimit: 65}\n",
		"f.yaml:14: spec.metadataOptions.httpPutResponseHopLimit: must be a whole number, not text":      minimal + "  metadataOptions: {httpPutResponseHopLimit: '2'}\n",
		"f.yaml:14: spec.associatePublicIPAddress: must be true or false, not text":                      minimal + "  associatePublicIPAddress: 'yes'\n",
		"f.yaml:14: spec.role: the field is set twice; first in line 7":                                  minimal + "  role: other\n",
		"f.yaml:14: spec.kubelet: karpenter.k8s.aws/v1beta1 does not have this field":                    with("aws/v1", "aws/v1beta1") + "  kubelet: {}\n",
		"f.yaml:14: specs: unknown field; did you mean spec?":                                            minimal + "specs: {}\n",
		"f.yaml: line 2: mapping values are not allowed in this context":                                 "a: b\n c: d\n",
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
	require.EqualError(t, err, "standard input:14: spec.a: unknown field; known are amiFamily, amiSelectorTerms, associatePublicIPAddress, blockDeviceMappings, capacityReservationSelectorTerms, connectionTracking, context, cpuOptions, detailedMonitoring, instanceProfile, instanceStorePolicy, ipPrefixCount, kubelet, metadataOptions, networkInterfaces, placementGroupSelector, role, securityGroupSelectorTerms, subnetSelectorTerms, tags, userData")
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
		for _, check := range []func(*facts) *result{checkUserData, checkClass, checkSelectors, checkMetadata} {
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

// An access entry of another type is in use elsewhere. The remedy keeps the entry,
// and the evidence names its users.
func TestRemediesKeepOtherAccessEntries(t *testing.T) {
	const role = nodeRole
	for kind, users := range map[string]string{
		"EC2":            "EKS Auto Mode's nodes join with it",
		"EC2_WINDOWS":    "Windows nodes join with it",
		"FARGATE_LINUX":  "Fargate profiles run pods with it",
		"HYBRID_LINUX":   "hybrid nodes outside AWS join with it",
		"HYPERPOD_LINUX": "the nodes of SageMaker HyperPod join with it",
		"STANDARD":       "people or programs sign in with it",
		"SOMETHING_NEW":  "another user may need it",
	} {
		f := sample()
		f.entry = known(awsapi.AccessEntry{Type: kind})
		assertStays(t, f, "the access entry of "+role+" has the type "+kind+", but must have EC2_LINUX: "+users+", so keep the entry and give these nodes their own role")
	}
	f := sample()
	f.image.value.Platform = "windows"
	assertStays(t, f, "the access entry of "+role+" has the type EC2_LINUX, but must have EC2_WINDOWS: Linux nodes join with it, so keep the entry and give these nodes their own role")
}

func assertStays(t *testing.T, f *facts, evidence string) {
	t.Helper()
	said := found(t, f, "access")
	assert.Equal(t, Fail, said.Verdict)
	assert.Equal(t, evidence, said.Evidence)
	assert.True(t, strings.HasPrefix(said.Remedy, "aws iam create-role --role-name NODE-ROLE "), said.Remedy)
	assert.NoError(t, cli.Check(said.Remedy))
	for _, other := range f.check().Findings {
		assert.NotContains(t, other.Remedy, "delete-")
	}
}

// explained lists the remedies that do more than read or add, and why they lose
// nothing.
var explained = map[string]string{
	"ec2 start-instances":                           "only for a stopped instance that should join",
	"ec2 copy-image":                                "makes another image",
	"ec2 enable-image":                              "only for a disabled image",
	"kms enable-key":                                "only for a disabled key of a disk",
	"kms cancel-key-deletion":                       "keeps a key",
	"ec2 associate-address":                         "the address is new, and the instance has no address",
	"ec2 associate-dhcp-options":                    "only for a VPC without DHCP options",
	"ec2 associate-iam-instance-profile":            "EC2 refuses it where the instance has a profile",
	"ec2 create-tags":                               "sets one tag, which eksnode or the cluster gives its meaning",
	"ec2 modify-instance-attribute":                 "turns one attribute on",
	"ec2 modify-instance-metadata-options":          "turns one option on, the others stay",
	"ec2 modify-subnet-attribute":                   "turns one attribute on, for instances that are started later",
	"ec2 modify-vpc-attribute":                      "turns one attribute on",
	"ec2 modify-vpc-endpoint":                       "turns one option on, adds a route table, or repeats every statement of the policy",
	"eks update-nodegroup-config":                   "only for a node group that may have no nodes",
	"eks update-addon":                              "with PRESERVE, the role and the values that are set",
	"eks update-cluster-config":                     "turns private access on, the others stay",
	"iam add-client-id-to-open-id-connect-provider": "adds one audience",
	"iam update-assume-role-policy":                 "repeats every statement that the role has",
	"ec2 associate-subnet-cidr-block":               "adds an IPv6 network",
	"ec2 associate-vpc-cidr-block":                  "adds an IPv6 network",
	"ec2 assign-ipv6-addresses":                     "adds an address",
	"ec2 attach-internet-gateway":                   "only for a gateway that a route names and that is not attached",
	"ec2 replace-route":                             "only for a route whose target does not work",
}

// No remedy deletes or replaces what other machines may use.
func TestRemediesDeleteNothing(t *testing.T) {
	text := literals(t) + string(checksFile) + clustersetup.Node{Cluster: "%s", Role: "%s"}.MergeAuth()
	adds := regexp.MustCompile(`^(ec2|eks|iam|sts|ssm|kms|route53|configure) (describe-[a-z-]+|get-[a-z-]+|list(-[a-z-0-9]+)?|simulate-[a-z-]+|wait|create-[a-z-]+|allocate-address|attach-role-policy|add-role-to-instance-profile|authorize-security-group-.*)$`)
	used := map[string]bool{}
	commands := regexp.MustCompile(`\baws ([a-z0-9]+ [a-z%][a-z0-9%-]*)`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(commands), 25)
	for _, c := range commands {
		used[c[1]] = true
		if explained[c[1]] == "" {
			assert.Regexp(t, adds, c[1], "this remedy may remove something: explain it or drop it")
		}
	}
	for command := range explained {
		assert.True(t, used[command], "no remedy uses %s; remove it from explained", command)
	}
	for _, c := range regexp.MustCompile(`\bkubectl ([a-z]+)[^"`+"`"+`]*`).FindAllStringSubmatch(text, -1) {
		switch c[1] {
		case "get", "edit":
		case "apply": // replaces only the merged version: kubectl sends the resource version
			assert.Equal(t, "kubectl apply -f -", c[0])
			assert.Contains(t, text, "eksnode manifests --cluster %s --role %s --only aws-auth --aws-auth -")
		default:
			t.Errorf("a remedy has %q", c[0])
		}
	}
	assert.Equal(t, 1, strings.Count(text, "kubectl apply"))
}

// literals returns the string literals of the package's sources, one per line.
func literals(t *testing.T) string {
	t.Helper()
	files := testkit.Glob(t, "*.go")
	var all strings.Builder
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if text, found := n.(*ast.BasicLit); found && text.Kind == token.STRING {
				all.WriteString(text.Value + "\n")
			}
			return true
		})
	}
	return all.String()
}
