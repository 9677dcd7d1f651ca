package surface_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

func TestErrorsInBothSurfaces(t *testing.T) {
	distro := surface.Errorf("%s %q is not known", surface.Name("distro"), "x")
	for name, test := range map[string]struct {
		err        error
		hcl, flags string
	}{
		"in braces": {surface.Errorf("{lock_file} needs {images}; {X} and {\"a\"} stay"),
			`lock_file needs images; {X} and {"a"} stay`, `--lock-file needs --images; {X} and {"a"} stay`},
		"a name":           {distro, `distro "x" is not known`, `--distro "x" is not known`},
		"an entry":         {surface.Errorf("%s is wrong", surface.Name("package_versions").Key("a_b")), `package_versions["a_b"] is wrong`, `--package-versions a_b=… is wrong`},
		"an entry's value": {surface.Errorf("%s is wrong", surface.Name("versions").Entry("runc", "v1")), `versions["runc"] = "v1" is wrong`, `--versions runc=v1 is wrong`},
		"several names":    {surface.Errorf("check %s", surface.Name("kubernetes_version and eks_build_date")), "check kubernetes_version and eks_build_date", "check --kubernetes-version and --eks-build-date"},
		"a value":          {surface.Errorf("set %s", surface.Name("bootstrap").Is("none")), `set bootstrap = "none"`, "set --bootstrap none"},
		"a switch":         {surface.Errorf("contradicts %s", surface.Name("fips").On()), "contradicts fips = true", "contradicts --fips"},
		"words":            {surface.Errorf("correct the %s", surface.Field()), "correct the field", "correct the flag"},
		"wrapped":          {fmt.Errorf("packages: %w; see above", distro), `packages: distro "x" is not known; see above`, `packages: --distro "x" is not known; see above`},
		"wrapping":         {surface.Errorf("%s: %w", surface.Name("a_b"), fmt.Errorf("so: %w", distro)), `a_b: so: distro "x" is not known`, `--a-b: so: --distro "x" is not known`},
		"twice":            {errors.Join(distro, distro), "distro \"x\" is not known\ndistro \"x\" is not known", "--distro \"x\" is not known\n--distro \"x\" is not known"},
		"one in another": {errors.Join(distro, surface.Errorf("%s %q is not known at all", surface.Name("distro"), "x")),
			"distro \"x\" is not known\ndistro \"x\" is not known at all", "--distro \"x\" is not known\n--distro \"x\" is not known at all"},
		"of others": {errors.New("/etc/source_url: distro = x"), "/etc/source_url: distro = x", "/etc/source_url: distro = x"},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, test.err, test.hcl)
			assert.Equal(t, test.flags, surface.InFlags(test.err))
		})
	}
	assert.Empty(t, surface.InFlags(nil))
	require.ErrorIs(t, surface.Errorf("%s: %w", surface.Name("lock_file"), fs.ErrNotExist), fs.ErrNotExist)
	lock := surface.Errorf("%s: %w", surface.Name("lock_file"), fs.ErrNotExist)
	require.EqualError(t, surface.Named(t.Context(), lock), "lock_file: file does not exist")
	named := surface.Named(surface.WithFlags(t.Context(), true), lock)
	require.EqualError(t, named, "--lock-file: file does not exist")
	require.ErrorIs(t, named, fs.ErrNotExist)
	require.EqualError(t, surface.Named(surface.WithFlags(t.Context(), false), lock), "lock_file: file does not exist")
	require.NoError(t, surface.Named(surface.WithFlags(t.Context(), true), nil))
}
