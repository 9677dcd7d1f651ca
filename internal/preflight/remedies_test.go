package preflight

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

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
	text := literals(t)
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
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
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
