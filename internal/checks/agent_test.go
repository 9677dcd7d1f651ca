package checks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The program that travels to machines, built with the tag agent, has the
// clients of the services that a node asks, and those by which the SDK gets
// credentials. All others would make it larger.
func TestTheAgentLeavesTheDeskBehind(t *testing.T) {
	const service = "github.com/aws/aws-sdk-go-v2/service/"
	var services []string
	for _, d := range strings.Fields(run(t, "go", "list", "-deps", "-tags", "agent", "./cmd/eksnode")) {
		if name, ok := strings.CutPrefix(d, service); ok && !strings.Contains(name, "/") {
			services = append(services, name)
		}
		assert.NotEqual(t, module+"/internal/preflight", d)
		assert.NotEqual(t, module+"/internal/awsapi", d)
	}
	assert.ElementsMatch(t, []string{"ec2", "eks", "sts", "signin", "sso", "ssooidc"}, services)
	assert.Contains(t, strings.Fields(run(t, "go", "list", "-deps", "./cmd/eksnode")), module+"/internal/preflight", "the workstation's has them")
}
