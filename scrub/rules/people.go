package rules

import (
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// peopleRules are the rules for files that name the people who built the image, for their data and
// their logins. Those of logins run last, because they remove the key that the build itself logged
// in with.
func peopleRules() []rule.Rule {
	g := []string{"people"}
	return []rule.Rule{
		{
			ID: "names-in-configs", Phase: rule.Caches, Groups: g, Verb: plan.Remove,
			Paths:       []string{"~/.gitconfig", "~/.config/git/config", "~/.hgrc", "~/.makepkg.conf"},
			Owner:       "Git, Mercurial, makepkg",
			Why:         "commits made on every node would have the name and address of the person who built the image; a configuration without a name stays",
			Regenerated: "nothing", Source: "git-config(1), user.name; hgrc(5), ui.username; makepkg.conf(5), PACKAGER",
			Look: removesWhere("names the person who built the image", `(?im)^\s*(name|email|username|PACKAGER)\s*=\s*\S`),
		},
		{
			ID: "old-passwords", Phase: rule.Caches, Groups: append(g, "secrets"), Verb: plan.Empty,
			Paths: []string{"/etc/security/opasswd", "/etc/security/opasswd.old"}, Owner: "pam_pwhistory, pam_unix",
			Why:         "the file has hashes of the accounts' earlier passwords; the file stays, because its mode and label matter",
			Regenerated: "PAM, when a password changes", Source: "pam_pwhistory(8)",
		},
		{
			ID: "homes-left", Phase: rule.Access, Groups: g, Verb: rule.Report,
			Paths:       []string{"/home/*", "/home/*.home", "/var/lib/systemd/home/*.identity"},
			Owner:       "pam_mkhomedir, useradd, systemd-homed",
			Why:         "the name of the folder is that of a person from a domain, or of an account that was removed",
			Regenerated: "pam_mkhomedir, when the person logs in", Source: "pam_mkhomedir(8), systemd-homed.service(8)",
			Look: homesWithoutAccount,
		},
		{
			ID: "lingering", Phase: rule.Access, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/systemd/linger/*"}, Owner: "loginctl enable-linger",
			Why:         "the file names a person without an account; for an account of the image, it is the operator's decision and stays",
			Regenerated: "nothing", Source: "loginctl(1)",
			Look: lingering,
		},
		{
			ID: "histories", Phase: rule.Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
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
			ID: "history-of-etc", Phase: rule.Caches, Groups: []string{"secrets", "identity", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/.git", "/etc/.hg", "/etc/.bzr", "/etc/_darcs"}, Owner: "etckeeper",
			Why:         "old commits keep the host keys, password hashes and configurations that other rules remove from the files, and the names of their authors",
			Regenerated: "etckeeper init", Source: "etckeeper(8)",
		},
		{
			ID: "credentials", Phase: rule.Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
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
			ID: "account-backups", Phase: rule.Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"}, Owner: "shadow-utils",
			Why: "backups of the account files keep old password hashes", Regenerated: "shadow-utils", Source: "virt-sysprep",
		},
		{
			ID: "ssh-people", Phase: rule.Access, Groups: []string{"secrets", "people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/known_hosts*", "~/.ssh/id_*", "~/.ssh/config", "~/.ssh/environment", "~/.ssh/*.pem", "~/.ssh/agent*", "~/.ssh/control-*"}, Owner: "the people who built the image",
			Why: "the files contain people's private keys and the names of the hosts they log in to", Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
		},
		{
			ID: "ssh-passwords", Phase: rule.Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"/etc/ssh/sshd_config.d/50-cloud-init.conf"}, Owner: "cloud-init",
			Why:         "the build's user data lets people log in to every node with a password; a file that forbids passwords stays",
			Regenerated: "cloud-init, if ssh_pwauth is set", Source: "cloud-init clean --configs ssh_config",
			Look: removesWhere("user data allow logins with passwords", `(?im)^\s*PasswordAuthentication\s+"?yes`),
		},
		{
			ID: "sudo-of-default-user", Phase: rule.Access, Groups: []string{"people"}, Verb: plan.Remove,
			Paths: []string{"/etc/sudoers.d/90-cloud-init-users"}, Owner: "cloud-init",
			Why: "the build's user could become root on every node", Regenerated: "cloud-init, for the default user", Source: "cloud-init, users and groups",
		},
		keysElsewhereRule(),
		{
			ID: "authorized-keys", Phase: rule.Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/authorized_keys*", "/etc/ssh/authorized_keys.d/*", "/etc/dropbear/authorized_keys*", "/etc/dropbear/initramfs/authorized_keys*", "/etc/dropbear-initramfs/authorized_keys*"}, Owner: "cloud-init, the people who built the image",
			Why:         "the people who built the image could log in to every node; the key that Packer logs in with is among these keys",
			Regenerated: "cloud-init, from the instance's key pair", Source: "AWS: guidelines for shared Linux AMIs; packer #3775",
		},
	}
}

// lingering plans the removal of the marks of people without an account.
func lingering(d *rule.Draft) {
	accounts := d.Accounts()
	for _, name := range d.Glob(d.Paths...) {
		if !slices.ContainsFunc(accounts, func(a rule.Account) bool { return a.Name == path.Base(name) }) {
			d.Remove(name, "names a person without an account")
		}
	}
}

// homesWithoutAccount reports homes of people who have no account on this
// machine.
func homesWithoutAccount(d *rule.Draft) {
	for _, name := range d.Known(d.Paths[1:]...) {
		d.Find(name, "home of a person of systemd-homed: run homectl remove, or remove the file")
	}
	for _, a := range strangerHomes(d, d.Accounts()) {
		attr, err := d.Host.Files.Attributes(a.Home)
		d.Failed(err)
		// Programs have folders in /home, but no skeleton of a home.
		if attr.UID >= 1000 || len(d.Glob(rule.QuoteGlob(a.Home)+"/.[a-z]*")) > 0 {
			d.Find(a.Home, "home of an account that this machine does not know: move what the image needs, and remove the "+
				"folder")
		}
	}
}
