package distros

import (
	"fmt"
	"regexp"
	"strings"
)

// RepositoryForm is how a package manager reads an additional repository. The zero
// value belongs to systems without packages.
type RepositoryForm struct {
	// Kind describes the text of a repository, and Example is its first lines.
	Kind, Example string
	// File and KeyFile are the paths of a repository's text and key, with %s for its
	// name.
	File, KeyFile string
	// Section matches the line that begins a repository in the text. Keyed replaces
	// the line, with %s for the key's path, so that the key must have signed it.
	Section, Keyed string
	// Checks matches settings about signatures, and Unchecked those that switch the
	// check of signatures off.
	Checks, Unchecked string
	// Conf is a file that needs Line to read the text; empty if there is none.
	Conf, Line string
	// Trust is the command that makes the package manager trust a key; the key's path
	// follows. Empty if the text of the repository is enough.
	Trust []string
}

// The forms of repositories: sources.list(5), dnf.conf(5), zypper(8), pacman.conf(5).

func debRepositories() RepositoryForm {
	return RepositoryForm{
		Kind: "deb822 source", Example: "Types: deb, URIs: https://…",
		File: "/etc/apt/sources.list.d/eksnode-%s.sources", KeyFile: "/etc/apt/keyrings/eksnode-%s.asc",
		Section: `(?mi)^Types:.*$`, Keyed: "$0\nSigned-By: %s",
		Checks:    `(?mi)^(Signed-By|Trusted|Allow-Insecure):`,
		Unchecked: `(?mi)^(Trusted|Allow-Insecure|Allow-Downgrade-To-Insecure):\s*(yes|true|1|on|enable|with)`,
	}
}

func rpmRepositories(folder string, trust ...string) RepositoryForm {
	return RepositoryForm{
		Kind: ".repo file", Example: "[NAME], baseurl=https://…",
		File: folder + "/eksnode-%s.repo", KeyFile: "/etc/pki/rpm-gpg/RPM-GPG-KEY-eksnode-%s",
		Section: `(?m)^\[.+\]\s*$`, Keyed: "$0\ngpgcheck=1\ngpgkey=file://%s",
		Checks:    `(?mi)^\s*(gpgcheck|pkg_gpgcheck|gpgkey)\s*=`,
		Unchecked: `(?mi)^\s*(pkg_)?gpgcheck\s*=\s*(0|no|off|false)\b`,
		Trust:     trust,
	}
}

// pacmanTrust adds a key to the keyring and signs it with the keyring's own key, which a
// scrub removes from images.
const pacmanTrust = `pacman-key --init; pacman-key --add "$0"
gpg --homedir /etc/pacman.d/gnupg --batch --with-colons --show-keys "$0" |
sed -n '/^pub/,/^fpr/s/^fpr:*\([0-9A-F]*\):*$/\1/p' |
while read -r key; do pacman-key --lsign-key "$key"; done`

func pacmanRepositories() RepositoryForm {
	const include = "Include = /etc/pacman.d/eksnode-*.conf"
	return RepositoryForm{
		Kind: "section of pacman.conf", Example: "[NAME], Server = https://…",
		File: "/etc/pacman.d/eksnode-%s.conf", KeyFile: "/etc/pacman.d/eksnode-%s.asc",
		Section: `(?m)^\[.+\]\s*$`, Keyed: "$0\nSigLevel = Required DatabaseOptional",
		Checks:    `(?m)^\s*SigLevel\s*=`,
		Unchecked: `(?m)^\s*SigLevel\s*=.*\b(Package)?(Never|Optional|TrustAll)\b`,
		Conf:      "/etc/pacman.conf", Line: include,
		Trust: []string{"sh", "-ec", pacmanTrust},
	}
}

// Named returns the paths of a repository's text and key.
func (f RepositoryForm) Named(name string) (file, key string) {
	return fmt.Sprintf(f.File, name), fmt.Sprintf(f.KeyFile, name)
}

// Text returns the content of the repository's file; with keyed, one that the
// repository's key must have signed.
func (f RepositoryForm) Text(name, text string, keyed bool) string {
	if _, key := f.Named(name); keyed {
		text = regexp.MustCompile(f.Section).ReplaceAllString(text, strings.ReplaceAll(f.Keyed, "%s", key))
	}
	return strings.TrimRight(text, "\n") + "\n"
}

// Check returns an error for a text that is no repository, and for one with settings
// about signatures that a key contradicts.
func (f RepositoryForm) Check(text string, keyed bool) error {
	if !regexp.MustCompile(f.Section).MatchString(text) {
		return fmt.Errorf("the text is not a %s, which begins like %s", f.Kind, f.Example)
	}
	if has := regexp.MustCompile(f.Checks).FindString(text); keyed && has != "" {
		return fmt.Errorf("the text has %q, which contradicts its key: leave one of them out", strings.TrimSpace(has))
	}
	return nil
}

// Unverified returns the setting of a repository's text that switches the check of
// signatures off, or nothing.
func (f RepositoryForm) Unverified(text string) string {
	if f.Unchecked == "" {
		return ""
	}
	return strings.TrimSpace(regexp.MustCompile(f.Unchecked).FindString(text))
}
