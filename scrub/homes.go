package scrub

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// places are the patterns of a rule with "~/" replaced by the home folder of
// every account. The homes come from passwd(5), not from a listing of /home:
// service accounts have keys too.
func places(h *host.Host, patterns []string) ([]place, error) {
	var homes []string
	var out []place
	for _, p := range patterns {
		rest, ok := strings.CutPrefix(p, "~/")
		if !ok {
			out = append(out, place{pattern: p, named: literal(p)})
			continue
		}
		if homes == nil {
			var err error
			if homes, err = Homes(h); err != nil {
				return nil, err
			}
		}
		for _, home := range homes {
			// A disk that is mounted at or in a home has a person's data.
			out = append(out, place{pattern: path.Join(quoteGlob(home), rest), named: path.Dir(home)})
		}
	}
	return out, nil
}

// Homes returns the existing home folders of passwd(5), each once, and always
// /root. It leaves out folders of the system, such as /bin of the accounts bin
// and sync, and homes behind links into such folders. A home on a foreign mount
// is returned without a check.
func Homes(h *host.Host) ([]string, error) {
	text, err := accountLines(h)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, home := range homesOf(text) {
		real, err := h.Files.Real(home)
		if err != nil {
			return nil, fmt.Errorf("looking for home folders: %w", err)
		}
		if isSystemFolder(home) || isSystemFolder(real) {
			continue
		}
		foreign, err := h.Files.Foreign(home, path.Dir(home), true)
		if err != nil {
			return nil, fmt.Errorf("looking for home folders: %w", err)
		}
		if foreign != nil {
			there = append(there, home)
			continue
		}
		st, err := h.Files.Stat(home)
		switch {
		case leadsNowhere(err) || err == nil && !st.IsDir():
		case err != nil:
			return nil, fmt.Errorf("looking for home folders: %w", err)
		default:
			there = append(there, home)
		}
	}
	return there, nil
}

// homesOf returns the home folders in the text of a passwd(5), and /root,
// sorted and each once.
func homesOf(passwd string) []string {
	homes := []string{"/root"}
	for _, a := range parseAccounts(passwd) {
		homes = append(homes, a.home)
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
func parseAccounts(passwd string) []account {
	var accounts []account
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 6 && path.IsAbs(fields[5]) {
			accounts = append(accounts, account{fields[0], fields[2], path.Clean(fields[5])})
		}
	}
	return accounts
}

var (
	// systemTops are top folders that belong to the system with all their
	// contents.
	systemTops = []string{"", "bin", "boot", "dev", "efi", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr"}
	// systemParts are folders of the system that may contain homes.
	systemParts = []string{
		"/home", "/lost+found", "/media", "/mnt", "/opt", "/opt/bin", "/srv", "/tmp", "/var", "/var/adm", "/var/cache", "/var/crash", "/var/db", "/var/empty",
		"/var/games", "/var/lib", "/var/local", "/var/lock", "/var/log", "/var/mail", "/var/opt", "/var/run", "/var/spool", "/var/spool/cron",
		"/var/spool/mail", "/var/tmp",
	}
	// systemStates are the databases of the system and of a node.
	systemStates = []string{
		"/var/lib/apt", "/var/lib/cloud", "/var/lib/cni", "/var/lib/containerd", "/var/lib/dnf", "/var/lib/docker", "/var/lib/dpkg", "/var/lib/etcd",
		"/var/lib/kubelet", "/var/lib/pacman", "/var/lib/rpm", "/var/lib/systemd", "/var/lib/zypp",
	}
)

// isSystemFolder reports whether a folder belongs to the system and so cannot
// be a home.
func isSystemFolder(dir string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(dir, "/"), "/")
	return slices.Contains(systemTops, top) || slices.Contains(systemParts, dir) ||
		slices.ContainsFunc(systemStates, func(state string) bool { return dir == state || strings.HasPrefix(dir, state+"/") })
}

func quoteGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
