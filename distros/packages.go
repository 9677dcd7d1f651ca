package distros

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// PackageManager installs packages. Its values are shared by distributions.
// Commands run without questions, wait for a lock that another run holds, and
// retry a download where the tool itself can.
type PackageManager interface {
	// Name is the tool's own name, such as "apt".
	Name() string
	// Installed tells the versions of those packages that are installed
	// completely; others are left out. It needs no network. On a mounted root
	// it reads the package database's files, and where those need the tool it
	// returns host.ErrMountedRoot.
	Installed(ctx context.Context, h *host.Host, names []string) (map[string]string, error)
	// Refreshing is the command behind Refresh, in short, for plans.
	Refreshing() string
	// Refresh learns what the repositories offer. An unreachable repository is
	// an error that names it.
	Refresh(ctx context.Context, h *host.Host) error
	// Install installs packages, after finishing what an interrupted run left.
	// Services of theirs are not started. A package that no repository has is
	// an error that names it.
	Install(ctx context.Context, h *host.Host, names []string) error
	// Pinned is what Install takes for a package in one version, or an error
	// that says why there is none.
	Pinned(name, version string) (string, error)
	// Hold keeps packages from being upgraded, installed or removed by others
	// than Install, and Held lists those of the names that are held.
	Hold(ctx context.Context, h *host.Host, names []string) error
	Held(h *host.Host, names []string) ([]string, error)
	// Remove removes packages, and those that need them.
	Remove(ctx context.Context, h *host.Host, names []string) error
	// Unfinished lists packages that an interrupted run has begun to install and
	// that nobody needs to name to have Install finish them.
	Unfinished(h *host.Host) ([]string, error)
	// Leftover lists files of an interrupted Install that must go.
	Leftover(h *host.Host) ([]string, error)
	// Clean drops what was downloaded.
	Clean(ctx context.Context, h *host.Host) error
}

// tool runs a package manager's command.
type tool struct {
	// words are how many words of a command line tell a person what is run;
	// options follow.
	words    int
	env      []string
	symptoms []symptom
	// locked is the pattern of its saying that another one is at work.
	locked   string
	patience time.Duration
}

// run runs a command and waits while another one is at work. A failure says
// what it means, if a symptom tells, and the last lines of what was printed.
func (t tool) run(ctx context.Context, h *host.Host, argv []string) error {
	return patiently(ctx, t.patience, func() error {
		// The shell only joins standard error to standard output: apt and dnf
		// print errors on both, and what matters may come long before the end.
		joined := append([]string{"sh", "-c", `exec "$@" 2>&1`, argv[0]}, argv...)
		out, err := h.Run(ctx, host.Command{Argv: joined, Env: append([]string{"LC_ALL=C"}, t.env...)})
		var failed *host.CommandError
		if !errors.As(err, &failed) {
			return err
		}
		said := string(out)
		short := host.Command{Argv: argv[:min(t.words, len(argv))]}
		return explain(&host.CommandError{Command: short, Output: lastLines(said, 8), Err: failed.Err}, said, t.symptoms)
	}, t.locked)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// explained is a command's failure with what it means.
type explained struct {
	hint string
	err  error
}

func (e *explained) Error() string { return e.hint + ": " + e.err.Error() }
func (e *explained) Unwrap() error { return e.err }

// symptom is a pattern in a tool's output and what it means; $1 in the meaning
// is the pattern's first group.
type symptom struct{ pattern, meaning string }

// explain looks for the first symptom in what a failed command said.
func explain(err error, said string, symptoms []symptom) error {
	for _, s := range symptoms {
		pattern := regexp.MustCompile(s.pattern)
		if found := pattern.FindStringSubmatchIndex(said); found != nil {
			return &explained{hint: string(pattern.ExpandString(nil, s.meaning, said, found)), err: err}
		}
	}
	return err
}

// What several tools say in the same words.
func diskSymptoms() []symptom {
	return []symptom{
		{`No space left on device|not enough free disk space`, "the disk is full; free some space or enlarge it"},
		{`You don't have enough free space in (\S+?)\.?\s`, "the disk is full at $1; free some space or enlarge it"},
		{`Read-only file system`, "the file system is read-only; remount it for writing, or choose a base image whose root can be written"},
	}
}

const (
	noPackage    = "no repository of this machine has the package $1; check its name and the machine's repositories"
	noVersion    = "no repository of this machine has the version $1; check package_versions"
	conflicts    = "packages contradict each other: $1; remove the one that is there, or leave the other out"
	noRepository = "the repository $1 could not be reached; check the machine's network, proxy and repositories"
	stillRunning = "another package manager is still running"
)

func installing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("installing packages: %w", err)
}

func removing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("removing packages: %w", err)
}

func holding(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("holding packages: %w", err)
}

// lockPatience is how long to wait for another run, such as Debian's own daily
// one, which starts with the machine.
const lockPatience = 5 * time.Minute

// patiently repeats do while it fails because another run holds a lock, which
// shows in its output by the pattern locked.
func patiently(ctx context.Context, patience time.Duration, do func() error, locked string) error {
	deadline := time.After(patience)
	pattern := regexp.MustCompile(locked)
	for {
		err := do()
		if err == nil || locked == "" || !pattern.MatchString(err.Error()) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-deadline:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
