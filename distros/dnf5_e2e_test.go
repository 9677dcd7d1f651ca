//go:build e2e

package distros

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// dnf5Root is a system with dnf 5, which this machine's release may lack.
func dnf5Root(t *testing.T) string {
	t.Helper()
	if os.Getenv("EKSNODE_LIVETEST") != "" {
		return "/"
	}
	root, err := (base.Debian{Suite: "unstable"}).Plain(t.Context(), []string{"dnf5", "rpm", "createrepo-c", "gnupg"}, nil, nil, nil, os.Stderr)
	require.NoError(t, err)
	return root
}

// withDnf5 gives dnf 5 the name and the settings that it has on Fedora.
func withDnf5(t *testing.T, h *host.Host) {
	t.Helper()
	withRpm(t, h)
	require.NoError(t, os.Symlink("dnf5", "/usr/bin/dnf"))
	// Fedora has this plug-in in a package of its own. It copies every package that
	// dnf installs.
	require.NoError(t, os.RemoveAll("/etc/dnf/libdnf5-plugins/local.conf"))
	require.NoError(t, os.MkdirAll("/run/dnf", 0o755))
}

// lockDnf5 starts another dnf 5, which asks whether to go on and has the lock.
func lockDnf5(t *testing.T) (release func()) {
	t.Helper()
	other := exec.CommandContext(t.Context(), "dnf", "install", "eksnode-rival")
	other.Env = append(os.Environ(), "LC_ALL=C")
	answer, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	other.Stderr = other.Stdout
	require.NoError(t, other.Start())
	read := bufio.NewReader(out)
	for said := ""; !strings.HasSuffix(said, "[y/N]:"); {
		b, err := read.ReadByte()
		require.NoError(t, err, said)
		said += string(b)
	}
	return func() {
		_, err := io.WriteString(answer, "n\n")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, read)
		require.NoError(t, err)
		_ = other.Wait() // refused by the answer
	}
}

func TestDnf5MeetsTheContract(t *testing.T) {
	contractOn(t, dnf5Root(t), func(t *testing.T, h *host.Host) workshop {
		withDnf5(t, h)
		return workshop{
			pm: DNF(), impatient: newDnf(0), build: buildRpm, publish: publishRpms, release: "-1", cache: "/var/cache/libdnf5", folder: rpmRepository, unsigned: unverified,
			sign: signRpms, additional: additionalRpms, upgrade: []string{"dnf", "--assumeyes", "--refresh", "upgrade"},
		}
	})
}

// rpmAtWork builds a package whose script reads a fifo, and starts to install it
// with rpm, which holds its lock until then.
func rpmAtWork(t *testing.T, h *host.Host) (release func()) {
	t.Helper()
	const started, wait = "/srv/started", "/srv/wait"
	for _, name := range []string{started, wait} {
		require.NoError(t, unix.Mkfifo(name, 0o600))
	}
	spec := fmt.Sprintf("Name: slow\nVersion: 1\nRelease: 1\nSummary: made for a test\nLicense: none\nBuildArch: noarch\n%%description\nmade for a test\n%%pre\necho > %s\nread line < %s\n%%files\n", started, wait)
	file := filepath.Join(t.TempDir(), "slow.spec")
	require.NoError(t, os.WriteFile(file, []byte(spec), 0o644))
	run(t, h, "rpmbuild", "-bb", "--quiet", "--define", "_rpmdir /srv", "--define", "_topdir "+t.TempDir(), file)
	other := exec.CommandContext(t.Context(), "rpm", "--install", "--nodeps", "--nosignature", "/srv/noarch/slow-1-1.noarch.rpm")
	require.NoError(t, other.Start())
	_, err := os.ReadFile(started) // waits for the script
	require.NoError(t, err)
	return func() {
		require.NoError(t, os.WriteFile(wait, []byte("go\n"), 0o600))
		require.NoError(t, other.Wait())
	}
}

// behind checks that dnf waits for another process, and that the error of one
// that may not wait names the lock and its holder.
func behind(t *testing.T, h *host.Host, lock func() (release func()), message string) {
	t.Helper()
	buildRpm(t, h, pkg{name: "eksnode-rival", version: "1"})
	buildRpm(t, h, pkg{name: "eksnode-base", version: "1.2"})
	publishRpms(t, h, "", false)
	require.NoError(t, DNF().Refresh(t.Context(), h))
	release := lock()
	require.Regexp(t, message, newDnf(0).Install(t.Context(), h, []string{"eksnode-base"}).Error())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() { done <- DNF().Install(ctx, h, []string{"eksnode-base"}) }()
	select {
	case err := <-done:
		require.FailNow(t, "dnf did not wait", "%v", err)
	case <-time.After(3 * time.Second): // enough for a dnf that does not wait
	}
	release()
	require.NoError(t, <-done)
	have, err := DNF().Installed(t.Context(), h, []string{"eksnode-base"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"eksnode-base": "1.2-1"}, have)
}

