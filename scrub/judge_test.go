//go:build linux

package scrub

import (
	"cmp"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A rule fails and removes nothing if it matches a package's file, or if a link
// leads it to files that the system needs.
func TestRulesThatMatchNeededFilesFail(t *testing.T) {
	file := manifest.File{Path: "/opt/ours/bin/plugin", Mode: 0o755, Size: 1, SHA256: manifest.Sum([]byte("x"))}
	recorded, err := (&manifest.Manifest{
		Assets:    []manifest.Asset{{ID: "plugin", Version: "1", Files: []manifest.File{file}}},
		Templates: []manifest.Template{{Path: "/opt/ours/template", Mode: 0o644, SHA256: manifest.Sum([]byte("x")), Content: "x"}},
	}).Encode()
	require.NoError(t, err)
	base := map[string]string{
		"etc/passwd":    passwd + "deploy:x:1001:1001::/srv/deploy:/bin/bash\nours:x:120:120::/var/lib/ours:/bin/false\n",
		"etc/systemd/x": "x", "usr/bin/tool": "x", "bin": "-> usr/bin", "lib": "-> usr/lib", "usr/lib/ours/a": "x", "usr/lib/systemd/systemd": "x",
		"opt/data": "-> /etc", "opt/init": "-> /usr/lib/systemd", "opt/root": "-> /", "opt/homes": "-> /srv", "srv/deploy/notes": "x", "var/lib/ours/state": "x",
		"opt/pkg/owned": "x", "opt/pkg/deep/state": "x", "opt/pkg/free": "x", "usr/share/doc/tool/copyright": "x", "opt/ours/bin/plugin": "x", "opt/ours/bin/other": "x", "opt/ours/template": "x",
		manifest.Path[1:]:  string(recorded),
		"boot/vmlinuz-6.1": "x", "opt/kernels": "-> ../boot",
	}
	dpkg := map[string]string{
		"var/lib/dpkg/status":         "Package: tool\nStatus: install ok installed\nVersion: 1\n\nPackage: pkg\nStatus: deinstall ok config-files\n",
		"var/lib/dpkg/info/tool.list": "/.\n/bin\n/bin/tool\n/usr\n/usr/share/doc/tool/copyright\n/lib\n/lib/ours\n/lib/ours/a\n",
		"var/lib/dpkg/info/pkg.list":  "/.\n/opt\n/opt/pkg\n/opt/pkg/owned\n/opt/pkg/missing\n/opt/pkg/deep\n",
	}
	const belongs = `: list the file under keep, remove the package, or set "owned: true" to let the rule remove files of packages`
	const needs = " on this machine and matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead"
	for name, c := range map[string]struct {
		rule Rule
		want string // error; empty if the rule runs
	}{
		"a package's file": {rule: Rule{Paths: []string{"/opt/pkg/owned"}},
			want: "x: /opt/pkg/owned belongs to the package pkg" + belongs},
		"a package's file, emptied": {rule: Rule{Verb: plan.Empty, Paths: []string{"/opt/pkg/owned"}},
			want: "x: /opt/pkg/owned belongs to the package pkg" + belongs},
		"a parent of a package's file": {rule: Rule{Verb: plan.Empty, Paths: []string{"/opt/pkg"}},
			want: "x: /opt/pkg/deep belongs to the package pkg" + belongs},
		"by wildcards": {rule: Rule{Paths: []string{"/opt/p*/o*"}},
			want: "x: /opt/pkg/owned belongs to the package pkg" + belongs},
		"by the old name of a folder": {rule: Rule{Paths: []string{"/usr/bin/tool"}},
			want: "x: /usr/bin/tool belongs to the package tool" + belongs},
		"through a folder's old name": {rule: Rule{Paths: []string{"/lib/ours"}},
			want: "x: /usr/lib/ours belongs to the package tool" + belongs},
		"a package's folder": {rule: Rule{Paths: []string{"/opt/pkg/deep"}},
			want: "x: /opt/pkg/deep belongs to the package pkg" + belongs},
		"allowed by owned":            {rule: Rule{Owned: true, Paths: []string{"/opt/pkg", "/usr/share/doc"}}},
		"kept":                        {rule: Rule{Paths: []string{"/opt/pkg/*"}, Keep: []string{"/opt/pkg/owned", "/opt/pkg/deep"}}},
		"in a package's folder":       {rule: Rule{Paths: []string{"/opt/pkg/free", "/opt/pkg/deep/state"}}},
		"a package's folder, emptied": {rule: Rule{Verb: plan.Empty, Paths: []string{"/opt/pkg/deep"}}},
		"a missing file":              {rule: Rule{Paths: []string{"/opt/pkg/missing"}}},
		"through a link to /etc": {rule: Rule{Owned: true, Paths: []string{"/opt/data/passwd"}},
			want: "x: /opt/data/passwd is /etc/passwd" + needs},
		"by wildcards through a link": {rule: Rule{Owned: true, Paths: []string{"/opt/d*/sys*"}},
			want: "x: /opt/data/systemd is /etc/systemd" + needs},
		"a link to /etc, emptied": {rule: Rule{Owned: true, Verb: plan.Empty, Paths: []string{"/opt/data"}},
			want: "x: /opt/data is /etc" + needs},
		"a link to the root, emptied": {rule: Rule{Owned: true, Verb: plan.Empty, Paths: []string{"/opt/root"}},
			want: "x: /opt/root is / on this machine and matches too much: the rule would remove a top folder of the system or a whole home"},
		"a link to systemd's files": {rule: Rule{Owned: true, Paths: []string{"/opt/init/systemd"}},
			want: "x: /opt/init/systemd is /usr/lib/systemd/systemd on this machine and matches too much: the system needs everything below /usr/lib/systemd; leave the path out"},
		"a link to /boot": {rule: Rule{Owned: true, Paths: []string{"/opt/kernels/*"}},
			want: "x: /opt/kernels/vmlinuz-6.1 is /boot/vmlinuz-6.1 on this machine and matches too much: the system needs everything below /boot; leave the path out"},
		"the link itself": {rule: Rule{Paths: []string{"/opt/data", "/opt/root", "/opt/init"}}},
		"a person's home": {rule: Rule{Paths: []string{"/srv/deploy"}},
			want: `x: removing /srv/deploy would remove /srv/deploy, which must stay: home of "deploy"; list other files instead`},
		"people's homes by a link": {rule: Rule{Verb: plan.Empty, Paths: []string{"/opt/homes"}},
			want: `x: removing /opt/homes would remove /srv/deploy, which must stay: home of "deploy"; list other files instead`},
		"in a person's home": {rule: Rule{Paths: []string{"/srv/deploy/notes"}}},
		"a daemon's home":    {rule: Rule{Paths: []string{"/var/lib/ours"}}},
		"a file in the manifest": {rule: Rule{Owned: true, Paths: []string{"/opt/ours/bin"}},
			want: "x: removing /opt/ours/bin would remove /opt/ours/bin/plugin, which must stay: the image's manifest records it; list other files instead"},
		"a template of the manifest": {rule: Rule{Owned: true, Verb: plan.Empty, Paths: []string{"/opt/ours/template"}},
			want: "x: removing /opt/ours/template would remove /opt/ours/template, which must stay: the image's manifest records it; list other files instead"},
		"keeping the manifest's file": {rule: Rule{Paths: []string{"/opt/ours/bin"},
			Keep: []string{"/opt/ours/bin/plugin"}}},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(base)
			maps.Copy(files, dpkg)
			h, root := surrounded(t, files)
			r := c.rule
			r.ID, r.Phase, r.Why = "x", State, "y"
			r.Verb = cmp.Or(r.Verb, plan.Remove)
			items := selected(t, Spec{Only: []string{"x"}, Own: []Rule{r}}, ToScrub)
			before := noted(t, root)
			outcomes, err := plan.Apply(t.Context(), h, items, nil)
			if c.want != "" {
				require.EqualError(t, err, c.want)
				assert.Empty(t, diff(before, noted(t, root)))
				return
			}
			require.NoError(t, err)
			if name != "a missing file" {
				assert.Equal(t, plan.Done, outcomes[0].Status)
			}
		})
	}
}

