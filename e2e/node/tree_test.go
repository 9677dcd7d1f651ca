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

// treeScript leaves out paths that are not on the disk, and paths that the
// machine itself writes: logs, systemd's clocks on disk and its services'
// temporary folders.
const treeScript = `find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /var/log \
	-o -path /var/lib/systemd/timesync -o -path /var/lib/systemd/timers -o -name 'systemd-private-*' \) -prune \
	-o -type d -printf '%p\t%y %m %U:%G\n' -o -printf '%p\t%y %m %U:%G %s %i %T@ %C@ %l\n'`

// tree returns the properties of each path on the machine's disk. Files include
// the times of their last write and of their last inode change, so that equal
// trees have equal contents. Folders have no times and sizes, because they
// change when a file is added or removed.
func (n *node) tree(t *testing.T) lab.Tree {
	t.Helper()
	seen := lab.Tree{}
	for _, line := range n.Lines(t, treeScript) {
		path, attributes, found := strings.Cut(line, "\t")
		require.True(t, found, line)
		seen[path] = attributes
	}
	require.Greater(t, len(seen), 5000, "the listing of the machine's disk is too short")
	return seen
}

// unchanged requires that the machine's disk is unchanged.
func (n *node) unchanged(t *testing.T, before lab.Tree) {
	t.Helper()
	require.Empty(t, n.tree(t).Since(before), "the machine has changed")
}

// except leaves out the changes that a pattern allows.
func except(changes []string, allowed *regexp.Regexp) []string {
	return slices.DeleteFunc(slices.Clone(changes), allowed.MatchString)
}
