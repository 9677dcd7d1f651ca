package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			assert.Regexp(t, `^interrupted: 0 of \d+ rules changed, 0 actions\n$`, out.String())
			text, err := os.ReadFile(report)
			require.NoError(t, err)
			assert.Contains(t, string(text), c.result)
			assert.Contains(t, string(text), "interrupt signal received")
			assert.FileExists(t, filepath.Join(root, "etc/hostname"))
		})
	}
}
