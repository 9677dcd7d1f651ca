//go:build linux

package eksnode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// The os-release files of distributions that eksnode does not support. Each machine
// is refused before anything changes, with the supported distributions and what to
// do.
func TestUnknownDistributionsAreRefused(t *testing.T) {
	texts := map[string]string{"known": "is not known; known are " + strings.Join(distros.IDs(), ", "),
		"behaves": "; if the machine behaves like one of them, set distro to that name"}
	var tests map[string]struct{ Release, Want string }
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/unknown.yaml")), &tests))
	for name, test := range tests {
		want := os.Expand(test.Want, func(name string) string { return texts[name] })
		t.Run(name, func(t *testing.T) {
			h, root := image(t)
			require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte(test.Release), 0o644))
			before := testkit.TreeOf(t, root)
			spec := provisioner.Spec{KubernetesVersion: "1.34.4"}
			r, err := eksnode.Provision(t.Context(), h, spec, eksnode.Options{DryRun: true})
			require.EqualError(t, err, want, "of a distribution that is added, remove the text from unknown.yaml")
			assert.Equal(t, plan.Failure, r.Result)
			_, err = eksnode.Scrub(t.Context(), h, scrub.Spec{}, eksnode.Options{})
			require.EqualError(t, err, want)
			_, err = eksnode.Audit(t.Context(), h, scrub.Spec{}, eksnode.Options{})
			require.EqualError(t, err,
				want+`; an audit of what is no node needs no known distribution: set node = "no"`)
			r, err = eksnode.Audit(t.Context(), h, scrub.Spec{Node: scrub.NodeNo}, eksnode.Options{})
			require.NoError(t, err)
			assert.NotEmpty(t, r.Machine.Distro)
			assert.Equal(t, plan.Findings, r.Result)
			assert.Equal(t, before, testkit.TreeOf(t, root))
		})
	}
}

// The report has the warnings, and they do not change the result.
func TestProvisionWarns(t *testing.T) {
	h, _ := image(t)
	at := func(day string) *host.Host {
		now, err := time.Parse(time.DateOnly, day)
		require.NoError(t, err)
		return h.WithClock(func() time.Time { return now })
	}
	spec := provisioner.Spec{KubernetesVersion: "1.35.4"}
	r, err := eksnode.Provision(t.Context(), at("2026-11-23"), spec, eksnode.Options{DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, plan.DryRun, r.Result)
	assert.Equal(t, []string{
		"regular security support of Debian 12 ended on 2026-07-11; choose a base image with a newer release " +
			"(https://wiki.debian.org/DebianReleases)",
		"support of containerd 1.6 ended on 2025-08-23; the option containerd with the value 2 installs a newer one, " +
			"unless versions sets another (https://containerd.io/releases/)",
	}, r.Warnings)
	spec.Containerd = "2"
	r, err = eksnode.Provision(t.Context(), at("2026-01-01"), spec, eksnode.Options{DryRun: true})
	require.NoError(t, err)
	assert.Empty(t, r.Warnings)
	_, err = eksnode.Provision(t.Context(), at("2028-07-01"), spec, eksnode.Options{DryRun: true})
	require.ErrorContains(t, err, "long-term support of Debian 12 ended on 2028-06-30")
}
