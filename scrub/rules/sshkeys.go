package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// keyCommands are commands that print keys of this machine's own account, image
// or domain, and none of the people who built the image: EC2 Instance Connect,
// systemd, sssd and Google's guest agent.
var keyCommands = []string{"eic_run_authorized_keys", "eic_curl_authorized_keys", "userdbctl", "sss_ssh_authorizedkeys",
	"google_authorized_keys"}

// publicKey matches the key in a line of authorized_keys(5): every format of a
// key begins with the length of its name.
var publicKey = rule.Expression(`(^|\s)AAAA[0-9A-Za-z+/]{20,}`)

// keysElsewhere plans the removal of the files that AuthorizedKeysFile names and
// of keys in homes without an account, and reports AuthorizedKeysCommand. A file without a key stays.
func keysElsewhere(d *rule.Draft) {
	config := readSSHD(d)
	accounts := d.Accounts()
	strangers := strangerHomes(d, accounts)
	accounts = append(accounts, strangers...)
	for _, s := range config.effective("authorizedkeyscommand") {
		if command := s.args[0]; command != "none" && !slices.Contains(keyCommands, path.Base(command)) {
			d.Find(s.file, fmt.Sprintf("line %d: sshd accepts the keys that %s prints: check that nobody of the build "+
				"can log in with them, or skip the rule", s.line, command))
		}
	}
	var patterns []string
	for _, s := range strangers { // a directory server may know their owners
		patterns = append(patterns, rule.QuoteGlob(s.Home)+"/.ssh/authorized_keys*",
			rule.QuoteGlob(s.Home)+"/.ssh/authorized_keys.d/*")
	}
	names := d.Known(patterns...)
	for _, s := range config.effective("authorizedkeysfile") {
		for _, pattern := range s.args {
			names = append(names, keyFiles(d, pattern, accounts)...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch {
		case !publicKey().Match(d.Small(name)):
		case rule.CheckPath(rule.QuoteGlob(name)) != nil:
			d.Find(name, "sshd reads keys from a file that the system needs: remove the keys, and choose another "+
				"AuthorizedKeysFile")
		default:
			d.Remove(name, "sshd accepts its keys")
		}
	}
}

// keyFiles lists the existing files that a pattern of AuthorizedKeysFile names:
// those of all accounts and, in a folder of its own, those of accounts that the
// machine does not know.
func keyFiles(d *rule.Draft, pattern string, accounts []rule.Account) []string {
	if pattern == "none" || isDefaultKeyFile(pattern) {
		return nil
	}
	patterns := show.Each(accounts, func(a rule.Account) string { return a.KeyFile(pattern) })
	if strings.Contains(pattern, "%u") || strings.Contains(pattern, "%U") {
		anybody := strings.NewReplacer("%%", "%", "%u", "*", "%U", "*", "%h", "/home/*").
			Replace(rule.QuoteGlob(pattern))
		if path.IsAbs(anybody) && !isSharedFolder(path.Dir(anybody)) {
			patterns = append(patterns, anybody)
		}
	}
	slices.Sort(patterns)
	return d.Matching(slices.Compact(patterns)...)
}

func isDefaultKeyFile(pattern string) bool {
	rest, ok := strings.CutPrefix(pattern, "%h/")
	if !ok {
		rest = pattern
	}
	return strings.HasPrefix(rest, ".ssh/authorized_keys") && !strings.ContainsAny(rest, "%*?[") &&
		strings.Count(rest, "/") == 1
}

// isSharedFolder reports whether a folder has other files than keys.
func isSharedFolder(dir string) bool {
	return slices.Contains([]string{"/", "/etc", "/etc/ssh", "/etc/pki", "/etc/security", "/usr", "/home"}, dir) ||
		slices.Contains(rule.SystemParts, dir)
}

// strangerHomes returns the folders in /home that no account has, and the homes
// in folders of domains there.
func strangerHomes(d *rule.Draft, accounts []rule.Account) []rule.Account {
	isHome := func(name string) bool {
		return slices.ContainsFunc(accounts, func(a rule.Account) bool { return a.Home == name })
	}
	var strangers []rule.Account
	inFolders := show.Each(d.Known("/home/*/*/.[a-z]*"), path.Dir)
	for _, home := range append(d.Known("/home/*"), slices.Compact(inFolders)...) {
		above := path.Dir(home)
		if isHome(home) || path.Base(home) == "lost+found" || above != "/home" && isHome(above) {
			continue
		}
		if st := d.Lstat(home); st != nil && st.IsDir() {
			strangers = append(strangers, rule.Account{Name: path.Base(home), Home: home})
		}
	}
	return strangers
}

const hostKeyGlob = "/etc/ssh/ssh_host_*_key*"

// hostKeyMakers are the units that create missing SSH host keys at boot:
// cloud-init on cloud images, sshd's own on Arch, Fedora, RHEL and SUSE.
var hostKeyMakers = slices.Concat(cloudInitUnits,
	[]string{"sshdgenkeys.service", "sshd-keygen.target", "sshd-keygen.service", "sshd-keygen@.service",
		"ssh-keygen.service", "coreos-sshkeys.service"})

// hostKeysComeBack reports whether a unit creates new host keys at boot.
// Without one, removing the keys would lock everybody out.
func hostKeysComeBack(d *rule.Draft) bool {
	off := cloudInitOff(d)
	makers := hostKeyMakers
	if off != "" {
		makers = makers[len(cloudInitUnits):]
	}
	// SUSE's own unit creates missing keys before it starts sshd.
	if slices.ContainsFunc(makers, d.HasUnit) || fileWith(d, []string{
		"/etc/systemd/system/ssh*.service", "/usr/lib/systemd/system/ssh*.service", "/lib/systemd/system/ssh*.service",
		"/etc/systemd/system/ssh*.service.d/*.conf", "/usr/lib/systemd/system/ssh*.service.d/*.conf",
	}, makesKeys) != "" {
		return true
	}
	searched, remedy := strings.Join(hostKeyMakers, ", "), "install cloud-init"
	if off != "" {
		searched, remedy = searched+"; cloud-init creates none: "+off, "let cloud-init run"
	}
	if keys := d.Glob(d.Paths...); len(keys) > 0 {
		d.Find(keys[0], fmt.Sprintf("no unit on this machine creates SSH host keys at boot (searched for %s), so the "+
			"keys stay: %s, or skip the rule to accept shared keys", searched, remedy))
	}
	return false
}

var makesKeys = saying(`(?m)^\s*ExecStart(Pre)?\s*=.*(sshd-gen-keys-start|ssh-keygen\s+-A)`)

// hostKeysElsewhere reports host keys that HostKey names in other places than
// sshd's default.
func hostKeysElsewhere(d *rule.Draft) {
	config := readSSHD(d)
	for _, s := range config.all("hostkey") {
		name := path.Clean(s.args[0])
		if path.IsAbs(name) && !rule.Kept([]string{hostKeyGlob}, name) && !rule.About(d.Answer.Findings, name) &&
			d.Exists(name) {
			d.Find(name, fmt.Sprintf("a host key that every node would share, named in %s:%d: remove the key, and "+
				"let a unit create it at boot before sshd starts", s.file, s.line))
		}
	}
}
