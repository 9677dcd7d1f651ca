package diagnose

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// The files of an archive show causes, except on a node that joined. Files of a good node
// show none.
func TestFilesOfAMachineShowCauses(t *testing.T) {
	var states []struct {
		Cause    string            `json:"cause"`
		Evidence string            `json:"evidence"`
		Files    map[string]string `json:"files"`
	}
	_, err := strictjson.ReadYAML("states.yaml", []byte(testkit.Content(t, "testdata/states.yaml")), &states)
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, one := range states {
		log := []string{"kubelet/kubelet.log", "kubelet[7]: all is well\n"}
		for _, name := range slices.Sorted(maps.Keys(one.Files)) {
			log = append(log, name, one.Files[name])
		}
		r, wrong := looked(t, file(t, "a.tar", tarred(t, log...)))
		assert.Empty(t, wrong, one.Cause)
		if one.Cause == "" {
			assert.Empty(t, r.Findings)
			continue
		}
		require.NotEmpty(t, r.Findings, one.Cause)
		assert.Equal(t, one.Cause, r.Findings[0].Rule.ID)
		assert.Contains(t, strings.Join(r.Findings[0].Evidence, "\n"), one.Evidence)
		assert.NotEqual(t, Certain, r.Findings[0].Certainty, one.Cause)
		log[1] = goodStart
		r, _ = looked(t, file(t, "b.tar", tarred(t, log...)))
		assert.Equal(t, Joined, r.Result(), one.Cause)
		shown[one.Cause] = true
	}
	for _, f := range stateFiles() {
		assert.True(t, shown[f.cause], f.cause)
	}
}

// The rows of the audit about settings find the causes of the same name.
func TestSettingsOfAMachineShowCauses(t *testing.T) {
	for name, want := range map[string]struct{ text, cause string }{
		"etc/sysctl.d/99-cis.conf":                {"net.ipv4.ip_forward = 0\n", "kernel-settings"},
		"etc/fstab":                               {"/dev/nvme1n1 /opt xfs defaults,noexec 0 0\n", "may-not-run"},
		"etc/systemd/resolved.conf.d/strict.conf": {"[Resolve]\nDNSSEC=yes\n", "dns"},
		"etc/containerd/config.toml":              {"disabled_plugins = [\"cri\"]\n", "cri-plugin"},
	} {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(want.text), 0o644))
		h, err := host.Mounted(root)
		require.NoError(t, err)
		s := NewSearch(context.Background())
		require.NoError(t, s.Machine(t.Context(), h, root))
		i := slices.IndexFunc(s.Report().Findings, func(f Finding) bool { return f.Rule.ID == want.cause })
		require.GreaterOrEqual(t, i, 0, "%s: %v", name, s.stated)
		assert.Contains(t, s.Report().Findings[i].Evidence[0], filepath.Join(root, name))
		require.NoError(t, s.Log(Log{"kubelet", strings.NewReader(goodStart)}))
		assert.Equal(t, Joined, s.Report().Result(), name)
		require.NoError(t, h.Close())
	}
}

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
		"events.json", `{"events":[{"message":`+quoted(lines["swap"][0])+`}]}`,
		"config.json", `{"a":`+quoted(lines["swap"][0])+`}`)))
	assert.Empty(t, wrong)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, 1, r.Findings[0].Count)
	require.Len(t, r.PassedOver, 1)
	assert.Contains(t, r.PassedOver[0], ":config.json")
}
