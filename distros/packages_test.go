package distros

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// said returns the error of a command that failed with this output.
func said(output string) error {
	return &host.CommandError{Command: host.Command{Argv: []string{"tool"}}, Output: output, Err: &exec.ExitError{}}
}

func TestExplainNamesCauseAndRemedy(t *testing.T) {
	tests := map[string]struct {
		symptoms     []symptom
		output, want string
	}{
		"apt, missing": {aptSymptoms(), "E: Package 'containerdd' has no installation candidate",
			"no repository of this machine has the package containerdd; check its name and the machine's repositories"},
		"apt, unreachable": {aptSymptoms(), "E: Failed to fetch http://127.0.0.1:1/Packages  Could not connect to 127.0.0.1:1",
			"the repository http://127.0.0.1:1/ could not be reached; check the machine's network, proxy and repositories"},
		"apt, full disk": {aptSymptoms(), "E: You don't have enough free space in /var/cache/apt/archives/.\n",
			"the disk is full at /var/cache/apt/archives/; free some space or enlarge it"},
		"apt, full disk while unpacking": {aptSymptoms(), "dpkg: error: cannot copy: failed to write (No space left on device)",
			"the disk is full; free some space or enlarge it"},
		"dnf, missing": {rpmSymptoms(), "Error: Unable to find a match: containerdd",
			"no repository of this machine has the package containerdd; check its name and the machine's repositories"},
		"dnf, unreachable": {rpmSymptoms(), "Error: Failed to download metadata for repo 'amazonlinux': Cannot download repomd.xml",
			"the repository amazonlinux could not be reached; check the machine's network, proxy and repositories"},
		"yum, missing": {rpmSymptoms(), "No package containerdd available.\nError: Nothing to do",
			"no repository of this machine has the package containerdd; check its name and the machine's repositories"},
		"yum, unreachable": {rpmSymptoms(), "Cannot find a valid baseurl for repo: amzn2-core/2/x86_64",
			"the repository amzn2-core/2/x86_64 could not be reached; check the machine's network, proxy and repositories"},
		"yum, locked": {rpmSymptoms(), "Existing lock /var/run/yum.pid: another copy is running as pid 7.", "another package manager is still running"},
		"zypper, missing": {zypperSymptoms(), "'containerdd' not found in package names. Trying capabilities.\nNo provider of 'containerdd' found.",
			"no repository of this machine has the package containerdd; check its name and the machine's repositories"},
		"zypper, locked": {zypperSymptoms(), "System management is locked by the application with pid 7 (zypper).", "another package manager is still running"},
		"pacman, missing": {pacmanSymptoms(), "error: target not found: containerdd",
			"no repository of this machine has the package containerdd; check its name and the machine's repositories"},
		"pacman, unreachable": {pacmanSymptoms(), "error: failed retrieving file 'core.db' from 127.0.0.1:1 : Failed to connect",
			"the repository 127.0.0.1:1 could not be reached; check the machine's network, proxy and repositories"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := said(test.output)
			explained := explain(err, test.output, test.symptoms)
			require.ErrorIs(t, explained, err)
			assert.Equal(t, test.want+": "+err.Error(), explained.Error())
		})
	}
	other := said("something else")
	assert.Equal(t, other, explain(other, "something else", aptSymptoms()), "an unknown error must be returned unchanged")
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
