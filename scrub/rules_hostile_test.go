//go:build linux

package scrub

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// common returns the files of every tree: accounts, files that make rules apply,
// and files that no rule may change.
func common() map[string]string {
	return map[string]string{
		"etc/passwd": passwd, "root/": "", "home/admin/": "", "opt/svc home/": "", "home/nobody's/": "",
		"usr/lib/systemd/system/cloud-init.service": "[Unit]",
		"kept/folder/file":                          "kept", "kept/file": "kept",
	}
}

var class = regexp.MustCompile(`\[([^\]])[^\]]*\]`)

// instances returns names that a pattern matches: one for each replacement of its
// wildcards, in each home.
func instances(pattern string, names []string) []string {
	patterns := []string{pattern}
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		patterns = []string{"/root/" + rest, "/home/admin/" + rest, "/opt/svc home/" + rest}
	}
	var list []string
	for _, p := range patterns {
		p = class.ReplaceAllString(p, "$1")
		if !strings.Contains(p, "*") {
			list = append(list, p)
			continue
		}
		for _, n := range names {
			list = append(list, strings.ReplaceAll(p, "*", n))
		}
	}
	return list
}

func allInstances(r Rule, names []string) []string {
	var list []string
	for _, p := range r.Paths {
		list = append(list, instances(p, names)...)
	}
	list = slices.DeleteFunc(list, func(n string) bool { return rule.Kept(r.Keep, n) })
	slices.Sort(list)
	return slices.Compact(list)
}

// declared returns the tree that a rule with paths should leave.
func declared(r Rule, found []string, before map[string]string) map[string]string {
	after := maps.Clone(before)
	for _, name := range found {
		note, there := before[name]
		if !there {
			continue
		}
		if r.Verb == plan.Empty {
			after[name] = emptied(note)
		}
		maps.DeleteFunc(after, func(other, _ string) bool {
			return r.Verb == plan.Remove && other == name || strings.HasPrefix(other, name+"/")
		})
	}
	return after
}

// emptied returns the note of a regular file without its content, and other notes
// as they are.
func emptied(note string) string {
	if kind, content, found := strings.Cut(note, " 0:0 "); found && !strings.HasPrefix(content, "->") {
		return kind + " 0:0 "
	}
	return note
}

func pathRules() []Rule {
	return slices.DeleteFunc(Table(), func(r Rule) bool { return r.Look != nil })
}

func applied(t *testing.T, r Rule, build func(root string)) (before, after map[string]string) {
	t.Helper()
	h, root := surrounded(t, common())
	build(root)
	before = testkit.TreeOf(t, root)
	apply(t, h, Spec{Only: []string{r.ID}})
	return before, testkit.TreeOf(t, root)
}

// put creates a file and its parent folders, unless the path exists.
func put(t *testing.T, root, name string) {
	t.Helper()
	p := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	if _, err := os.Lstat(p); err == nil {
		return
	}
	require.NoError(t, os.WriteFile(p, []byte("state"), 0o600))
}

// A rule changes the files that it declares, and no others.
func TestEveryRuleChangesOnlyDeclaredFiles(t *testing.T) {
	plain := []string{"a1", "b2"}
	names := append(slices.Clone(plain), hostileNames...)
	for _, r := range pathRules() {
		t.Run(r.ID, func(t *testing.T) {
			all := allInstances(r, names)
			for name, build := range map[string]func(root string){
				"absent": func(string) {},
				"present": func(root string) {
					for _, n := range all {
						put(t, root, n)
					}
				},
				"partial": func(root string) {
					for i, n := range allInstances(r, plain) {
						if i%2 == 0 {
							put(t, root, n)
						}
					}
				},
				"folders": func(root string) {
					for _, n := range all {
						for _, below := range hostileNames {
							put(t, root, path.Join(n, "sub", below))
						}
						require.NoError(t, os.Symlink("/kept/folder", filepath.Join(root, n, "link")))
						require.NoError(t, os.Symlink("..", filepath.Join(root, n, "sub", "up")))
						require.NoError(t, unix.Mkfifo(filepath.Join(root, n, "pipe"), 0o600))
						require.NoError(t, os.Chmod(filepath.Join(root, n, "sub"), 0))
					}
				},
				"beside": func(root string) {
					for _, n := range all {
						for _, beside := range []string{n + ".kept~", path.Dir(n) + ".kept~/" + path.Base(n)} {
							if !slices.ContainsFunc(r.Paths, func(p string) bool { return matchesAny(p, beside) }) {
								put(t, root, beside)
							}
						}
					}
				},
			} {
				t.Run(name, func(t *testing.T) {
					before, after := applied(t, r, build)
					want := declared(r, all, before)
					if name == "beside" { // next to a pattern with a wildcard in the middle
						want = maps.Clone(before)
					}
					assert.Empty(t, diff(want, after))
					if name == "present" {
						assert.NotEmpty(t, diff(before, after), "the rule changed nothing")
					}
				})
			}
		})
	}
}

