package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// everyFlag calls do with each flag of each command, and with a new command for
// parsing.
func everyFlag(t *testing.T, do func(path string, c *cobra.Command, f *pflag.Flag)) {
	t.Helper()
	var walk func(words []string, c *cobra.Command)
	walk = func(words []string, c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			fresh, rest, err := root().Find(words)
			require.NoError(t, err)
			require.Empty(t, rest)
			do(c.CommandPath(), fresh, f)
		})
		for _, sub := range c.Commands() {
			walk(append(words[:len(words):len(words)], sub.Name()), sub)
		}
	}
	walk(nil, root())
}

// An empty value usually comes from an unset shell variable. It must not mean the
// flag's default, and never the live machine.
func TestEmptyFlagValuesAreRefused(t *testing.T) {
	compatible := map[string]bool{ // Amazon's programs accept these
		"eksnode nodeadm init --skip": true, "eksnode nodeadm init --config-cache": true, "eksnode nodeadm init --daemon": true,
		"eksnode nodeadm config dump --config-cache": true, "eksnode nodeadm config dump --config-output": true, "eksnode aws-iam-authenticator token --region": true,
	}
	flags := 0
	everyFlag(t, func(path string, c *cobra.Command, f *pflag.Flag) {
		flags++
		for _, value := range []string{"", " ", "\t\n"} {
			for _, args := range [][]string{{"--" + f.Name + "=" + value}, {"--" + f.Name, value}} {
				if f.NoOptDefVal != "" && len(args) > 1 {
					continue // the value of a switch follows an equals sign
				}
				err := c.ParseFlags(args)
				if compatible[path+" --"+f.Name] && value == "" {
					assert.NoError(t, err, "%s %q", path, args)
				} else if assert.Error(t, err, "%s %q", path, args) {
					assert.Equal(t, "--"+f.Name+": the value is empty; is a shell variable unset?", flagError(c, err).Error())
				}
			}
		}
	})
	assert.Greater(t, flags, 80)
}

// If the reader of a pipe ends early, as head does, there is no error message, and
// the exit code is that of the result.
func TestAClosedPipeIsNoError(t *testing.T) {
	root := dirtyRoot(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"distros"}, 0}, {[]string{"distros", "--output", "json"}, 0}, {[]string{"scrub", "--list"}, 0}, {[]string{"version"}, 0},
		{[]string{"scrub", "--help"}, 0}, {[]string{"audit", "--root", root}, 1}, {[]string{"audit", "--root", root, "--output", "junit"}, 1},
		{[]string{"audit", "--root", root, "--distro", "plan9"}, 2}, {[]string{"scrub", "--root", root, "--yes"}, 1},
	} {
		in, out, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, in.Close())
		var errOut bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, nil, out, &errOut), "%s", c.args)
		assert.NotContains(t, errOut.String(), "pipe", "%s", c.args)
		require.NoError(t, out.Close())
	}
}

