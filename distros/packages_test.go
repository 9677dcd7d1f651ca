package distros

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// said returns the error of a command that failed with this output.
func said(output string) error {
	return &host.CommandError{Command: host.Command{Argv: []string{"tool"}}, Output: output, Err: &exec.ExitError{}}
}

func TestExplainNamesCauseAndRemedy(t *testing.T) {
	tools := map[string]tool{
		"apt": newApt(0).tool, "rpm": newDnf(0).(dnfManager).tool, "zypper": newZypper().tool, "pacman": newPacman().tool,
	}
	var tests []struct{ Name, Of, Output, Want string }
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/symptoms.yaml")), &tests))
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			err := said(test.Output)
			explained := tools[test.Of].explain(err, test.Output)
			require.ErrorIs(t, explained, err)
			assert.Equal(t, test.Want+": "+err.Error(), explained.Error())
		})
	}
	other := said("something else")
	assert.Equal(t, other, newApt(0).tool.explain(other, "something else"), "an unknown error must be returned unchanged")
}

func TestPatientlyWaitsOnlyForLocks(t *testing.T) {
	tries := 0
	err := patiently(t.Context(), time.Minute, func(context.Context) (bool, error) {
		if tries++; tries < 2 {
			return true, errors.New("locked")
		}
		return false, nil
	})
	require.NoError(t, err)
	assert.Equal(t, 2, tries)

	tries = 0
	other := errors.New("something else")
	err = patiently(t.Context(), time.Minute, func(context.Context) (bool, error) { tries++; return false, other })
	assert.Equal(t, other, err)
	assert.Equal(t, 1, tries)

	locked := errors.New("locked")
	assert.Equal(t, locked, patiently(t.Context(), 0, func(context.Context) (bool, error) { return true, locked }), "without time left, the error must be returned")

	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	err = patiently(ctx, time.Minute, func(context.Context) (bool, error) { cancel(stop); return true, locked })
	assert.Equal(t, stop, err, "an interrupted run must not wait")
}

// A distribution without a package manager refuses to install packages, with the
// reason.
func TestDistributionsWithoutAPackageManager(t *testing.T) {
	h, pm := hosttest.Root(t, nil), NoPackageManager()
	const none = "this distribution has no package manager and so no package htop; leave packages empty"
	require.NoError(t, pm.Refresh(t.Context(), h))
	require.NoError(t, pm.Clean(t.Context(), h))
	require.EqualError(t, pm.Install(t.Context(), h, []string{"htop"}), "installing packages: "+none)
	require.EqualError(t, pm.Remove(t.Context(), h, []string{"htop"}), "removing packages: "+none)
	require.EqualError(t, pm.Hold(t.Context(), h, []string{"htop"}), "holding packages: "+none)
	_, err := pm.Pinned("htop", "1")
	require.EqualError(t, err, none)
	have, err := pm.Installed(t.Context(), h, []string{"htop"})
	require.NoError(t, err)
	assert.Empty(t, have)
	assert.False(t, flatcar().HasPackages())
	assert.True(t, debian().HasPackages())
}
