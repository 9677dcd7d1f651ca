//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

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
				spec := Spec{Only: []string{"ours"}, Own: []OwnRule{{ID: "ours", Phase: State, Action: verb, Why: "y", Paths: c.paths, Keep: c.keep}}}
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
			spec := Spec{Only: []string{"ours"}, Own: []OwnRule{{ID: "ours", Phase: State, Action: c.verb, Why: "y", Paths: []string{c.path}, Keep: []string{c.keep}}}}
			apply(t, h, spec)
			for _, g := range c.gone {
				delete(before, g)
			}
			assert.Empty(t, diff(before, noted(t, root)))
		})
	}
}

// Keep works the same in built-in rules.
func TestKeepInBuiltInRules(t *testing.T) {
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd, "opt/ours/a": "gone", "opt/ours/deep/ca.pem": "x"})
	r := Rule{ID: "x", Phase: State, Verb: plan.Remove, Paths: []string{"/opt/ours"}, Keep: []string{"/opt/ours/deep"}, Why: "y"}
	before := noted(t, root)
	_, err := plan.Apply(t.Context(), h, []plan.Item{item{Rule: r}}, nil)
	require.NoError(t, err)
	delete(before, "/opt/ours/a")
	assert.Empty(t, diff(before, noted(t, root)))
}
