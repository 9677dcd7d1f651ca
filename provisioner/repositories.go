package provisioner

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// repository has the files of one of the spec's repositories.
type repository struct {
	text plan.File
	key  plan.File // without a path if the text names the key
}

func (n *node) repositories() []repository {
	form := n.distro.PackageManager.RepositoryForm()
	var list []repository
	for _, name := range slices.Sorted(maps.Keys(n.spec.Repositories)) {
		file, keyFile := form.Named(name)
		key, keyed := n.spec.RepositoryKeys[name]
		r := repository{text: textFile(file, form.Text(name, n.spec.Repositories[name], keyed),
			"repositories has this repository")}
		if keyed {
			r.key = textFile(keyFile, strings.TrimSpace(key)+"\n", "the key of the repository "+name)
		}
		list = append(list, r)
	}
	return list
}

// planRepositories plans what comes before and after the installation of packages, if
// installs, and otherwise what is left of both. Repositories that are for the build
// alone are there only while packages are installed.
func (n *node) planRepositories(h *host.Host, installs bool) (before, after []plan.Action, err error) {
	form := n.distro.PackageManager.RepositoryForm()
	if form.File == "" {
		return nil, nil, nil
	}
	var g gathered
	var files []plan.File
	if installs || n.spec.KeepRepositories {
		for _, r := range n.repositories() {
			if r.key.Path != "" {
				files = append(files, r.key)
				g.add(plan.Files(h, []plan.File{r.key}))
				g.add(n.planTrust(h, r))
			}
			files = append(files, r.text)
			g.add(plan.Files(h, []plan.File{r.text}))
		}
	}
	for _, pattern := range []string{form.File, form.KeyFile} {
		g.add(planOld(h, pattern, "repositories no longer has this repository", files))
	}
	g.add(n.planRepositoryLine(h, form, len(files) > 0))
	before, err = g.all()
	if err != nil || n.spec.KeepRepositories || len(files) == 0 {
		return before, nil, err
	}
	for _, f := range files {
		after = append(after, removal(h, f.Path, "the repository is for the build alone"))
	}
	if form.Conf != "" {
		after = append(after, withoutLine(form).Action(h))
	}
	return before, after, nil
}

// planTrust plans to make the package manager trust a repository's key, which comes
// before the repository itself: a killed run repeats both.
func (n *node) planTrust(h *host.Host, r repository) ([]plan.Action, error) {
	there, err := r.text.IsThere(h)
	trust := n.distro.PackageManager.RepositoryForm().Trust
	if err != nil || there || len(trust) == 0 {
		return nil, err
	}
	return []plan.Action{act(plan.Run, trust[0]+" with "+r.key.Path, "the package manager trusts the key",
		func(ctx context.Context) error {
			if err := run(ctx, h, append(slices.Clone(trust), r.key.Path)); err != nil {
				return fmt.Errorf("trusting the key of a repository: %w", err)
			}
			return nil
		})}, nil
}

// planRepositoryLine plans the line with which the package manager reads the files, or
// its removal.
func (n *node) planRepositoryLine(h *host.Host, form distros.RepositoryForm, wanted bool) ([]plan.Action, error) {
	if form.Conf == "" {
		return nil, nil
	}
	if wanted {
		return planLines(h, []lineInFile{{Path: form.Conf, Key: "^" + regexp.QuoteMeta(form.Line) + "$",
			Text: form.Line, Why: "the package manager reads the repositories"}})
	}
	return plan.Edits(h, withoutLine(form))
}

func withoutLine(form distros.RepositoryForm) plan.Edit {
	return plan.Edit{
		Path: form.Conf, Target: form.Conf + ": without " + form.Line, Why: "there are no more repositories of eksnode",
		Change: func(text string) string { return strings.Replace(text, form.Line+"\n", "", 1) },
	}
}

// planOld plans the removal of eksnode's files that the spec no longer has. pattern is
// their path, with %s for a name.
func planOld(h *host.Host, pattern, why string, wanted []plan.File) ([]plan.Action, error) {
	prefix, suffix, _ := strings.Cut(path.Base(pattern), "%s")
	entries, err := entries(h, path.Dir(pattern))
	if err != nil {
		return nil, fmt.Errorf("looking for old files: %w", err)
	}
	var actions []plan.Action
	for _, e := range entries {
		name := path.Join(path.Dir(pattern), e.Name())
		has := slices.ContainsFunc(wanted, func(f plan.File) bool { return f.Path == name })
		// When the folder of certificates is also the folder of the result, the
		// refreshing command adds links there.
		ours := strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix)
		if ours && !has && e.Mode().IsRegular() {
			actions = append(actions, removal(h, name, why))
		}
	}
	return actions, nil
}

// validateRepositories refuses repositories without a text, keys without a repository
// and files that are no keys.
func (s Spec) validateRepositories(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(s.Repositories)) {
		switch {
		case !labelForm.MatchString(name):
			p.add("%s "+noLabel, surface.Name("repositories").Key(name))
		case strings.TrimSpace(s.Repositories[name]) == "":
			p.add("%s is empty; give the text of a repository's file", surface.Name("repositories").Key(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.RepositoryKeys)) {
		field, key := surface.Name("repository_keys").Key(name), s.RepositoryKeys[name]
		has := func(line string) bool { return strings.Contains(key, "-----"+line+" KEY BLOCK-----") }
		switch _, used := s.Repositories[name]; {
		case !used:
			p.add("%s has no effect: {repositories} has no repository of this name", field)
		case has("BEGIN PGP PRIVATE"):
			p.add("%s is a private key, which must not leave its owner: give the public key", field)
		case !has("BEGIN PGP PUBLIC") || !has("END PGP PUBLIC"):
			p.add("%s is not a public key of OpenPGP in text form; `gpg --armor --export` writes one", field)
		}
	}
	if s.KeepRepositories && len(s.Repositories) == 0 {
		p.add("{keep_repositories} has no effect without {repositories}")
	}
}

// checkRepositories refuses repositories that the distribution's package manager cannot
// read.
func (s Spec) checkRepositories(d distros.Distro, p *problems) {
	form := d.PackageManager.RepositoryForm()
	for _, name := range slices.Sorted(maps.Keys(s.Repositories)) {
		if form.File == "" {
			p.add("%s: %s has no package manager", surface.Name("repositories").Key(name), d.Name)
			continue
		}
		_, keyed := s.RepositoryKeys[name]
		if err := form.Check(s.Repositories[name], keyed); err != nil {
			p.add("%s: on %s %w", surface.Name("repositories").Key(name), d.Name, err)
		}
	}
}

// repositoryWarnings name the repositories whose packages nothing verifies.
func (s Spec) repositoryWarnings(d distros.Distro) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Repositories)) {
		if setting := d.PackageManager.RepositoryForm().Unverified(s.Repositories[name]); setting != "" {
			list = append(list, fmt.Sprintf("the repository %s has %q: nobody verifies the signatures of its packages",
				name, setting))
		}
	}
	return list
}
