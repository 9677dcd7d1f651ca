package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
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
			Find: configsWithNames,
		},
		{
			ID: "old-passwords", Phase: Caches, Groups: append(g, "secrets"), Verb: plan.Empty,
			Paths: []string{"/etc/security/opasswd", "/etc/security/opasswd.old"}, Owner: "pam_pwhistory, pam_unix",
			Why:         "the file has hashes of the accounts' earlier passwords; the file stays, because its mode and label matter",
			Regenerated: "PAM, when a password changes", Source: "pam_pwhistory(8)",
		},
		{
			ID: "homes-left", Phase: Access, Groups: g, Verb: Report,
			Paths: []string{"/home/*"}, Owner: "pam_mkhomedir, useradd",
			Why:         "the name of the folder is that of a person from a domain, or of an account that was removed",
			Regenerated: "pam_mkhomedir, when the person logs in", Source: "pam_mkhomedir(8)",
			Find: homesWithoutAccount,
		},
	}
}

var namedConfigs = []string{"~/.gitconfig", "~/.config/git/config", "~/.hgrc", "~/.makepkg.conf"}

var namesAPerson = expression(`(?im)^\s*(name|email|username|PACKAGER)\s*=\s*\S`)

// configsWithNames plans the removal of the configurations that name a person.
func configsWithNames(_ context.Context, h *host.Host) (plan.Answer, error) {
	names, foreign, err := matching(h, namedConfigs)
	if err != nil {
		return plan.Answer{}, err
	}
	answer, err := removeWhere(h, "names the person who built the image", func(text []byte) bool { return namesAPerson().Match(text) }, names...)
	answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
	return answer, err
}

// homesWithoutAccount reports homes of people who have no account on this
// machine.
func homesWithoutAccount(_ context.Context, h *host.Host) (plan.Answer, error) {
	lines, err := accountLines(h)
	if err != nil {
		return plan.Answer{}, err
	}
	strangers, err := strangerHomes(h, parseAccounts(lines))
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, a := range strangers {
		attr, err := h.Files.Attributes(a.home)
		if err != nil {
			return plan.Answer{}, err
		}
		if attr.UID >= 1000 {
			answer.Find(a.home, "home of an account that this machine does not know: move what the image needs, and remove the folder")
		}
	}
	return answer, nil
}