const (
	behindDnf5 = `^installing packages: another package manager is still running: dnf install: stopped, because it waited for a lock longer than 0s: ` +
		`Waiting for a lock on the system repository\. The following processes are currently accessing it:\n\d+\tdnf install eksnode-rival`
	behindRpm = `^installing packages: another package manager is still running and has locked (\S+/\.rpm\.lock) ` +
		`\(pid \d+: rpm --install --nodeps --nosignature /srv/noarch/slow-1-1\.noarch\.rpm\): dnf install: exit status 1: (?s:.*)` +
		`can't create transaction lock on \S+ \(Resource temporarily unavailable\)`
)

func TestDnf5WaitsForAnotherDnf5(t *testing.T) {
	livetest.RunOn(t, dnf5Root(t), func(t *testing.T, h *host.Host) {
		withDnf5(t, h)
		behind(t, h, func() func() { return lockDnf5(t) }, behindDnf5)
	})
}

func TestDnf5WaitsForRpm(t *testing.T) {
	livetest.RunOn(t, dnf5Root(t), func(t *testing.T, h *host.Host) {
		withDnf5(t, h)
		behind(t, h, func() func() { return rpmAtWork(t, h) }, behindRpm)
	})
}

func TestDnfWaitsForRpm(t *testing.T) {
	if os.Getenv("EKSNODE_LIVETEST") == "" {
		require.NoError(t, base.Install(t.Context(), os.Stderr, "dnf", "rpm", "createrepo-c"))
	}
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		withRpm(t, h)
		behind(t, h, func() func() { return rpmAtWork(t, h) }, behindRpm)
	})
}

// No command line of dnf 5 is on the disk after a scrub.
func TestDnf5LeavesNoHistoryAfterAScrub(t *testing.T) {
	livetest.RunOn(t, dnf5Root(t), func(t *testing.T, h *host.Host) {
		withDnf5(t, h)
		buildRpm(t, h, pkg{name: "eksnode-base", version: "1.2"})
		publishRpms(t, h, "", false)
		require.NoError(t, DNF().Install(t.Context(), h, []string{"eksnode-base"}))
		found := func() string {
			return run(t, h, "sh", "-c", "grep --recursive --files-with-matches -e exit_on_lock=True /var /etc /usr/lib/sysimage /root || true")
		}
		require.Contains(t, found(), "/usr/lib/sysimage/libdnf5/transaction_history.sqlite")
		items, err := scrub.Spec{Only: []string{"packages", "logs"}}.Items(scrub.ToScrub, fedora().ScrubRules())
		require.NoError(t, err)
		_, err = plan.Apply(t.Context(), h, items, nil)
		require.NoError(t, err)
		assert.Empty(t, found())
		have, err := DNF().Installed(t.Context(), h, []string{"eksnode-base"})
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"eksnode-base": "1.2-1"}, have)
	})
}

// A failure of dnf 5 names its cause.
func TestDnf5FailuresAreExplained(t *testing.T) {
	livetest.RunOn(t, dnf5Root(t), func(t *testing.T, h *host.Host) {
		withDnf5(t, h)
		buildRpm(t, h, pkg{name: "eksnode-base", version: "1.2"})
		publishRpms(t, h, "", false)
		require.NoError(t, DNF().Refresh(t.Context(), h))
		file := rpmRepository + "/noarch/eksnode-base-1.2-1.noarch.rpm"
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		install := func() error { return DNF().Install(t.Context(), h, []string{"eksnode-base"}) }
		require.ErrorContains(t, install(), "installing packages: a package differs from the repository's index; ")
		require.NoError(t, os.Remove(file))
		require.ErrorContains(t, install(), "installing packages: the package noarch/eksnode-base-1.2-1.noarch.rpm could not be downloaded; ")
		for _, kind := range []string{"mirrorlist", "metalink", "baseurl"} {
			require.NoError(t, os.WriteFile("/etc/yum.repos.d/made-here.repo", []byte("[made-here]\nname=made here\n"+kind+"=http://127.0.0.1:1/\n"), 0o644))
			require.ErrorContains(t, DNF().Refresh(t.Context(), h), "refreshing the package lists: the repository made-here could not be reached; ")
		}
		require.NoError(t, os.RemoveAll("/etc/yum.repos.d"))
		require.ErrorContains(t, install(), "installing packages: this machine has no enabled repository; enable one in /etc/yum.repos.d: ")
	})
}
