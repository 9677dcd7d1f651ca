//go:build e2e

package node_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// treeScript leaves out what is no part of the disk, and what the machine itself
// writes: logs, systemd's clocks on disk and its services' temporary folders.
const treeScript = `find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /var/log \
	-o -path /var/lib/systemd/timesync -o -path /var/lib/systemd/timers -o -name 'systemd-private-*' \) -prune \
	-o -type d -printf '%p\t%y %m %U:%G\n' -o -printf '%p\t%y %m %U:%G %s %i %T@ %C@ %l\n'`

// tree is the machine's disk: what the file system says about each path. Of a
// file that includes the times of its last write and of its last change by the
// kernel's own account, so that equal trees have equal contents; folders' times
// and sizes change when a file comes and goes.
func (n *node) tree(t *testing.T) lab.Tree {
	t.Helper()
	seen := lab.Tree{}
	for _, line := range n.Lines(t, treeScript) {
		path, attributes, found := strings.Cut(line, "\t")
		require.True(t, found, line)
		seen[path] = attributes
	}
	require.Greater(t, len(seen), 5000, "that is no machine")
	return seen
}

// unchanged requires that the machine is as it was.
func (n *node) unchanged(t *testing.T, before lab.Tree) {
	t.Helper()
	require.Empty(t, n.tree(t).Since(before), "the machine is not as it was")
}

// except leaves out the changes that a pattern allows.
func except(changes []string, allowed *regexp.Regexp) []string {
	return slices.DeleteFunc(slices.Clone(changes), allowed.MatchString)
}
