//go:build linux

package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// shellTime is how long a script may take. The AWS CLI needs a second for each
// call, and more on a machine under load.
const shellTime = 5 * time.Minute

// Shell runs a script with sh and the real AWS CLI against the world, and returns
// the output of both streams. The script ends at the first command that fails.
// Files, by name, are in its working folder "/tmp", which is empty otherwise. The
// script runs in moto's root, with a root file system that it cannot change.
func (w *World) Shell(script string, files map[string]string) (string, error) {
	w.t.Helper()
	root := os.Getenv(alone)
	if root == "" {
		var err error
		if root, err = base.Moto(w.ctx, os.Stderr); err != nil {
			return "", err
		}
	}
	defer w.Behave(w.front.Behaviour)
	w.Prompt("the commands are a person's, who repeats what fails")
	server := httptest.NewServer(w)
	defer server.Close()
	ctx, cancel := context.WithTimeout(w.ctx, shellTime)
	defer cancel()
	var prepare strings.Builder
	// The tree is shared. A private mount hides what the script writes.
	prepare.WriteString("set -e\nmount --make-rprivate /\nmount --rbind \"$0\" \"$0\"\nmount -t tmpfs tmpfs \"$0/tmp\"\nmount -o remount,bind,ro \"$0\"\n")
	prepare.WriteString("cat > \"$0/tmp/.script\"\n")
	for name, text := range files {
		fmt.Fprintf(&prepare, "printf %%s %s > \"$0/tmp/%s\"\n", "'"+strings.ReplaceAll(text, "'", `'\''`)+"'", name)
	}
	prepare.WriteString("exec chroot \"$0\" /bin/sh -c 'cd /tmp && exec sh -e .script'\n")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", prepare.String(), root)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "AWS_ENDPOINT_URL=" + server.URL, "AWS_REGION=" + w.region(), "AWS_ACCESS_KEY_ID=" + AccessKey,
		"AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL_EBS=" + w.ebsURL, "AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "PYTHONDONTWRITEBYTECODE=1",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %q: %w: %s", script, err, out)
	}
	return string(out), nil
}

// region is the region of Do.
func (w *World) region() string { return cmp.Or(w.Region, Region) }
