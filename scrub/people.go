package scrub

import (
	"context"
	"path"
	"slices"

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
			Paths: []string{"/home/*", homedHomes[0], homedHomes[1]}, Owner: "pam_mkhomedir, useradd, systemd-homed",
			Why:         "the name of the folder is that of a person from a domain, or of an account that was removed",
			Regenerated: "pam_mkhomedir, when the person logs in", Source: "pam_mkhomedir(8), systemd-homed.service(8)",
			Find: homesWithoutAccount,
		},
		{
			ID: "lingering", Phase: Access, Groups: g, Verb: plan.Remove,
			Paths: []string{lingerFolder + "/*"}, Owner: "loginctl enable-linger",
			Why:         "the file names a person without an account; for an account of the image, it is the operator's decision and stays",
			Regenerated: "nothing", Source: "loginctl(1)",
			Find: lingering,
		},
	}
}

// homedHomes are the homes of systemd-homed and the records of their people.
var homedHomes = []string{"/home/*.home", "/var/lib/systemd/home/*.identity"}

const lingerFolder = "/var/lib/systemd/linger"

// lingering plans the removal of the marks of people without an account.
func lingering(_ context.Context, h *host.Host) (plan.Answer, error) {
	lines, err := accountLines(h)
	if err != nil {
		return plan.Answer{}, err
	}
	names, err := glob(h, lingerFolder+"/*")
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range names {
		if !slices.ContainsFunc(parseAccounts(lines), func(a account) bool { return a.name == path.Base(name) }) {
			answer.Act(removeAction(h, name, "names a person without an account"))
		}
	}
	return answer, nil
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
	homed, _, err := matching(h, homedHomes)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range homed {
		answer.Find(name, "home of a person of systemd-homed: run homectl remove, or remove the file")
	}
	for _, a := range strangers {
		attr, err := h.Files.Attributes(a.home)
		if err != nil {
			return plan.Answer{}, err
		}
		// Programs have folders in /home, but no skeleton of a home.
		skeleton, err := glob(h, quoteGlob(a.home)+"/.[a-z]*")
		if err != nil {
			return plan.Answer{}, err
		}
		if attr.UID >= 1000 || len(skeleton) > 0 {
			answer.Find(a.home, "home of an account that this machine does not know: move what the image needs, and remove the folder")
		}
	}
	return answer, nil
}
