package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWildcard(t *testing.T) {
	for _, test := range []struct {
		pattern, value string
		want           bool
	}{
		{"al2023-*-x86_64", "al2023-ami-2023.9-x86_64", true},
		{"al2023-*-x86_64", "al2023-ami-2023.9-arm64", false},
		{"*", "ubuntu/images/hvm-ssd", true},
		{"node?", "node1", true},
		{"node?", "node", false},
		{"a.c", "abc", false},
		{"", "", true},
		{"exact", "exactly", false},
	} {
		assert.Equal(t, test.want, wildcard(test.pattern, test.value), "%s %s", test.pattern, test.value)
	}
}
