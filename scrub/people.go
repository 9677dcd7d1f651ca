package scrub

import (
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// peopleRules are the rules for files that name the people who built the image.
func peopleRules() []Rule {
	g := []string{"people"}
	return []Rule{
		{
			ID: "names-in-configs", Phase: Caches, Groups: g, Verb: plan.Remove,
			Paths: namedConfigs, Owner: "Git, Mercurial, makepkg",
			Why:         "commits made on every node would have the name and address of the person who built the image; a configuration without a name stays",
			Regenerated: "nothing", Source: "git-config(1), user.name; hgrc(5), ui.username; makepkg.conf(5), PACKAGER",
			look: configsWithNames,
		},
		{
			ID: "old-passwords", Phase: Caches, Groups: append(g, "secrets"), Verb: plan.Empty,
			Paths: []string{"/etc/security/opasswd", "/etc/security/opasswd.old"}, Owner: "pam_pwhistory, pam_unix",
			Why:         "the file has hashes of the accounts' earlier passwords; the file stays, because its mode and label matter",
			Regenerated: "PAM, when a password changes", Source: "pam_pwhistory(8)",
		},
		{
			ID: "homes-left", Phase: Access, Groups: g, Verb: Report,
			Paths: []string{"/home/*", homedHomes[0], homedHomes[1]}, Owner: "pam_mkhomedir, useradd, systemd-homed",
			Why:         "the name of the folder is that of a person from a domain, or of an account that was removed",
			Regenerated: "pam_mkhomedir, when the person logs in", Source: "pam_mkhomedir(8), systemd-homed.service(8)",
			look: homesWithoutAccount,
		},
		{
			ID: "lingering", Phase: Access, Groups: g, Verb: plan.Remove,
			Paths: []string{lingerFolder + "/*"}, Owner: "loginctl enable-linger",
			Why:         "the file names a person without an account; for an account of the image, it is the operator's decision and stays",
			Regenerated: "nothing", Source: "loginctl(1)",
			look: lingering,
		},
	}
}

var homedHomes = []string{"/home/*.home", "/var/lib/systemd/home/*.identity"}

const lingerFolder = "/var/lib/systemd/linger"

// lingering plans the removal of the marks of people without an account.
func lingering(d *draft) {
	accounts := d.accounts()
	for _, name := range d.glob(d.paths...) {
		if !slices.ContainsFunc(accounts, func(a account) bool { return a.name == path.Base(name) }) {
			d.remove(name, "names a person without an account")
		}
	}
}

var namedConfigs = []string{"~/.gitconfig", "~/.config/git/config", "~/.hgrc", "~/.makepkg.conf"}

var namesAPerson = expression(`(?im)^\s*(name|email|username|PACKAGER)\s*=\s*\S`)

func configsWithNames(d *draft) {
	d.removeWhere("names the person who built the image", matches(namesAPerson), d.matching(d.paths...)...)
}

// homesWithoutAccount reports homes of people who have no account on this
// machine.
func homesWithoutAccount(d *draft) {
	for _, name := range d.known(homedHomes...) {
		d.find(name, "home of a person of systemd-homed: run homectl remove, or remove the file")
	}
	for _, a := range strangerHomes(d, d.accounts()) {
		attr, err := d.h.Files.Attributes(a.home)
		d.failed(err)
		// Programs have folders in /home, but no skeleton of a home.
		if attr.UID >= 1000 || len(d.glob(quoteGlob(a.home)+"/.[a-z]*")) > 0 {
			d.find(a.home, "home of an account that this machine does not know: move what the image needs, and remove the "+
				"folder")
		}
	}
}

// accessRules are the rules for people's data and logins. They run last,
// because they remove the key that the build itself logged in with.
func accessRules() []Rule {
	return []Rule{
		{
			ID: "histories", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{
				// Shells.
				"~/.*history", "~/.*_history[._~\\-]*", "~/.histfile", "~/.zsh_sessions", "~/.bash_sessions", "~/.zcompdump-*", "/.*history", "/.viminfo", "/.lesshst",
				"~/.local/state/bash/history", "~/.local/state/zsh/*history", "~/.local/share/zsh/*history", "~/.config/zsh/.*history", "~/.zsh/.*history", "~/.local/share/fish/*_history*", "~/.config/fish/fish_history",
				"~/.config/nushell/history.*", "~/.local/share/nushell/history.*", "~/.local/share/xonsh/*", "~/.local/share/atuin", "~/.local/share/mcfly", "~/.local/share/powershell/PSReadLine",
				// Interpreters.
				"~/.local/state/python_history", "~/.pythonhist", "~/.ipython/profile_*/history.sqlite*", "~/.ptpython/history", "~/.config/ptpython/history", "~/.local/share/ptpython/history", "~/.local/state/node*history",
				"~/.julia/logs/*history*", "~/.ghc/ghci_history", "~/.local/share/ghc/ghci_history", "~/.octave_hist", "~/.local/share/irb/history", "~/.local/share/pry/pry_history", "~/.local/state/php/history",
				// Clients of databases and servers.
				"~/.local/state/*_history", "~/.local/share/*_history", "~/.cassandra/cqlsh_history", "~/.beeline/history", "~/.dbshell", "~/.mongo/mongosh_history", "~/.mongodb/mongosh/*history*", "~/.local/state/psql/history", "~/.config/pgcli/history",
				"~/.config/mycli/history", "~/.config/litecli/history", "~/.lftp/*history", "~/.local/share/lftp", "~/.w3m/history", "~/.local/share/redis-cli",
				// Editors and viewers.
				"~/.viminfo*", "~/.vim/.netrwhist", "~/.netrwhist", "~/.local/state/vim/viminfo*", "~/.local/state/nvim/shada/*", "~/.local/share/nvim/shada/*", "~/.local/share/nano/search_history", "~/.nano/search_history", "~/.local/state/less/history", "~/.local/state/lesshst", "~/.local/share/lesshst",
				"~/.local/share/mc/history", "~/.mc/history", "~/.emacs.d/history", "~/.emacs.d/savehist", "~/.emacs.d/recentf", "~/.emacs.d/auto-save-list",
			}, Owner: "shells, interpreters, clients, editors",
			Why: "histories contain secrets that people typed at a prompt", Regenerated: "nothing", Source: "virt-sysprep: bash-history, zsh-history; the programs' manuals",
		},
		{
			ID: "history-of-etc", Phase: Caches, Groups: []string{"secrets", "identity", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/.git", "/etc/.hg", "/etc/.bzr", "/etc/_darcs"}, Owner: "etckeeper",
			Why:         "old commits keep the host keys, password hashes and configurations that other rules remove from the files, and the names of their authors",
			Regenerated: "etckeeper init", Source: "etckeeper(8)",
		},
		{
			ID: "credentials", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{
				"~/.aws", "~/.kube", "~/.docker/config.json", "~/.docker/contexts", "~/.docker/trust", "~/.dockercfg", "~/.config/containers/auth.json",
				"~/.helm", "~/.config/helm/registry", "~/.config/helm/repositories.yaml", "~/.netrc", "~/.authinfo*", "~/.config/gcloud", "~/.boto", "~/.s3cfg", "~/.azure", "~/.oci",
				"~/.config/doctl", "~/.config/rclone", "~/.config/gh", "~/.config/hub", "~/.config/glab-cli", "~/.git-credentials", "~/.config/git/credentials",
				"~/.gnupg", "~/.npmrc", "~/.yarnrc.yml", "~/.pypirc", "~/.cargo/credentials*", "~/.gem/credentials", "~/.composer/auth.json", "~/.config/composer/auth.json",
				"~/.m2/settings*.xml", "~/.terraformrc", "~/.terraform.d/credentials.tfrc.json", "~/.vault-token", "~/.ansible/galaxy_token",
				"~/.pgpass", "~/.my.cnf", "~/.mylogin.cnf", "~/.smbcredentials", "~/.subversion/auth", "~/.snap/auth.json", "~/snap", "~/.local/share/keyrings", "/eks-hybrid/.aws/credentials",
			}, Owner: "the people who built the image, hybrid nodes' nodeadm",
			Why: "every node would carry the credentials of the people who built the image", Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
		},
		{
			ID: "account-backups", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"}, Owner: "shadow-utils",
			Why: "backups of the account files keep old password hashes", Regenerated: "shadow-utils", Source: "virt-sysprep",
		},
		{
			ID: "ssh-people", Phase: Access, Groups: []string{"secrets", "people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/known_hosts*", "~/.ssh/id_*", "~/.ssh/config", "~/.ssh/environment", "~/.ssh/*.pem", "~/.ssh/agent*", "~/.ssh/control-*"}, Owner: "the people who built the image",
			Why: "the files contain people's private keys and the names of the hosts they log in to", Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
		},
		{
			ID: "ssh-passwords", Phase: Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{sshdCloudInit}, Owner: "cloud-init",
			Why:         "the build's user data lets people log in to every node with a password; a file that forbids passwords stays",
			Regenerated: "cloud-init, if ssh_pwauth is set", Source: "cloud-init clean --configs ssh_config",
			look: sshPasswords,
		},
		{
			ID: "sudo-of-default-user", Phase: Access, Groups: []string{"people"}, Verb: plan.Remove,
			Paths: []string{"/etc/sudoers.d/90-cloud-init-users"}, Owner: "cloud-init",
			Why: "the build's user could become root on every node", Regenerated: "cloud-init, for the default user", Source: "cloud-init, users and groups",
		},
		keysElsewhereRule(),
		{
			ID: "authorized-keys", Phase: Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/authorized_keys*", "/etc/ssh/authorized_keys.d/*", "/etc/dropbear/authorized_keys*", "/etc/dropbear/initramfs/authorized_keys*", "/etc/dropbear-initramfs/authorized_keys*"}, Owner: "cloud-init, the people who built the image",
			Why:         "the people who built the image could log in to every node; the key that Packer logs in with is among these keys",
			Regenerated: "cloud-init, from the instance's key pair", Source: "AWS: guidelines for shared Linux AMIs; packer #3775",
		},
	}
}

const sshdCloudInit = "/etc/ssh/sshd_config.d/50-cloud-init.conf"

var allowsPasswords = expression(`(?im)^\s*PasswordAuthentication\s+"?yes`)

// sshPasswords plans the removal of the files in which cloud-init allows logins
// with passwords (ssh_pwauth).
func sshPasswords(d *draft) {
	d.removeWhere("user data allow logins with passwords", matches(allowsPasswords), d.paths...)
}

func commandPatterns() []pattern {
	const given = `["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]{2,})`
	row := func(hint, text string) pattern {
		return pattern{kind: "a password of a command", text: true, general: true, hints: []string{hint}, in: settings, value: 1, re: expression(text)}
	}
	return []pattern{
		row("mysql", `\bmysql\w*\b[^\n|;#]*?\s-p`+given),
		row("mysqladmin", `\bmysqladmin\b[^\n|;#]*?\spassword\s+`+given),
		row("mariadb", `\bmariadb[\w-]*\b[^\n|;#]*?\s-p`+given),
		row("sshpass", `\bsshpass\s+(?:-\w\s+)*-p\s*`+given),
		row("redis-cli", `\bredis-cli\b[^\n|;#]*?\s-a\s*`+given),
		row("ldap", `\bldap\w+\b[^\n|;#]*?\s-w\s*`+given),
		row("mongo", `\bmongo\w*\b[^\n|;#]*?\s-p\s*`+given),
		row("login", `\b(?:docker|podman|buildah|helm|skopeo|oras|nerdctl|crane|az|oc|argocd|cf)\b[^\n|;#]*?\blogin\b[^\n|;#]*?\s-p[\s=]*`+given),
		row("creds", `-creds[=\s]+["']?[^\s:"'$]+:`+given),
		row("ctr", `\bctr\b[^\n|;#]*?\s(?:-u|--user)[\s=]+["']?[^\s:"'$]+:`+given),
		row("-u", `\s-U[\s=]*["']?[\w.\\/-]+%`+given),
		row("chpasswd", `\becho\s+(?:-\w+\s+)?["']?[\w.-]+:([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*chpasswd`),
		row("chpasswd", `\bchpasswd\s+<<<\s*["']?[\w.-]+:`+given),
		row("passwd", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|:]{3,})["']?\s*\|\s*(?:sudo\s+)?[\w/]*passwd\s+--stdin`),
		row("sudo", `\becho\s+(?:-\w+\s+)?["']?([^\s"'$|]{3,})["']?\s*\|\s*sudo\s+(?:-\w+\s+)*-\w*S`),
		row("pass:", `\s-(?:pass|passin|passout)\s+["']?pass:`+given),
		row("htpasswd", `\bhtpasswd\s+-\w*b\w*\s+\S+\s+\S+\s+`+given),
		row("http", `\bhttps?\s[^\n|;#]*?(?:-a|--auth)[\s=]+["']?[^\s:"'$]+:`+given),
		row("pass=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?pass=([^,\s"'$]{3,})`),
		row("password=", `\buser(?:name)?=[^,\s]+,(?:[^\s]*,)?password=([^,\s"'$]{3,})`),
		row("password=", `(?:^|[\s,])password=([^,\s"'$]{3,}),(?:[^\s]*,)?user(?:name)?=`),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?=["']?`+given),
		row("--", `(?i)(?:^|[\s"'\[,])--?[\w-]*(?:password|passwd|passphrase|pass)["']?,?\s+["']?([^\s"'$<>{}()|-][^\s"'$<>{}|]*\d[^\s"'$<>{}|]*)`),
		{kind: "a token of a command", text: true, general: true, hints: []string{"--"}, in: settings, value: 1, digit: true,
			re: expression(`(?i)(?:^|[\s"'\[,])--?[\w-]*(?:token|secret|api-?key|auth-?key|access-?key|secret-?key|certificate-key|psk|credentials)["',]*(?:=|\s+|,)\s*["']?([^\s"'$<>{}()|/-][^\s"'$<>{}|]{7,})`)},
		{kind: "a password of cloud-init", text: true, hints: []string{"chpasswd:"}, re: expression(`^\s*chpasswd:`),
			then: expression(`^[^\n]*(\n\s*(expire|list|users):[^\n]*)*\n\s*(-\s*)?["']?[a-z_][\w.-]*:[^\s:"'$]{4,}`)},
		{kind: "a password of cloud-init", text: true, hints: []string{"plain_text_passwd"}, value: 1, re: expression(`plain_text_passwd["']?\s*:\s*["']?([^\s"'$,}]{3,})`)},
		{kind: "a credential of systemd", text: true, hints: []string{"setcredential"}, re: expression(`(?i)^\s*SetCredential\s*=\s*["']?[^:\s]+:\s*\S{3,}`)},
		{kind: "a credential of systemd", text: true, hints: []string{"systemd.set_credential", "io.systemd.credential"}, re: expression(`(systemd\.set_credential(_binary)?=|io\.systemd\.credential(\.binary)?:)[^\s:=]+[:=]\S{3,}`)},
		{kind: "a token in a URL", text: true, general: true, hints: []string{"://"}, in: noSamples, digit: true, re: expression(`://[\w-]{20,}@[\w-]+\.`)},
		{kind: "a password in an address", text: true, general: true, hints: []string{"password=", "passwd=", "pwd=", "secret=", "token=", "apikey=", "api_key=", "sig=", "signature="}, in: noSamples, value: 1,
			re: expression(`(?i)(?:[?&;]|&amp;)\s*(?:[\w-]*password|passwd|pwd|(?:access|auth|api|private|client)?_?-?(?:token|secret)|api_?key|sig|signature)=([^\s&;"'<>$%{}]{6,})`)},
	}
}

// accounts are the machine's.
func (d *draft) accounts() []account {
	lines, err := accountLines(d.h)
	d.failed(err)
	return parseAccounts(lines)
}
