package base

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// lockPause is how long Install waits before it tries again when another
// apt-get holds the lock of the package lists, which apt itself does not wait
// for (it does for dpkg's).
const lockPause = 2 * time.Second

// Install makes sure that Debian packages are installed on the host, for
// harnesses that need tools of them. Nothing happens when all are there; else
// it runs apt-get as root, refreshing the package lists only when the first try
// fails. What apt-get prints goes to log.
func Install(ctx context.Context, log io.Writer, packages ...string) error {
	missing, err := missing(ctx, packages)
	if err != nil || len(missing) == 0 {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing %s: only root can; run it as root, or run: sudo apt-get install %s",
			strings.Join(missing, ", "), strings.Join(missing, " "))
	}
	fmt.Fprintf(log, "installing host packages: %s\n", strings.Join(missing, " "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if err := aptGet(ctx, log, install...); err == nil {
		return nil
	}
	if err := aptGet(ctx, log, "update"); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(missing, ", "), err)
	}
	if err := aptGet(ctx, log, install...); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

// missing returns those of packages that dpkg does not have as installed.
func missing(ctx context.Context, packages []string) ([]string, error) {
	args := append([]string{"-W", "-f", "${db:Status-Status} ${Package}\n"}, packages...)
	out, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	var exit *exec.ExitError
	// Status 1 says that some package is unknown: that is an answer.
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("asking dpkg what is installed (the harness needs a Debian or Ubuntu host): %w", err)
	}
	return absent(packages, string(out)), nil
}

// absent picks the packages that have no "installed NAME" line in status.
func absent(packages []string, status string) []string {
	installed := map[string]bool{}
	for line := range strings.Lines(status) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "installed "); found {
			installed[name] = true
		}
	}
	var names []string
	for _, name := range packages {
		if !installed[name] {
			names = append(names, name)
		}
	}
	return names
}

func aptGet(ctx context.Context, log io.Writer, args ...string) error {
	for {
		var tail bytes.Buffer
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=600"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout = log
		cmd.Stderr = io.MultiWriter(log, &tail)
		err := cmd.Run()
		if err == nil {
			return nil
		}
		if !strings.Contains(tail.String(), "Could not get lock") {
			return fmt.Errorf("running apt-get %s: %w: %s", args[0], err, strings.TrimSpace(tail.String()))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another apt-get to finish: %w", ctx.Err())
		case <-time.After(lockPause):
		}
	}
}
