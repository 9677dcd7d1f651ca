//go:build linux

package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

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
