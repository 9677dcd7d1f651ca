package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// accessRules are the rows of people and of the ways in. They come last: the
// key that the build itself logged in with is one of them.
func accessRules() []Rule {
	return []Rule{
		{
			ID: "histories", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{
				"~/.*_history", "~/.*_history-*", "~/.history", "~/.zhistory", "~/.histfile", "~/.local/state/bash/history", "~/.local/state/less/history", "~/.local/share/fish/fish_history",
				"~/.viminfo*", "~/.local/state/vim/viminfo*", "~/.local/state/nvim/shada/*", "~/.local/share/nano/search_history",
				"~/.dbshell", "~/.mongo/mongosh_history", "~/.mongodb/mongosh/mongosh_repl_history",
			}, Owner: "shells and clients",
			Why: "secrets typed at a prompt", Regenerated: "nothing", Source: "virt-sysprep",
		},
		{
			ID: "history-of-etc", Phase: Caches, Groups: []string{"secrets", "identity", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/.git", "/etc/.hg", "/etc/.bzr", "/etc/_darcs"}, Owner: "etckeeper",
			Why:         "its commits keep the host keys, password hashes and former configurations that are taken out of the files, and who wrote them",
			Regenerated: "etckeeper init", Source: "etckeeper(8)",
		},
		{
			ID: "credentials", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{
				"~/.aws", "~/.kube", "~/.docker/config.json", "~/.docker/contexts", "~/.docker/trust", "~/.dockercfg", "~/.config/containers/auth.json",
				"~/.config/helm/registry", "~/.config/helm/repositories.yaml", "~/.netrc", "~/.authinfo*", "~/.config/gcloud", "~/.boto", "~/.s3cfg", "~/.azure", "~/.oci",
				"~/.config/doctl", "~/.config/rclone", "~/.config/gh", "~/.config/hub", "~/.config/glab-cli", "~/.git-credentials", "~/.config/git/credentials",
				"~/.gnupg", "~/.npmrc", "~/.yarnrc.yml", "~/.pypirc", "~/.cargo/credentials*", "~/.gem/credentials", "~/.composer/auth.json", "~/.config/composer/auth.json",
				"~/.m2/settings*.xml", "~/.terraformrc", "~/.terraform.d/credentials.tfrc.json", "~/.vault-token", "~/.ansible/galaxy_token",
				"~/.pgpass", "~/.my.cnf", "~/.mylogin.cnf", "~/.smbcredentials", "~/.subversion/auth", "/eks-hybrid/.aws/credentials",
			}, Owner: "the people who built the image, hybrid nodes' nodeadm",
			Why: "credentials of the people who built the image", Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
		},
		{
			ID: "account-backups", Phase: Caches, Groups: []string{"secrets", "people"}, Verb: plan.Remove,
			Paths: []string{"/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-", "/etc/subuid-", "/etc/subgid-"}, Owner: "shadow-utils",
			Why: "older password hashes", Regenerated: "shadow-utils", Source: "virt-sysprep",
		},
		{
			ID: "ssh-people", Phase: Access, Groups: []string{"secrets", "people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/known_hosts*", "~/.ssh/id_*", "~/.ssh/config", "~/.ssh/environment", "~/.ssh/*.pem", "~/.ssh/agent*", "~/.ssh/control-*"}, Owner: "the people who built the image",
			Why: "their private keys, and where they log in", Regenerated: "nothing", Source: "AWS: guidelines for shared Linux AMIs",
		},
		{
			ID: "ssh-passwords", Phase: Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{sshdCloudInit}, Owner: "cloud-init",
			Why:         "the build's user data lets people log in to every node with passwords; one that forbids it stays",
			Regenerated: "cloud-init, where ssh_pwauth says so", Source: "cloud-init clean --configs ssh_config",
			Find: sshPasswords,
		},
		{
			ID: "sudo-of-default-user", Phase: Access, Groups: []string{"people"}, Verb: plan.Remove,
			Paths: []string{"/etc/sudoers.d/90-cloud-init-users"}, Owner: "cloud-init",
			Why: "the build's user may become root on every node", Regenerated: "cloud-init, for the default user", Source: "cloud-init, users and groups",
		},
		{
			ID: "authorized-keys", Phase: Access, Groups: []string{"people", "ssh"}, Verb: plan.Remove,
			Paths: []string{"~/.ssh/authorized_keys*", "/etc/ssh/authorized_keys.d/*"}, Owner: "cloud-init, the people who built the image",
			Why:         "whoever built the image may log in to every node; the build's own key is one of these",
			Regenerated: "cloud-init, from the instance's key pair", Source: "AWS: guidelines for shared Linux AMIs; packer #3775",
		},
	}
}

const sshdCloudInit = "/etc/ssh/sshd_config.d/50-cloud-init.conf"

var allowsPasswords = expression(`(?im)^\s*PasswordAuthentication\s+"?yes`)

// sshPasswords plans the removal of cloud-init's answer to ssh_pwauth where it
// is yes.
func sshPasswords(_ context.Context, h *host.Host) (plan.Answer, error) {
	return removeWhere(h, "user data let people log in with passwords", func(text []byte) bool { return allowsPasswords().Match(text) }, sshdCloudInit)
}
