package scrub

import (
	"errors"
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
	d := &draft{h: h}
	var there []string
	for _, home := range homesOf(text) {
		real, err := h.Files.Real(home)
		d.failed(err)
		if isSystemFolder(home) || isSystemFolder(real) {
			continue
		}
		foreign, err := h.Files.Foreign(home, path.Dir(home), true)
		d.failed(err)
		if foreign != nil {
			there = append(there, home)
		} else if st := d.stat(home); st != nil && st.IsDir() {
			there = append(there, home)
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("looking for home folders: %w", d.err)
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

// sshdConfigs are the places of sshd's configuration: SUSE's package has its own
// file below /usr, which counts while /etc has none.
var sshdConfigs = []string{"/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"}

// sshdSetting is one line of sshd's configuration.
type sshdSetting struct {
	keyword string // in lower case
	args    []string
	file    string
	line    int
	// block is 0 for a line outside of Match blocks, and the number of the block
	// otherwise.
	block int
}

// sshdConfig is sshd's configuration with all included files, in the order in
// which sshd reads the lines (sshd_config(5)).
type sshdConfig struct {
	settings []sshdSetting
	blocks   int
}

// includeMost is how deep files may include others, as in sshd.
const includeMost = 16

var errDeepIncludes = errors.New("files include each other more than 16 times")

// readSSHD reads sshd's configuration. Without a file, the configuration is
// empty, and sshd's defaults apply.
func readSSHD(d *draft) *sshdConfig {
	c, own := &sshdConfig{}, &draft{h: d.h}
	for _, name := range sshdConfigs {
		if text := own.content(name); text != nil {
			c.read(own, name, text, 0, 0)
			break
		}
	}
	if own.err != nil {
		d.failed(fmt.Errorf("reading sshd's configuration: %w", own.err))
	}
	return c
}

// read adds the lines of a file. A Match block ends with the file.
func (c *sshdConfig) read(d *draft, name string, text []byte, block, depth int) {
	if depth > includeMost {
		d.failed(fmt.Errorf("%s: %w", name, errDeepIncludes))
		return
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := sshdWords(line)
		if len(words) == 0 {
			continue
		}
		s := sshdSetting{keyword: strings.ToLower(words[0]), args: words[1:], file: name, line: number, block: block}
		switch s.keyword {
		case "match":
			c.blocks++
			block = c.blocks
		case "include":
			c.include(d, s.args, block, depth+1)
		default:
			c.settings = append(c.settings, s)
		}
	}
}

// include adds the files of an Include line. Like sshd, it leaves out files that
// do not exist.
func (c *sshdConfig) include(d *draft, patterns []string, block, depth int) {
	for _, p := range patterns {
		if !path.IsAbs(p) {
			p = path.Join("/etc/ssh", p)
		}
		d.texts(d.glob(p), func(name string, text []byte) { c.read(d, name, text, block, depth) })
	}
}

// effective returns the settings of a keyword that count for somebody: the first
// outside of Match blocks, and the first in each block. sshd ignores the others.
func (c *sshdConfig) effective(keyword string) []sshdSetting {
	var found []sshdSetting
	for _, s := range c.settings {
		if s.keyword == keyword && len(s.args) > 0 && !slices.ContainsFunc(found, func(f sshdSetting) bool { return f.block == s.block }) {
			found = append(found, s)
		}
	}
	return found
}

// all returns every setting of a keyword whose lines add up, such as HostKey.
func (c *sshdConfig) all(keyword string) []sshdSetting {
	return slices.DeleteFunc(slices.Clone(c.settings), func(s sshdSetting) bool { return s.keyword != keyword || len(s.args) == 0 })
}

// sshdWords splits a line of sshd's configuration into its keyword and
// arguments. An equals sign may follow the keyword; quotes keep spaces.
func sshdWords(line string) []string {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, " \t=\f\"")
	if line == "" || line[0] == '#' || end == 0 {
		return nil
	}
	if end < 0 {
		return []string{line}
	}
	words := []string{line[:end]}
	rest := strings.TrimLeft(line[end:], " \t\f")
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = after
	}
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(rest); i++ {
		switch b := rest[i]; {
		case b == '\\' && i+1 < len(rest) && strings.IndexByte(`\"' `, rest[i+1]) >= 0 && (quote == 0 || rest[i+1] != ' '):
			i++
			word.WriteByte(rest[i])
			in = true
		case quote != 0 && b == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(b)
		case b == '"' || b == '\'':
			in, quote = true, b
		case b == ' ' || b == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case b == '#' && !in:
			return words
		default:
			in = true
			word.WriteByte(b)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
