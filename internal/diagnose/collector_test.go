package diagnose

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// testdata/collectors has the files of archives that collect logs, after the log with the
// cause. The other files have the cause's words too, but are no logs. The names are those of
// the programs:
// https://github.com/awslabs/amazon-eks-ami/tree/main/log-collector-script
// https://github.com/bottlerocket-os/bottlerocket/tree/develop/sources/logdog
func TestArchivesOfLogCollectorsAreRead(t *testing.T) {
	all := testkit.Glob(t, "testdata/collectors/*")
	require.Len(t, all, 4)
	for _, collected := range all {
		name := strings.TrimSuffix(filepath.Base(collected), ".txtar")
		t.Run(name, func(t *testing.T) {
			content, err := txtar.ParseFile(collected)
			require.NoError(t, err)
			log, prefix := strings.TrimSpace(string(content.Comment)), "./"
			if strings.HasSuffix(name, ".zip") {
				prefix = ""
			}
			var pairs []string
			for _, f := range content.Files {
				text := strings.Replace(string(f.Data), "noise\n", noise(), 1)
				if f.Name == log {
					text += ill()
				}
				pairs = append(pairs, prefix+f.Name, text)
			}
			archive := ""
			switch {
			case strings.HasSuffix(name, ".zip"):
				archive = zipped(t, pairs...)
			case strings.HasSuffix(name, ".xz"):
				archive = xzipped(t, tarred(t, pairs...))
			default:
				archive = gzipped(t, tarred(t, pairs...))
			}
			path := file(t, name, archive)
			r, wrong := looked(t, path)
			assert.Empty(t, wrong)
			require.Len(t, r.Findings, 1)
			assert.Equal(t, "swap", r.Findings[0].Rule.ID)
			assert.Equal(t, 1, r.Findings[0].Count, r.Findings[0].Evidence)
			assert.Contains(t, r.Findings[0].Evidence[0], path+":"+log+":2: ")
		})
	}
}

// A file that a person names is searched, also if it looks like configuration.
func TestNamedFilesAreAlwaysSearched(t *testing.T) {
	r, wrong := looked(t, file(t, "kubelet.conf", ill()))
	assert.Empty(t, wrong)
	require.Len(t, r.Findings, 1)
}

// JSON with log lines is read in folders and archives; other JSON is not.
func TestJSONInArchives(t *testing.T) {
	r, wrong := looked(t, file(t, "a.tar", tarred(t,
		"events.json", `{"events":[{"message":`+quoted(lines["swap"][0])+`}]}`, "config.json", `{"a":`+quoted(lines["swap"][0])+`}`)))
	assert.Empty(t, wrong)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, 1, r.Findings[0].Count)
	require.Len(t, r.PassedOver, 1)
	assert.Contains(t, r.PassedOver[0], ":config.json")
}
