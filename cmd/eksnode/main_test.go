//go:build linux

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// quick is a context for calls to AWS without pauses of seconds.
func quick(ctx context.Context) context.Context { return awsapi.WithPauses(ctx, time.Millisecond) }

func TestMain(m *testing.M) {
	if code, child := rootChild(context.Background()); child {
		os.Exit(code)
	}
	if code, child := auditChild(context.Background()); child {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"eksnode": func() { mainIn(quick(context.Background())) }})
}

// TestScripts runs the scripts in testdata, one file per behaviour.
func TestScripts(t *testing.T) {
	schema, err := reportSchema()
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"report": validReport(schema)},
	})
}

// A FIFO in place of a file that a person names is an error, and no command waits
// for its writer.
func TestNoCommandWaitsForAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo.pkr.hcl")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for _, line := range []string{
		"scrub --dry-run --rules-file FIFO", "audit --rules-file FIFO", "provision --spec FIFO", "provision --kubernetes-version 1.34.4 --lock-file FIFO",
		"userdata check FIFO", "userdata render --family al2023 --description FIFO", "check FIFO", "diagnose FIFO",
		"manifests --cluster c --role r --aws-auth FIFO", "preflight --cluster c --nodeclass FIFO",
		"audit --disk FIFO", "ami diff FIFO FIFO", "ami diff --disk FIFO FIFO",
	} {
		t.Run(line, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := root()
			cmd.SetArgs(strings.Fields(strings.ReplaceAll(line, "FIFO", fifo)))
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			done := make(chan error, 1)
			go func() { done <- cmd.ExecuteContext(ctx) }()
			select {
			case err := <-done:
				assert.ErrorContains(t, err, "regular file")
			case <-ctx.Done():
				t.Fatal("the command waits for a writer of the FIFO")
			}
		})
	}
}
