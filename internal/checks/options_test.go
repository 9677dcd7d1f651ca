package checks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The agent is built with the tag agent. It contains the AWS clients of the
// services that a node calls, and the SDK's own clients for credentials. Every
// other client would make it larger.
func TestAgentLacksWorkstationClients(t *testing.T) {
	const service = "github.com/aws/aws-sdk-go-v2/service/"
	var services []string
	for _, d := range strings.Fields(run(t, "go", "list", "-deps", "-tags", "agent", "./cmd/eksnode")) {
		if name, ok := strings.CutPrefix(d, service); ok && !strings.Contains(name, "/") {
			services = append(services, name)
		}
		assert.NotEqual(t, module+"/internal/preflight", d)
		assert.NotEqual(t, module+"/internal/awsapi", d)
		assert.NotEqual(t, module+"/internal/ami/attest", d)
		assert.False(t, strings.HasPrefix(d, "github.com/spdx/"), d)
		assert.False(t, strings.HasPrefix(d, "github.com/hashicorp/hcl/"), d)
	}
	assert.ElementsMatch(t, []string{"ec2", "eks", "sts", "signin", "sso", "ssooidc"}, services)
	assert.Contains(t, strings.Fields(run(t, "go", "list", "-deps", "./cmd/eksnode")), module+"/internal/preflight", "the workstation's program must contain the client")
}

// The page about options names tests that exist.
func TestTheTestsOfOptionsExist(t *testing.T) {
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(read(t, "docs/reference/options.md"), -1)
	require.NotEmpty(t, names)
	var tests strings.Builder
	for _, s := range sources(t) {
		if s.isTest() {
			tests.WriteString(read(t, s.name))
		}
	}
	for _, name := range names {
		assert.True(t, strings.Contains(tests.String(), "func "+name+"("),
			"docs/reference/options.md: there is no %s", name)
	}
}
