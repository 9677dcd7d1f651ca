//go:build linux

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// The lists are the operations of virt-sysprep 1.57 (virt-sysprep
// --list-operations), the files that the clean-up script of EC2 Image Builder for
// Linux deletes ("Security best practices for Image Builder"), and the tasks of the
// role sysprep of kubernetes-sigs/image-builder, without tasks that only look or set a
// variable.
func TestCoverageHasEveryStepOfOtherCleaners(t *testing.T) {
	for from, list := range map[string]string{
		"virt-sysprep": "virt-sysprep", "EC2 Image Builder": "ec2-image-builder", "image-builder": "image-builder",
	} {
		t.Run(from, func(t *testing.T) {
			want := strings.Split(strings.TrimSpace(testkit.Content(t, "testdata/"+list+".txt")), "\n")
			slices.Sort(want)
			assert.Equal(t, slices.Compact(want), itemsOf(t, from))
		})
	}
	assert.GreaterOrEqual(t, len(itemsOf(t, "agents")), 30)
}

// itemsOf returns the steps or programs of a source, each once.
func itemsOf(t *testing.T, from string) []string {
	t.Helper()
	list, err := coverage(from)
	require.NoError(t, err)
	items := map[string]bool{}
	for _, c := range list {
		items[c.Item] = true
	}
	return slices.Sorted(maps.Keys(items))
}

// Each row of the page is true: the files of all rows of a source are in one
// image, which is scrubbed and audited with all rules.
func TestCoverage(t *testing.T) {
	for _, from := range cleaners(t) {
		t.Run(from, func(t *testing.T) {
			list, err := coverage(from)
			require.NoError(t, err)
			s := scrubbed(t, list)
			for _, c := range list {
				t.Run(c.Item+"/"+string(c.Outcome), func(t *testing.T) { s.prove(t, c) })
			}
		})
	}
}

// cleaners are the cleaners, programs and clusters that have rows.
func cleaners(t *testing.T) []string {
	t.Helper()
	all := testkit.JSON[[]covered](t, coverageFile)
	names := show.Each(all, func(c covered) string { return c.From })
	slices.Sort(names)
	return slices.Compact(names)
}

// cleaned is an image after a scrub.
type cleaned struct {
	root string
	// by has the rules that acted on a path, found those that reported it.
	by, found map[string][]string
}

// scrubbed builds an image of an account and the samples, scrubs and audits it.
func scrubbed(t *testing.T, list []covered) cleaned {
	t.Helper()
	s := cleaned{root: t.TempDir(), by: map[string][]string{}, found: map[string][]string{}}
	hosttest.Lay(t, s.root, map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n",
		"/usr/lib/systemd/system/sshd-keygen@.service":     "[Unit]\n",
		"/etc/systemd/system/multi-user.target.wants/none": "",
	})
	for _, c := range list {
		hosttest.Lay(t, s.root, c.Sample)
	}
	h := hosttest.Mounted(t, s.root)
	var more []scrub.Rule
	for _, r := range rules() {
		if r.Distros != nil {
			more = append(more, r.Rule)
		}
	}
	items, err := scrub.Spec{}.Items(scrub.ToScrub, more)
	require.NoError(t, err)
	outcomes, err := plan.Apply(t.Context(), h, items, nil)
	require.NoError(t, err)
	for _, o := range outcomes {
		for _, a := range o.Actions {
			s.by[a.Target] = append(s.by[a.Target], o.Item)
		}
	}
	items, err = scrub.Spec{}.Items(scrub.ToAudit, more)
	require.NoError(t, err)
	for _, planned := range plan.Make(t.Context(), h, items) {
		assert.Empty(t, planned.Error, planned.Item)
		assert.Empty(t, planned.Actions, planned.Item)
		for _, f := range planned.Findings {
			s.found[f.Target] = append(s.found[f.Target], planned.Item)
		}
	}
	return s
}

// prove checks that the files of a row are what the row says.
func (s cleaned) prove(t *testing.T, c covered) {
	require.Contains(t, outcomes, c.Outcome)
	assert.Equal(t, c.Outcome == nothing, len(c.Sample) == 0, "a row has files unless there is nothing to do")
	assert.Equal(t, c.Outcome == nothing || c.Outcome == keeps, c.Rule == "", "a row names its rule")
	if c.Rule == "" {
		assert.NotEmpty(t, c.Why, "a row without a rule has a reason")
	}
	for name, before := range c.Sample {
		after, err := os.ReadFile(filepath.Join(s.root, name))
		acted, found := atOrAbove(s.by, name), atOrAbove(s.found, name)
		switch c.Outcome {
		case removed:
			assert.ErrorIs(t, err, os.ErrNotExist, name)
			assert.Contains(t, acted, c.Rule, name)
			continue
		case emptied:
			assert.Empty(t, string(after), name)
			assert.Contains(t, acted, c.Rule, name)
		case changed:
			assert.NotEmpty(t, after, name)
			assert.NotEqual(t, before, string(after), name)
			assert.Contains(t, acted, c.Rule, name)
		case reported:
			assert.Equal(t, before, string(after), name)
			assert.Contains(t, found, c.Rule, name)
		case keeps:
			assert.Equal(t, before, string(after), name)
			assert.Empty(t, acted, name)
			assert.Empty(t, found, name)
		}
		assert.NoError(t, err, name)
	}
}

func atOrAbove(rules map[string][]string, name string) []string {
	var all []string
	for ; name != "/"; name = filepath.Dir(name) {
		all = append(all, rules[name]...)
	}
	return all
}
