package nodeconfig

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every problem of a merged NodeConfig has the line of the user data that has the
// value, or the object that lacks the value.
func TestProblemsHaveTheirLines(t *testing.T) {
	const head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
	first := head + "spec:\n  cluster:\n    name: a b\n    apiServerEndpoint: a\n  kubelet:\n    flags: [--v=2, \"a\\nb\"]\n"
	second := head + "spec:\n  instance:\n    localStorage: {strategy: RAID1}\n  kubelet:\n    flags:\n    - \"c\\nd\"\n"
	text := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: application/node.eks.aws\n\n" + first +
		"--X\nContent-Type: application/node.eks.aws\n\n" + second + "--X--\n"
	c, _, err := Parse([]byte(text))
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(c.Located(c.Validate()).Error()) {
		at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		field, _, _ := strings.Cut(rest, ": ")
		lines = append(lines, at+" "+field)
	}
	assert.Equal(t, []string{
		"line 10 spec.cluster.certificateAuthority", "line 10 spec.cluster.cidr", "line 11 spec.cluster.name", "line 12 spec.cluster.apiServerEndpoint",
		"line 14 spec.kubelet.flags[1]", "line 25 spec.kubelet.flags[2]", "line 22 spec.instance.localStorage.strategy",
	}, lines)

	c, _, err = Parse([]byte(head))
	require.NoError(t, err)
	assert.Contains(t, c.Located(c.Validate()).Error(), "line 2: spec.cluster.name: is missing")
	assert.NoError(t, c.Located(nil))
}