func matchesAny(pattern, name string) bool {
	for _, p := range instances(pattern, []string{"*"}) {
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// A rule removes a matching link, not its target. A rule that empties keeps the
// link, and empties the target only if it is a folder.
func TestEveryRuleKeepsTargetsOfLinks(t *testing.T) {
	for _, r := range pathRules() {
		for name, target := range map[string]string{
			"a folder": "/kept/folder", "a file": "/kept/file", "nothing": "/missing", "the outside": "../../../../../tree-evil/etc",
		} {
			t.Run(r.ID+"/to "+name, func(t *testing.T) {
				all := allInstances(r, []string{"a1"})
				before, after := applied(t, r, func(root string) {
					for _, n := range all {
						p := filepath.Join(root, n)
						require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
						require.NoError(t, os.Symlink(target, p))
					}
				})
				want := declared(r, all, before)
				if r.Verb == plan.Empty && name == "a folder" {
					want = declared(r, []string{"/kept/folder"}, want)
				}
				assert.Empty(t, diff(want, after))
			})
		}
	}
}

// Rules find files in a folder that was moved and replaced by a link. The moved
// folder stays where it is.
func TestEveryRuleFindsFilesBehindLinks(t *testing.T) {
	for _, r := range pathRules() {
		t.Run(r.ID, func(t *testing.T) {
			all := allInstances(r, []string{"a1", "new\nline"})
			links := map[string]string{}
			before, after := applied(t, r, func(root string) {
				for _, n := range all {
					dir := path.Dir(n)
					_, err := os.Lstat(filepath.Join(root, dir))
					if err != nil && !strings.Contains(dir, "\n") && !related(slices.Collect(maps.Keys(links)), dir) {
						links[dir] = "/moved/" + strings.ReplaceAll(dir, "/", "_")
						require.NoError(t, os.MkdirAll(filepath.Join(root, links[dir]), 0o755))
						require.NoError(t, os.MkdirAll(filepath.Join(root, path.Dir(dir)), 0o755))
						require.NoError(t, os.Symlink(links[dir], filepath.Join(root, dir)))
					}
					if target, ok := links[dir]; ok {
						put(t, root, path.Join(target, path.Base(n)))
					}
				}
			})
			var found []string
			for _, n := range all {
				if target, ok := links[path.Dir(n)]; ok {
					found = append(found, path.Join(target, path.Base(n)))
				}
			}
			assert.Empty(t, diff(declared(r, found, before), after))
		})
	}
}

// related reports whether a folder lies below or above one of others.
func related(others []string, dir string) bool {
	return slices.ContainsFunc(others, func(o string) bool {
		return strings.HasPrefix(dir, o+"/") || strings.HasPrefix(o, dir+"/")
	})
}

// Rules make exactly the changes of their cases in testdata/cases.yaml, and an audit finds what a case
// says. Every rule with a function has a case, and changes nothing in an empty image. Rules take
// their paths from the row: with those of another folder, they change nothing.
func TestCasesOfRules(t *testing.T) {
	for _, r := range Table() {
		cases := found()[r.ID]
		if r.Look != nil && len(r.Paths) > 0 && r.Phase != Inspect {
			require.NotEmpty(t, cases, "the rule %s has no case in testdata/cases.yaml", r.ID)
			t.Run(r.ID+"/absent", func(t *testing.T) {
				before, after := applied(t, r, func(string) {})
				assert.Empty(t, diff(before, after))
			})
		}
		for _, c := range cases {
			t.Run(r.ID+"/"+c.Name, func(t *testing.T) {
				if r.Phase == Inspect {
					files := map[string]string{"etc/passwd": passwd}
					maps.Copy(files, c.Files)
					h, _ := tree(t, files)
					finds(t, c, audit(t, h, r.ID))
					return
				}
				before, after := applied(t, r, func(root string) {
					h := lay(t, root, c.Files)
					if c.Finds != nil {
						finds(t, c, audit(t, h, r.ID))
					}
					changesNothingElsewhere(t, r, h)
				})
				assert.ElementsMatch(t, c.Changes, diff(before, after))
				for name, text := range c.Leaves {
					_, left, _ := strings.Cut(after[name], " 0:0 ")
					assert.Equal(t, text, left, name)
				}
			})
		}
	}
}

// finds compares the findings of an audit with those of a case.
func finds(t *testing.T, c findCase, got []string) {
	t.Helper()
	var want []string
	if c.Finds != nil {
		want = *c.Finds
	}
	assert.ElementsMatch(t, want, show.Each(got, func(text string) string {
		i := slices.IndexFunc(want, func(w string) bool {
			start, cut := strings.CutSuffix(w, "*")
			return cut && strings.HasPrefix(text, start)
		})
		if i >= 0 {
			return want[i]
		}
		return text
	}))
}

// changesNothingElsewhere plans a rule with the paths of its row in another folder.
func changesNothingElsewhere(t *testing.T, r Rule, h *host.Host) {
	t.Helper()
	if len(r.Paths) == 0 {
		return
	}
	r.Paths = show.Each(r.Paths, func(p string) string { return "/elsewhere/" + strings.TrimLeft(p, "~/") })
	answer, err := item{Rule: r, Run: rule.Run{Owners: &rule.Owners{}}}.Plan(t.Context(), h)
	require.NoError(t, err)
	for _, a := range answer.Actions {
		assert.True(t, strings.HasPrefix(a.Target, "/elsewhere/"), "%s is no file of the row", a.Target)
	}
}
