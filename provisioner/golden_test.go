package provisioner

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

var update = flag.Bool("update", false, "update the golden plans")

// bare is an image root that contains only a distribution's os-release, of its
// first version.
func bare(t *testing.T, d distros.Distro) *host.Host { return bareOf(t, d.ID) }

func bareOf(t *testing.T, release string) *host.Host {
	t.Helper()
	text := testkit.Content(t, filepath.Join("../distros/testdata", release+".os-release"))
	return hosttest.Root(t, map[string]string{"etc/os-release": text})
}

// text is a plan as a person reads it.
func text(list []plan.Planned) string {
	var out strings.Builder
	for _, p := range list {
		fmt.Fprintf(&out, "%s\n", p.Item)
		for _, a := range p.Actions {
			fmt.Fprintf(&out, "  %s %s\n    %s\n", a.Verb, a.Target, a.Reason)
		}
	}
	return out.String()
}

// golden are the os-release fixtures with their own plan: each distribution's first
// version, and versions that need other packages.
func golden() []string {
	var releases []string
	for _, d := range distros.All() {
		releases = append(releases, d.ID)
		for _, version := range slices.Sorted(maps.Keys(d.PackagesOf)) {
			releases = append(releases, d.ID+"-"+version)
		}
	}
	return releases
}

// goldenVersion is the default version of the kubelet, or the newest that runs on the
// distribution.
func goldenVersion(d distros.Distro) string {
	if d.NewestKubernetes > 0 {
		return fmt.Sprintf("1.%d.0", d.NewestKubernetes)
	}
	return lifecycle.Kubernetes()
}

// TestGoldenPlans compares the plan for each distribution's bare machine with
// testdata/ID.golden.
func TestGoldenPlans(t *testing.T) {
	for _, release := range golden() {
		t.Run(release, func(t *testing.T) {
			h := bareOf(t, release)
			detected, _, err := distros.Detect(h, "")
			require.NoError(t, err)
			require.NoError(t, detected.Validate(), "no plan is written for an incomplete value")
			items, err := Steps(Spec{KubernetesVersion: goldenVersion(detected)}, detected, Inputs{Arch: "amd64"})
			require.NoError(t, err)
			list := plan.Make(t.Context(), h, items)
			requirePlanned(t, list)
			file := filepath.Join("testdata", release+".golden")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(text(list)), 0o644))
			}
			want := testkit.Content(t, file)
			assert.Equal(t, want, text(list), "if the change is intended, run make generate and read the difference")
		})
	}
}

func TestNoGoldenPlanIsLeftBehind(t *testing.T) {
	assert.Len(t, testkit.Glob(t, "testdata/*.golden"), len(golden()))
}

func TestPlanningChangesNothing(t *testing.T) {
	d := distroOf(t, "debian")
	h := bare(t, d)
	items, err := Steps(Spec{KubernetesVersion: goldenVersion(d)}, d, Inputs{Arch: "arm64"})
	require.NoError(t, err)
	requirePlanned(t, plan.Make(t.Context(), h, items))
	assert.Len(t, testkit.Names(t, h.Root()), 1)
	assert.Len(t, testkit.Names(t, filepath.Join(h.Root(), "etc")), 1)
}

// settle applies items, after which a second run has nothing to do.
func settle(t *testing.T, h *host.Host, items ...plan.Item) error {
	t.Helper()
	if _, err := plan.Apply(t.Context(), h, items, nil); err != nil {
		return err
	}
	list := plan.Make(t.Context(), h, items)
	requirePlanned(t, list)
	for _, p := range list {
		assert.Empty(t, p.Actions, p.Item)
	}
	return nil
}

// requirePlanned fails when a step returned an error.
func requirePlanned(t *testing.T, list []plan.Planned) {
	t.Helper()
	for _, p := range list {
		require.Empty(t, p.Error, p.Item)
	}
}

// What the page says of an image for users of Amazon's recipe is in the plan, the kernel
// settings, or a field.
func TestRowsOfAmazonsRecipe(t *testing.T) {
	page := testkit.Content(t, "../docs/reference/options.md")
	fields := testkit.Content(t, "../docs/reference/components/provisioner-eksnode.md")
	d := distroOf(t, "amazonlinux2023")
	s := everything(t, d)
	items, err := Steps(s, d, Inputs{Arch: "amd64"})
	require.NoError(t, err)
	n := &node{spec: Spec{}, distro: d}
	has := text(plan.Make(t.Context(), bare(t, d), items)) + fields
	for _, f := range append(n.stepFiles("modules"), n.sysctlFile()) {
		has += string(f.Content)
	}
	_, rows, _ := strings.Cut(page, "| what | Amazon's recipe | eksnode |\n|---|---|---|\n")
	count := 0
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, " | ")
		require.Len(t, cells, 3, row)
		for i, span := range strings.Split(cells[2], "`") {
			if i%2 == 1 && !strings.HasPrefix(span, "cni-") {
				count++
				assert.Regexp(t, `(?m)(^|[ `+"`"+`])`+regexp.QuoteMeta(span)+`($|[ `+"`"+`])`, has)
			}
		}
	}
	assert.Greater(t, count, 40)
}

func distroOf(t testing.TB, id string) distros.Distro {
	t.Helper()
	d, err := distros.ByID(id)
	require.NoError(t, err)
	return d
}

func nodeFor(t testing.TB, spec Spec, d distros.Distro, arch string) *node {
	t.Helper()
	n, err := newNode(spec, d, arch)
	require.NoError(t, err)
	return n
}