// An output that cannot be written is an error of every command. An audit with
// findings still exits with 1.
func TestUnwritableOutputIsAnError(t *testing.T) {
	full := errors.New("no space left on device")
	root := dirtyRoot(t)
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"distros"}, 2}, {[]string{"version"}, 2}, {[]string{"scrub", "--help"}, 2}, {[]string{"audit", "--root", root}, 1},
	} {
		var errOut bytes.Buffer
		assert.Equal(t, c.code, run(t.Context(), c.args, nil, failing{full}, &errOut), "%s", c.args)
		assert.Equal(t, "eksnode: no space left on device\n", errOut.String(), "%s", c.args)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// An interrupt stops commands that wait for standard input.
func TestAnInterruptStopsReadingStandardInput(t *testing.T) {
	for _, args := range [][]string{{"diagnose", "-"}, {"userdata", "check", "-"}, {"userdata", "render", "--family", "al2023", "--description", "-"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		in, out := io.Pipe() // never written
		cancel(errors.New("interrupt signal received"))
		var errOut bytes.Buffer
		assert.Equal(t, 2, run(ctx, args, in, io.Discard, &errOut), "%s", args)
		assert.Equal(t, "eksnode: interrupted\n", errOut.String(), "%s", args)
		require.NoError(t, out.Close())
	}
}

// An audit prints its phases at the end. Meanwhile it prints only the rule that takes
// long.
func TestLongAuditsShowTheRuleThatRuns(t *testing.T) {
	var printed bytes.Buffer
	now := time.Unix(0, 0)
	c := console.New(lines{newPrinter(&printed)}, console.Options{Command: "audit", Now: func() time.Time { return now }})
	w := waiting{c}
	w.Begin("machine-id", "identity", 1)
	w.End(plan.Outcome{Item: "machine-id", Phase: "identity", Status: plan.Unchanged})
	w.Begin("secrets-left", "inspect", 1)
	c.Tick()
	now = now.Add(30 * time.Second)
	c.Tick()
	c.Close()
	assert.Equal(t, "  secrets-left: still working after 30.0 s\n", printed.String())
}

// dirtyRoot returns an image root with one file to scrub.
func dirtyRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	for name, text := range map[string]string{"os-release": "ID=debian\nVERSION_ID=\"12\"\n", "passwd": "root:x:0:0:root:/root:/bin/bash\n", "hostname": "ip-10-0-1-249\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644))
	}
	return root
}

// The report of an interrupted run says that it was interrupted, and replaces the
// report of an earlier run.
func TestInterruptedRunsReportTheInterrupt(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		code   int
		result string
	}{
		"scrub":   {[]string{"scrub", "--yes"}, 1, `"result": "failed"`},
		"dry run": {[]string{"scrub", "--dry-run"}, 1, `"result": "failed"`},
		"audit":   {[]string{"audit"}, 2, `"result": "unknown"`},
	} {
		t.Run(name, func(t *testing.T) {
			root, report := dirtyRoot(t), filepath.Join(t.TempDir(), "report.json")
			require.NoError(t, os.WriteFile(report, []byte(`{"result": "ok"}`), 0o600))
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("interrupt signal received"))
			var out, errOut bytes.Buffer
			code := run(ctx, append(c.args, "--root", root, "--report", report), nil, &out, &errOut)
			assert.Equal(t, c.code, code, errOut.String())
			assert.Equal(t, "interrupted: nothing was changed\n", out.String())
			text := testkit.Content(t, report)
			assert.Contains(t, text, c.result)
			assert.Contains(t, text, "interrupt signal received")
			assert.FileExists(t, filepath.Join(root, "etc/hostname"))
		})
	}
}

// The lock file records a tag's digest. A tag that moves later has no effect until
// "eksnode lock" runs again.
func TestImagesAreLockedByDigest(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	text := strings.TrimPrefix(server.URL, "http://") + "/team/app:1.2"
	tag, err := name.NewTag(text)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "eksnode.lock.json")
	push := func() string {
		one, err := random.Image(100, 1)
		require.NoError(t, err)
		require.NoError(t, remote.Write(tag, one))
		digest, err := one.Digest()
		require.NoError(t, err)
		return digest.String()
	}
	lock := func(image string) (code int, said, wrong string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), []string{"lock", "--file", file, "--images", image}, nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	first := push()
	code, said, wrong := lock(text)
	require.Zero(t, code, wrong)
	assert.Equal(t, "new       image "+text+", "+first+"\n", said)
	_, said, _ = lock(text + "@" + first)
	assert.Equal(t, "unchanged image "+text+", "+first+"\n", said)
	second := push()
	l, err := provisioner.ReadLock(file)
	require.NoError(t, err)
	digest, ok := l.Image(text)
	assert.True(t, ok)
	assert.Equal(t, first, digest)
	before := testkit.Content(t, file)
	for image, want := range map[string]string{
		text + "@" + first: "eksnode: locking the image " + text + "@" + first + ": the digest of the tag is now " + second + "; use this digest, or leave out the digest\n",
		"pause:3.10":       "eksnode: --images: \"pause:3.10\" names no registry; write the full name, such as docker.io/library/busybox:1.37\n",
	} {
		code, _, wrong = lock(image)
		assert.Equal(t, 2, code)
		assert.Equal(t, want, wrong)
	}
	_, _, wrong = lock(strings.Replace(text, ":1.2", ":1.3", 1))
	assert.Contains(t, wrong, "the registry does not have the image")
	assert.Equal(t, before, testkit.Content(t, file))
	_, said, _ = lock(text)
	assert.Equal(t, "changed   image "+text+", "+second+"\n", said)
}
