package rule

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// places are the patterns of a rule with "~/" replaced by the home folder of
// every account. The homes come from passwd(5), not from a listing of /home:
// service accounts have keys too. In homes that are system folders, only hidden
// files count: they are not the system's.
func places(h *host.Host, patterns []string) (out []place, err error) {
	var homes, systems []string
	for _, p := range patterns {
		rest, ok := strings.CutPrefix(p, "~/")
		if !ok {
			out = append(out, place{pattern: p, named: literal(p)})
			continue
		}
		if homes == nil {
			if homes, systems, err = Homes(h); err != nil {
				return nil, err
			}
		}
		all := homes
		if strings.HasPrefix(rest, ".") {
			all = slices.Concat(homes, systems)
		}
		for _, home := range all {
			// A disk that is mounted at or in a home has a person's data.
			out = append(out, place{pattern: path.Join(QuoteGlob(home), rest), named: path.Dir(home)})
		}
	}
	return out, nil
}

// Homes returns the existing home folders of passwd(5), each once, and always
// /root. Homes that are folders of the system, such as /bin of the accounts bin
// and sync, are apart, also those behind links. A home on a foreign mount is
// returned without a check.
func Homes(h *host.Host) (there, systems []string, err error) {
	text, err := accountLines(h)
	if err != nil {
		return nil, nil, err
	}
	d := &Draft{Host: h}
	for _, home := range homesOf(text) {
		real, err := h.Files.Real(home)
		d.Failed(err)
		if isSystemFolder(home) || isSystemFolder(real) {
			systems = append(systems, real)
			continue
		}
		foreign, err := h.Files.Foreign(home, path.Dir(home), true)
		d.Failed(err)
		if foreign != nil {
			there = append(there, home)
		} else if st := d.Stat(home); st != nil && st.IsDir() {
			there = append(there, home)
		}
	}
	if d.Err != nil {
		return nil, nil, fmt.Errorf("looking for home folders: %w", d.Err)
	}
	return there, systems, nil
}

// homesOf returns the home folders in the text of a passwd(5), and /root,
// sorted and each once.
func homesOf(passwd string) []string {
	homes := []string{"/root"}
	for _, a := range parseAccounts(passwd) {
		homes = append(homes, a.Home)
	}
	slices.Sort(homes)
	return slices.Compact(homes)
}

// accountFiles are files in the form of passwd(5): /usr/lib/passwd is that of
// systems with a read-only /usr, and extrausers that of Ubuntu Core.
var accountFiles = []string{"/etc/passwd", "/usr/lib/passwd", "/var/lib/extrausers/passwd"}

func accountLines(h *host.Host) (string, error) {
	var lines strings.Builder
	for _, name := range accountFiles {
		text, err := h.Content(name)
		if err != nil {
			return "", fmt.Errorf("reading the accounts: %w", err)
		}
		lines.Write(text)
		lines.WriteByte('\n')
	}
	return lines.String(), nil
}

// parseAccounts returns the accounts with an absolute home in the text of a
// passwd(5). As in glibc, the shell may be missing.
func parseAccounts(passwd string) []Account {
	var accounts []Account
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 6 && path.IsAbs(fields[5]) {
			accounts = append(accounts, Account{fields[0], fields[2], path.Clean(fields[5])})
		}
	}
	return accounts
}

var (
	// systemTops are top folders that belong to the system with all their
	// contents.
	systemTops = []string{"", "bin", "boot", "dev", "efi", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run",
		"sbin", "sys", "usr"}
	// SystemParts are folders of the system that may contain homes.
	SystemParts = []string{
		"/home", "/lost+found", "/media", "/mnt", "/opt", "/opt/bin", "/srv", "/tmp", "/var", "/var/adm", "/var/cache",
		"/var/crash", "/var/db", "/var/empty", "/var/games", "/var/lib", "/var/local", "/var/lock", "/var/log",
		"/var/mail", "/var/opt", "/var/run", "/var/spool", "/var/spool/cron", "/var/spool/mail", "/var/tmp",
	}
	// systemStates are the databases of the system and of a node.
	systemStates = []string{
		"/var/lib/apt", "/var/lib/cloud", "/var/lib/cni", "/var/lib/containerd", "/var/lib/dnf", "/var/lib/docker",
		"/var/lib/dpkg", "/var/lib/etcd",
		"/var/lib/kubelet", "/var/lib/pacman", "/var/lib/rpm", "/var/lib/systemd", "/var/lib/zypp",
	}
)

// isSystemFolder reports whether a folder belongs to the system and so cannot
// be a home.
func isSystemFolder(dir string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(dir, "/"), "/")
	return slices.Contains(systemTops, top) || slices.Contains(SystemParts, dir) ||
		slices.ContainsFunc(systemStates, func(state string) bool { return Within(state, dir) })
}

// QuoteGlob returns a pattern of path.Match that matches one name only.
func QuoteGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// IsPerson reports whether a user ID belongs to root or to a person; daemons
// keep state in their homes.
func IsPerson(uid string) bool {
	n, err := strconv.ParseUint(uid, 10, 32)
	return err == nil && (n == 0 || n >= 1000 && n < 60000)
}

// Account is a user of passwd(5), or a home without one.
type Account struct{ Name, UID, Home string }

// KeyFile returns the file of an account, as a pattern without wildcards.
func (a Account) KeyFile(pattern string) string {
	name := strings.NewReplacer("%%", "%", "%h", a.Home, "%u", a.Name, "%U", a.UID).Replace(pattern)
	if !path.IsAbs(name) {
		name = path.Join(a.Home, name)
	}
	return QuoteGlob(path.Clean(name))
}
