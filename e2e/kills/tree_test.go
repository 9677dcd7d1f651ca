//go:build e2e

package kills_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// free is what may differ between two runs that nobody disturbed, and why.
func free() *regexp.Regexp {
	return regexp.MustCompile(`^(` + strings.Join([]string{
		`/var/log(/.*)?`, `/run/(log|utmp|cloud-init/ds-identify\.log)(/.*)?`, // logs tell what happened and when
		`/run/(systemd|host|containerd|kills|lock)(/.*)?`, `(/var)?/tmp/systemd-private-.*`, // of what runs now
		`/var/cache/ldconfig/aux-cache`,                                   // has times and inodes of libraries
		`/tmp/apt-dpkg-install-.*`,                                        // apt's own links to packages, which only apt removes; a scrub empties /tmp
		`/etc/(passwd|group|g?shadow|sub[ug]id)\.[0-9]+`,                  // useradd's locks, named by its process
		`/var/cache/apt/archives/.*`,                                      // packages that a killed apt downloaded; a scrub empties it
		`/var/lib/systemd/deb-systemd-helper-enabled(/.*)?`,               // notes of Debian's scripts, which do not complete them after a kill
		`/etc/rc[0-6S]\.d/.*`,                                             // System V links: systemd ignores them, and update-rc.d does not complete them after a kill
		`/var/lib/ucf/((hashfile|registry)\.[0-9]+|cache/.*)`,             // backups and copies, which ucf does not repair
		`/var/lib/dpkg/(status-old|info/.*-new)`,                          // dpkg's last state but one, and halves that it does not look for
		`/var/lib/containerd/io\.containerd\.metadata\.v1\.bolt/meta\.db`, // counts its openings
	}, "|") + `)$`)
}

// start is where runs begin: layers of a disk, the uppermost first.
type start struct {
	layers []string
	sums   sync.Map // path → sum of a file's content as it is at the start
}

// look notes the machine's disk, its /run, mounts and units.
func (n *node) look(from *start) lab.Tree {
	n.t.Helper()
	s, free := lab.Tree{}, free()
	s.Note(n.t, n.root(), "", free.MatchString, func(name, path string) string {
		if end, counts := n.meaning(name); counts != nil {
			return n.meant(path, end, counts)
		}
		if _, err := os.Lstat(filepath.Join(n.upper(), name)); err == nil {
			return sum(n.t, path)
		}
		known, ok := from.sums.Load(name)
		if !ok {
			known = sum(n.t, path)
			from.sums.Store(name, known)
		}
		return known.(string)
	})
	s.Note(n.t, fmt.Sprintf("/proc/%d/root/run", n.leader), "/run", free.MatchString, func(_, path string) string { return sum(n.t, path) })
	for line := range strings.Lines(n.sh("findmnt --noheadings --raw --output TARGET,FSTYPE; systemctl list-units --plain --no-legend --full")) {
		f := strings.Fields(line)
		if strings.Contains(line, "run-credentials-") || strings.Contains(line, "/run/credentials/") {
			continue // systemd's, while one of its own services starts
		}
		s[strings.Join(f[:min(4, len(f))], " ")] = ""
	}
	return s
}

// meaning is how files are read in which packages' tools note the same in other
// words after a kill: what ends each of their parts, and which parts count. It
// is nil for other files.
func (n *node) meaning(name string) (end string, counts func(part string) bool) {
	switch {
	case strings.HasPrefix(name, "/var/lib/dpkg/info/") && strings.HasSuffix(name, ".list"):
		// dpkg drops folders that are not there, as those of translations.
		return "\n", func(file string) bool {
			st, err := os.Lstat(filepath.Join(n.root(), file))
			return err == nil && !st.IsDir()
		}
	case name == "/var/lib/dpkg/status":
		// dpkg does not note the sum of a configuration file that it was killed at.
		return "\n", func(line string) bool { return !strings.HasPrefix(line, " /etc/") }
	case name == "/var/lib/apt/extended_states":
		return "\n\n", func(paragraph string) bool { return strings.HasSuffix(paragraph, "Auto-Installed: 1") }
	case name == "/var/lib/ucf/hashfile":
		return "\n", func(string) bool { return true }
	}
	return "", nil
}

// meant lists the parts of a file that count, in any order.
func (n *node) meant(path, end string, counts func(part string) bool) string {
	n.t.Helper()
	parts := slices.DeleteFunc(strings.Split(strings.TrimSpace(lab.Content(n.t, path)), end), func(part string) bool { return !counts(part) })
	slices.Sort(parts)
	all := strings.Join(slices.Compact(parts), ",")
	if len(all) > 4096 {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(all)))
	}
	return all
}

// sum is the sum of a file's content.
func sum(t *testing.T, p string) string {
	t.Helper()
	f, err := os.Open(p)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return fmt.Sprintf("%x", h.Sum(nil))
}
