package userdata

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Check judges each call that the test of package bootstrap compares with Amazon Linux
// 2's script, with variables before the call or exported: a call that fails is an error.
func TestVerdictsAboutCallsOfBootstrapSh(t *testing.T) {
	table, err := os.ReadFile("../bootstrap/testdata/calls.tsv")
	require.NoError(t, err)
	variables := regexp.MustCompile(`^(?:[A-Z]\w*=\S* )+`)
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 5, line)
		script, image, want := columns[0], columns[1], columns[2]
		call := strings.NewReplacer("$join", "--apiserver-endpoint https://a.example --b64-cluster-ca "+authority,
			"Y2E=", authority, "Y2E", strings.TrimRight(authority, "=")).Replace(columns[3])
		before := variables.FindString(call)
		call = bootstrapScript + " " + strings.TrimPrefix(call, before)
		forms := []string{before + call}
		if before != "" {
			forms = append(forms, "export "+before+"\n"+call)
		}
		for _, form := range forms {
			report, err := Check([]byte("#!/bin/bash\n"+form+"\n"), "al2")
			require.NoError(t, err, form)
			got := "passes"
			switch {
			case report.Failed():
				got = "fails"
			case len(report.Problems) > 0:
				got = "warns"
			}
			assert.Equal(t, want, got, "%s: %v", columns[3], report.Problems)
		}
		// Only the machine knows its files, and DescribeCluster the cluster.
		known := strings.Contains(columns[3], "$join") && !strings.Contains(columns[3], "/missing.toml")
		if known && (image == "fails" || image == "=" && script == "fails") {
			assert.Equal(t, "fails", want, "%s: first boot fails, and the check passes", columns[3])
		}
	}
}
