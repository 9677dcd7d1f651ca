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

// free matches the paths that may differ between two undisturbed runs, with
// reasons.
func free() *regexp.Regexp {
	return regexp.MustCompile(`^(` + strings.Join([]string{
		`/var/log(/.*)?`, `/run/(log|utmp|cloud-init/ds-identify\.log)(/.*)?`, // logs contain times
		`/run/(systemd|host|containerd|kills|lock)(/.*)?`, `(/var)?/tmp/systemd-private-.*`, // state of running services
		`/var/cache/ldconfig/aux-cache`,                                    // has times and inodes of libraries
		`/tmp/apt-dpkg-install-.*`,                                         // apt's own links to packages, which only apt removes; a scrub empties /tmp
		`/etc/(passwd|group|g?shadow|sub[ug]id)\.[0-9]+`,                   // locks of useradd, named by its process
		`/var/cache/apt/archives/.*`,                                       // packages that a killed apt downloaded; a scrub empties the folder
		`/var/cache/apt/(src)?pkgcache\.bin`,                               // apt's index of package lists, which any call may write; a scrub removes the files
		`/var/lib/systemd/deb-systemd-helper-enabled(/.*)?`,                // records of Debian's scripts, incomplete after a kill
		`/etc/rc[0-6S]\.d/.*`,                                              // System V links: systemd ignores them, and update-rc.d does not complete them after a kill
		`/var/lib/ucf/((hashfile|registry)\.[0-9]+|cache/.*)`,              // backups and copies, which ucf does not repair
		`/var/lib/dpkg/(status-old|info/.*-new)`,                           // dpkg's previous state, and partial files that dpkg ignores
		`/var/lib/containerd/io\.containerd\.metadata\.v1\.bolt/meta\.db`,  // counts its openings
		`/var/lib/containerd/io\.containerd\.grpc\.v1\.introspection/uuid`, // containerd's own ID: a scrub leaves it, because containerd writes it again while it runs
	}, "|") + `)$`)
}

// start is the starting state of runs: layers of a disk, the uppermost first.
type start struct {
	layers []string
	sums   sync.Map // path → checksum of a file's content in the starting state
}

// look records the machine's disk, its /run, mounts and units.
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

// meaning returns how to read a file that packages' tools write differently
// after a kill: the end of each part, and the parts that count. counts is nil
// for other files.
func (n *node) meaning(name string) (end string, counts func(part string) bool) {
	switch {
	case strings.HasPrefix(name, "/var/lib/dpkg/info/") && strings.HasSuffix(name, ".list"):
		// dpkg drops missing folders, such as those of translations.
		return "\n", func(file string) bool {
			st, err := os.Lstat(filepath.Join(n.root(), file))
			return err == nil && !st.IsDir()
		}
	case name == "/var/lib/dpkg/status":
		// dpkg omits the checksum of a configuration file if a kill interrupted its
		// installation.
		return "\n", func(line string) bool { return !strings.HasPrefix(line, " /etc/") }
	case name == "/var/lib/apt/extended_states":
		return "\n\n", func(paragraph string) bool { return strings.HasSuffix(paragraph, "Auto-Installed: 1") }
	case name == "/var/lib/ucf/hashfile":
		return "\n", func(string) bool { return true }
	}
	return "", nil
}

// meant returns the parts of a file that count, sorted.
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

// sum returns the checksum of a file's content.
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
