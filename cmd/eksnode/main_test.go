//go:build linux

package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if code, child := auditChild(context.Background()); child {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"eksnode": main})
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