// A rule does not run if the owners of files cannot be read.
func TestRulesFailIfOwnersCannotBeRead(t *testing.T) {
	const remedy = `; to skip the check, set "owned: true" in the rule`
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"dpkg's list is lost": {map[string]string{"var/lib/dpkg/status": "Package: tool\nStatus: install ok installed\n"},
			`x: checking whether a package owns /opt/ours/a: reading dpkg's lists of files: "tool" has no list in /var/lib/dpkg/info; install the package again` + remedy},
		"dpkg's list is of zeros": {map[string]string{"var/lib/dpkg/info/tool.list": "\x00\x00\x00"},
			`x: checking whether a package owns /opt/ours/a: reading dpkg's lists of files: /var/lib/dpkg/info/tool.list:1: "\x00\x00\x00" is not an absolute path; install the package again` + remedy},
		"pacman's list is lost": {map[string]string{"var/lib/pacman/local/tool-1-1/desc": "x"},
			"x: checking whether a package owns /opt/ours/a: reading pacman's database: open /var/lib/pacman/local/tool-1-1/files: no such file or directory" + remedy},
		"rpm's database is damaged": {map[string]string{"usr/lib/sysimage/rpm/rpmdb.sqlite": "x", "var/lib/rpm": "-> ../../usr/lib/sysimage/rpm"},
			"x: checking whether a package owns /opt/ours/a: reading the packages in /var/lib/rpm: the database is damaged: run \"rpmdb --rebuilddb\" on the machine" + remedy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			files := map[string]string{"etc/passwd": passwd, "opt/ours/a": "x"}
			maps.Copy(files, c.files)
			h, root := surrounded(t, files)
			spec := Spec{Only: []string{"x"}, Own: []Rule{withPath("/opt/ours/a")}}
			items := selected(t, spec, ToScrub)
			before := noted(t, root)
			_, err := plan.Apply(t.Context(), h, items, nil)
			require.EqualError(t, err, c.want)
			assert.Empty(t, diff(before, noted(t, root)))
			items = selected(t, spec, ToAudit)
			assert.Equal(t, c.want, plan.Make(t.Context(), h, items)[0].Error)

			spec.Own[0].Owned = true
			assert.Equal(t, plan.Done, apply(t, h, spec)[0].Status)
		})
	}
}

