//go:build e2e

package kills_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// state is all that a run leaves: path → note, and what else is asked.
type state map[string]string

// look notes the machine's disk, its /run, mounts and units.
func (n *node) look(from *start) state {
	n.t.Helper()
	s := state{}
	n.walk(s, n.root(), "", func(name string) string {
		if end, counts := n.meaning(name); counts != nil {
			return n.meant(name, end, counts)
		}
		if _, err := os.Lstat(filepath.Join(n.upper(), name)); err == nil {
			return sum(n.t, filepath.Join(n.root(), name))
		}
		known, ok := from.sums.Load(name)
		if !ok {
			known = sum(n.t, filepath.Join(n.root(), name))
			from.sums.Store(name, known)
		}
		return known.(string)
	})
	run := fmt.Sprintf("/proc/%d/root/run", n.leader)
	n.walk(s, run, "/run", func(name string) string { return sum(n.t, filepath.Join(run, strings.TrimPrefix(name, "/run"))) })
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
func (n *node) meant(name, end string, counts func(part string) bool) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root(), name))
	require.NoError(n.t, err)
	parts := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), end), func(part string) bool { return !counts(part) })
	slices.Sort(parts)
	all := strings.Join(slices.Compact(parts), ",")
	if len(all) > 4096 {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(all)))
	}
	return all
}

// walk notes everything below a folder that is not free: type, mode, owner,
// device, link target, extended attributes and content.
func (n *node) walk(s state, folder, prefix string, content func(name string) string) {
	n.t.Helper()
	free := free()
	require.NoError(n.t, filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := prefix + strings.TrimPrefix(p, folder)
		if free.MatchString(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		note := fmt.Sprintf("%o %d:%d %x", st.Mode, st.Uid, st.Gid, st.Rdev)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			note += " -> " + target
		case d.Type().IsRegular():
			note += " " + content(name)
		}
		s[name] = note + attributes(n.t, p)
		return nil
	}))
}

// attributes are the extended ones, as text.
func attributes(t *testing.T, p string) string {
	t.Helper()
	names, values := make([]byte, 4096), make([]byte, 4096)
	size, err := unix.Llistxattr(p, names)
	require.NoError(t, err, p)
	text := ""
	all := strings.FieldsFunc(string(names[:size]), func(r rune) bool { return r == 0 })
	slices.Sort(all)
	for _, name := range all {
		size, err := unix.Lgetxattr(p, name, values)
		require.NoError(t, err, p)
		text += fmt.Sprintf(" %s=%x", name, values[:size])
	}
	return text
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

// since lists what differs: "- path" gone, "~ path" another note, "+ path" new.
func (s state) since(before state) []string {
	var d []string
	for name, note := range before {
		now, there := s[name]
		switch {
		case !there:
			d = append(d, "- "+name)
		case now != note:
			d = append(d, fmt.Sprintf("~ %s: %s, was %s", name, now, note))
		}
	}
	for name := range s {
		if _, there := before[name]; !there {
			d = append(d, "+ "+name)
		}
	}
	slices.Sort(d)
	return d
}
