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

// lockPause is how long Install waits before a retry while another apt-get
// holds the lock of the package lists. apt itself waits for dpkg's lock, but
// not for this one.
const lockPause = 2 * time.Second

// Install makes sure that Debian packages are installed on the host, for
// harnesses that need their programs. If packages are missing, it runs apt-get
// as root. It refreshes the package lists only after a first failure. The
// output of apt-get goes to log.
func Install(ctx context.Context, log io.Writer, packages ...string) error {
	missing, err := missing(ctx, packages)
	if err != nil || len(missing) == 0 {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("installing %s needs root: run the tests as root, or run: sudo apt-get install %s",
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

// missing returns the packages that dpkg does not list as installed.
func missing(ctx context.Context, packages []string) ([]string, error) {
	args := append([]string{"-W", "-f", "${db:Status-Status} ${Package}\n"}, packages...)
	out, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	var exit *exec.ExitError
	// Status 1 says that a package is unknown: the package is not installed.
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("listing installed packages with dpkg (the harness needs a Debian or Ubuntu host): %w", err)
	}
	return absent(packages, string(out)), nil
}

// absent returns the packages without an "installed NAME" line in status.
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
