package checks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The program that travels to machines, built with the tag agent, has none of
// the SDK's clients: they would double what a first boot reads from a cold disk.
func TestTheAgentLeavesTheDeskBehind(t *testing.T) {
	deps := strings.Fields(run(t, "go", "list", "-deps", "-tags", "agent", "./cmd/eksnode"))
	for _, d := range deps {
		assert.NotContains(t, d, "github.com/aws/aws-sdk-go-v2/service/")
		assert.NotEqual(t, module+"/internal/preflight", d)
		assert.NotEqual(t, module+"/internal/awsapi", d)
	}
	assert.Contains(t, strings.Fields(run(t, "go", "list", "-deps", "./cmd/eksnode")), module+"/internal/preflight", "the desk's has them")
}
