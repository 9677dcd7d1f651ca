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
		"apt, locked": {aptSymptoms(), "dpkg: error: dpkg frontend lock was locked by /usr/bin/apt-get process with pid 88", "another package manager is still running"},
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
		"dnf, no repository": {rpmSymptoms(), `Error: There are no enabled repositories in "/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d".`,
			"this machine has no enabled repository; enable one in /etc/yum.repos.d"},
		"dnf, broken download": {rpmSymptoms(), "Error: Error downloading packages:\n  Cannot download Packages/ethtool-6.14.rpm: All mirrors were tried",
			"the package Packages/ethtool-6.14.rpm could not be downloaded; check the machine's network, proxy and repositories"},
		"dnf 5, no repository": {rpmSymptoms(), `No matching repositories for *. Add "--help" for more information about the arguments.`,
			"this machine has no enabled repository; enable one in /etc/yum.repos.d"},
		"dnf 5, metalink": {rpmSymptoms(), `Failed to download metadata (metalink: "https://mirrors.fedoraproject.org/metalink?repo=fedora-43&arch=x86_64") for repository "fedora": Download failed`,
			"the repository fedora could not be reached; check the machine's network, proxy and repositories"},
		"dnf 5, mirrorlist": {rpmSymptoms(), `Failed to download metadata (mirrorlist: "http://127.0.0.1:1/m") for repository "a": Download failed`,
			"the repository a could not be reached; check the machine's network, proxy and repositories"},
		"dnf 5, broken download": {rpmSymptoms(), "Failed to download packages\n Librepo error: Cannot download ethtool-7.2.1-1.rpm: All mirrors were tried",
			"the package ethtool-7.2.1-1.rpm could not be downloaded; check the machine's network, proxy and repositories"},
		"dnf 5, other content": {rpmSymptoms(), ">>> Downloading successful, but checksum doesn't match. Calculated: 14f8(sha256)  Expected: 3c55(sha256)\nFailed to download packages\n Librepo error: Cannot download socat-1.8.rpm: All mirrors were tried",
			"a package differs from the repository's index; repeat when the mirror is up to date, or use another mirror"},
		"dnf 5, full disk": {rpmSymptoms(), "Librepo error: Curl error (23): Failed writing received data to disk/application for http://x/runc.rpm",
			"a download could not be written to the disk; free some space or enlarge it"},
		"dnf 5, read-only": {rpmSymptoms(), "Error: /usr is configured to be read-only. You may be running an image-based or immutable operating system.",
			"the file system is read-only; remount it for writing, or choose a base image whose root can be written"},
		"dnf 5, signature": {rpmSymptoms(), `OpenPGP check for package "socat-1.8" (/var/cache/libdnf5/x.rpm) from repo "a" has failed: Import of the key didn't help, wrong key?`,
			"a package's or a repository's signature could not be verified"},
		"dnf 5, locked": {rpmSymptoms(), "Waiting for a lock on the system repository. The following processes are currently accessing it:\n2732\tdnf install socat", "another package manager is still running"},
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
