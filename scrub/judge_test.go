//go:build linux

package scrub

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// judged is a tree with rules of an operator, from testdata/judge.yaml.
type judged struct {
	Files map[string]string
	Cases map[string]struct {
		Rule  Rule
		Files map[string]string
		Gone  []string
		Want  string
	}
}

func judgedTrees() (all struct{ Needed, Unread, Kept, Behind judged }) {
	decode("testdata/judge.yaml", &all)
	for _, j := range []judged{all.Needed, all.Kept, all.Behind} {
		fillIn(j.Files)
	}
	return all
}

// ours is a rule that has what every rule needs.
func ours(r Rule, verb plan.Verb) Spec {
	r.ID, r.Phase, r.Verb, r.Why = "x", State, cmp.Or(r.Verb, verb), "y"
	return Spec{Only: []string{"x"}, Own: []Rule{r}}
}

const belongs = `: list the file under keep, remove the package, or set "owned: true" ` +
	`to let the rule remove files of packages`

// A rule fails and removes nothing if it matches a package's file, or if a link
// leads it to files that the system needs.
func TestRulesThatMatchNeededFilesFail(t *testing.T) {
	file := manifest.File{Path: "/opt/ours/bin/plugin", Mode: 0o755, Size: 1, SHA256: manifest.Sum([]byte("x"))}
	template := manifest.Template{Path: "/opt/ours/template", Mode: 0o644, SHA256: manifest.Sum([]byte("x")), Content: "x"}
	recorded, err := (&manifest.Manifest{
		Assets:    []manifest.Asset{{ID: "plugin", Version: "1", Files: []manifest.File{file}}},
		Templates: []manifest.Template{template},
	}).Encode()
	require.NoError(t, err)
	needed := judgedTrees().Needed
	needed.Files[manifest.Path[1:]] = string(recorded)
	full := strings.NewReplacer("{{belongs}}", belongs, "{{needs}}", " on this machine and matches too much: the rule "+
		"would remove a folder or file that the system needs; list files inside the folder instead")
	for name, c := range needed.Cases {
		t.Run(name, func(t *testing.T) {
			h, root := surrounded(t, needed.Files)
			before := testkit.TreeOf(t, root)
			outcomes, err := plan.Apply(t.Context(), h, selected(t, ours(c.Rule, plan.Remove), ToScrub), nil)
			if c.Want != "" {
				require.EqualError(t, err, full.Replace(c.Want))
				assert.Empty(t, diff(before, testkit.TreeOf(t, root)))
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
	for name, c := range judgedTrees().Unread.Cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			files := map[string]string{"etc/passwd": passwd, "opt/ours/a": "x"}
			maps.Copy(files, c.Files)
			h, root := surrounded(t, files)
			spec := Spec{Only: []string{"x"}, Own: []Rule{withPath("/opt/ours/a")}}
			before := testkit.TreeOf(t, root)
			_, err := plan.Apply(t.Context(), h, selected(t, spec, ToScrub), nil)
			want := "x: checking whether a package owns /opt/ours/a: " + c.Want +
				`; to skip the check, set "owned: true" in the rule`
			require.EqualError(t, err, want)
			assert.Empty(t, diff(before, testkit.TreeOf(t, root)))
			assert.Equal(t, want, planned(t, h, spec, ToAudit)[0].Error)

			spec.Own[0].Owned = true
			assert.Equal(t, plan.Done, apply(t, h, spec)[0].Status)
		})
	}
}

// Kept files stay at any depth below a folder that the rule removes or empties,
// together with their parent folders. Everything else in the folder goes.
func TestKeptFilesStay(t *testing.T) {
	kept := judgedTrees().Kept
	for name, c := range kept.Cases {
		for _, verb := range []plan.Verb{plan.Remove, plan.Empty} {
			t.Run(name+"/"+string(verb), func(t *testing.T) {
				h, root := surrounded(t, kept.Files)
				before := testkit.TreeOf(t, root)
				gone := c.Gone
				switch {
				case verb == plan.Empty && name == "a folder and its files":
					gone = []string{"deep/er", "deep/er/b", "deep/er/ca.pem", "deep/other", "deep/other/c"}
				case verb == plan.Empty && len(gone) > 0 && gone[0] == "deep":
					gone = gone[1:]
				}
				apply(t, h, ours(c.Rule, verb))
				after := testkit.TreeOf(t, root)
				for _, g := range gone {
					delete(before, "/opt/ours/"+g)
				}
				if verb == plan.Empty && name == "a folder and its files" {
					for _, file := range []string{"/opt/ours/a", "/opt/ours/ca.pem"} {
						before[file] = emptied(before[file])
					}
				}
				assert.Empty(t, diff(before, after))
				again := apply(t, h, ours(c.Rule, verb))
				assert.Equal(t, plan.Unchanged, again[0].Status, "the second run changed something")
			})
		}
	}
}

// An emptied file stays, so only its bytes count. A hole takes none.
func TestEmptiedFilesCountTheirBytes(t *testing.T) {
	h, root := surrounded(t, map[string]string{"opt/ours/a": "12345", "opt/ours/holes": "x"})
	require.NoError(t, os.Truncate(filepath.Join(root, "opt/ours/holes"), 1<<30))
	done := apply(t, h, ours(Rule{Paths: []string{"/opt/ours/*"}}, plan.Empty))
	require.Len(t, done[0].Actions, 2)
	assert.Equal(t, host.Removal{Bytes: 5}, done[0].Actions[0].Removal)
	assert.Zero(t, done[0].Actions[1].Entries)
	assert.Less(t, done[0].Actions[1].Bytes, int64(1<<20))
}

// Kept paths may name a moved folder by its link or by its target. In homes they
// apply to each account.
func TestKeptFilesStayBehindLinksAndInHomes(t *testing.T) {
	behind := judgedTrees().Behind
	for name, c := range behind.Cases {
		t.Run(name, func(t *testing.T) {
			h, root := surrounded(t, behind.Files)
			before := testkit.TreeOf(t, root)
			apply(t, h, ours(c.Rule, plan.Remove))
			for _, g := range c.Gone {
				delete(before, g)
			}
			assert.Empty(t, diff(before, testkit.TreeOf(t, root)))
		})
	}
}

// Files that an image has on purpose lie next to leftover state. No rule removes
// them.
func TestFilesThatTheImageNeedsStay(t *testing.T) {
	files := common()
	maps.Copy(files, nodes().Kept)
	h, root := surrounded(t, files)
	before := testkit.TreeOf(t, root)
	apply(t, h, Spec{})
	assert.Empty(t, diff(before, testkit.TreeOf(t, root)))
}
