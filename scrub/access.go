package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

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
			Find: sshPasswords,
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
func sshPasswords(_ context.Context, h *host.Host) (plan.Answer, error) {
	return removeWhere(h, "user data allow logins with passwords", func(text []byte) bool { return allowsPasswords().Match(text) }, sshdCloudInit)
}