// pacman's database protects files of packages as dpkg's does.
func TestFilesOfPacmanPackagesAreOwned(t *testing.T) {
	h, _ := surrounded(t, map[string]string{
		"etc/passwd": passwd, "opt/pkg/owned": "x", "opt/pkg/backup": "x", "var/lib/pacman/local/ALPM_DB_VERSION": "9",
		"var/lib/pacman/local/pkg-1.0-1/files": "%FILES%\nopt/\nopt/pkg/\nopt/pkg/owned\n\n%BACKUP%\nopt/pkg/backup\t0\n",
	})
	for name, want := range map[string]string{
		"/opt/pkg/owned":  `x: /opt/pkg/owned belongs to the package pkg-1.0-1: list the file under keep, remove the package, or set "owned: true" to let the rule remove files of packages`,
		"/opt/pkg/backup": "",
	} {
		items := selected(t, Spec{Only: []string{"x"}, Own: []Rule{withPath(name)}}, ToScrub)
		_, err := plan.Apply(t.Context(), h, items, nil)
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, want)
	}
}

// Kept files stay at any depth below a folder that the rule removes or empties,
// together with their parent folders. Everything else in the folder goes.
func TestKeptFilesStay(t *testing.T) {
	files := map[string]string{
		"etc/passwd": passwd, "opt/ours/a": "gone", "opt/ours/ca.pem": "x", "opt/ours/deep/er/ca.pem": "x", "opt/ours/deep/er/b": "gone",
		"opt/ours/deep/other/c": "gone", "opt/ours/deep/folder/in/d": "x", "opt/ours/link": "-> deep/er", "opt/ours/empty/": "",
		"opt/beside/a": "x", "moved/here/id": "gone", "moved/here/keep/e": "x", "opt/elsewhere": "-> /moved/here",
		"root/.ours/id": "gone", "root/.ours/ca/f": "x", "home/admin/.ours/id": "gone", "home/admin/.ours/ca/f": "x",
	}
	for name, c := range map[string]struct {
		paths, keep, gone []string
		stays             bool // the folder, when it is emptied
	}{
		"a file": {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours/ca.pem"},
			gone: []string{"a", "deep", "deep/er", "deep/er/b", "deep/er/ca.pem", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c", "empty", "link"}},
		"a file far below": {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours/deep/er/ca.pem"},
			gone: []string{"a", "ca.pem", "deep/er/b", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c", "empty", "link"}},
		"a folder and its files": {paths: []string{"/opt/ours/*"}, keep: []string{"/opt/ours/deep/folder"},
			gone: []string{"a", "ca.pem", "deep/er", "deep/er/b", "deep/er/ca.pem", "deep/other", "deep/other/c", "empty", "link"}},
		"wildcards": {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours/*/*/*.pem", "/opt/*/ca.pem"},
			gone: []string{"a", "deep/er/b", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c", "empty", "link"}},
		"more slashes": {paths: []string{"/opt//ours/"}, keep: []string{"//opt/ours//deep/", "/opt/ours/empty/"},
			gone: []string{"a", "ca.pem", "link"}},
		"through a link": {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours/link/ca.pem"},
			gone: []string{"a", "ca.pem", "deep/er/b", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c", "empty"}},
		"a link": {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours/link"},
			gone: []string{"a", "ca.pem", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c", "empty"}},
		"the folder itself":     {paths: []string{"/opt/ours"}, keep: []string{"/opt/ours"}},
		"all files of a folder": {paths: []string{"/opt/ours/deep/*"}, keep: []string{"/opt/ours/deep/*"}},
		"a folder above":        {paths: []string{"/opt/ours/deep/er"}, keep: []string{"/opt/ours/*"}},
		"a missing file":        {paths: []string{"/opt/ours/deep"}, keep: []string{"/opt/ours/deep/none"}, gone: []string{"deep", "deep/er", "deep/er/b", "deep/er/ca.pem", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c"}},
		"a prefix of a name":    {paths: []string{"/opt/ours/deep"}, keep: []string{"/opt/ours/deep/e"}, gone: []string{"deep", "deep/er", "deep/er/b", "deep/er/ca.pem", "deep/folder", "deep/folder/in", "deep/folder/in/d", "deep/other", "deep/other/c"}},
	} {
		for _, verb := range []plan.Verb{plan.Remove, plan.Empty} {
			t.Run(name+"/"+string(verb), func(t *testing.T) {
				h, root := surrounded(t, files)
				before := noted(t, root)
				spec := Spec{Only: []string{"ours"}, Own: []Rule{{ID: "ours", Phase: State, Verb: verb, Why: "y", Paths: c.paths,
					Keep: c.keep}}}
				gone := c.gone
				switch {
				case verb == plan.Empty && name == "a folder and its files":
					gone = []string{"deep/er", "deep/er/b", "deep/er/ca.pem", "deep/other", "deep/other/c"}
				case verb == plan.Empty && len(gone) > 0 && gone[0] == "deep":
					gone = gone[1:]
				}
				apply(t, h, spec)
				after := noted(t, root)
				for _, g := range gone {
					delete(before, "/opt/ours/"+g)
				}
				if verb == plan.Empty && name == "a folder and its files" {
					for _, file := range []string{"/opt/ours/a", "/opt/ours/ca.pem"} {
						before[file] = emptied(before[file])
					}
				}
				assert.Empty(t, diff(before, after))
				assert.Equal(t, plan.Unchanged, apply(t, h, spec)[0].Status, "the second run changed something")
			})
		}
	}
}

// Kept paths may name a moved folder by its link or by its target. In homes they
// apply to each account.
func TestKeptFilesStayBehindLinksAndInHomes(t *testing.T) {
	files := map[string]string{
		"etc/passwd": passwd, "moved/here/id": "gone", "moved/here/keep/e": "x", "opt/elsewhere": "-> /moved/here",
		"root/.ours/id": "gone", "root/.ours/ca/f": "x", "home/admin/.ours/id": "gone", "home/admin/.ours/ca/f": "x",
	}
	for name, c := range map[string]struct {
		verb       plan.Verb
		path, keep string
		gone       []string
	}{
		"behind a link":                {plan.Empty, "/opt/elsewhere", "/opt/elsewhere/keep", []string{"/moved/here/id"}},
		"behind a link, by its place":  {plan.Empty, "/opt/elsewhere", "/moved/here/keep", []string{"/moved/here/id"}},
		"before a link, by its name":   {plan.Empty, "/moved/here", "/opt/elsewhere/keep/e", []string{"/moved/here/id"}},
		"in a folder that is linked":   {plan.Remove, "/opt/elsewhere/*", "/moved/here/keep", []string{"/moved/here/id"}},
		"in homes":                     {plan.Remove, "~/.ours", "~/.ours/ca", []string{"/root/.ours/id", "/home/admin/.ours/id"}},
		"in homes, emptied":            {plan.Empty, "~/.ours", "~/.ours/ca/f", []string{"/root/.ours/id", "/home/admin/.ours/id"}},
		"in one home":                  {plan.Remove, "~/.ours", "/root/.ours/ca", []string{"/root/.ours/id", "/home/admin/.ours/id", "/home/admin/.ours", "/home/admin/.ours/ca", "/home/admin/.ours/ca/f"}},
		"in homes, with more slashes":  {plan.Remove, "~//.ours//", "~//.ours/ca//", []string{"/root/.ours/id", "/home/admin/.ours/id"}},
		"a home's folder by wildcards": {plan.Remove, "/home/*/.ours", "~/.ours/c?", []string{"/home/admin/.ours/id"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := surrounded(t, files)
			before := noted(t, root)
			spec := Spec{Only: []string{"ours"}, Own: []Rule{{ID: "ours", Phase: State, Verb: c.verb, Why: "y",
				Paths: []string{c.path}, Keep: []string{c.keep}}}}
			apply(t, h, spec)
			for _, g := range c.gone {
				delete(before, g)
			}
			assert.Empty(t, diff(before, noted(t, root)))
		})
	}
}

// Files that an image has on purpose lie next to leftover state. No rule removes
// them.
func TestFilesThatTheImageNeedsStay(t *testing.T) {
	files := common()
	maps.Copy(files, nodes().Kept)
	h, root := surrounded(t, files)
	before := noted(t, root)
	apply(t, h, Spec{})
	assert.Empty(t, diff(before, noted(t, root)))
}
