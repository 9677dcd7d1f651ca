package provisioner

import (
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// An administrator's drop-in is an error. A link to /dev/null, which hides a
// drop-in of the distribution, is not.
func TestZramDropInsOfAnAdministrator(t *testing.T) {
	n := nodeOf(t, "fedora", Spec{})
	for name, test := range map[string]struct {
		files   map[string]string
		hidden  bool
		want    []string
		wantErr string
	}{
		"none":                    {want: []string{zramConfig}},
		"the administrator's":     {files: map[string]string{"/etc/systemd/zram-generator.conf.d/a.conf": "[zram0]\n"}, wantErr: "/etc/systemd/zram-generator.conf.d/a.conf configures swap in memory, with which a kubelet does not start: remove the file"},
		"not a drop-in":           {files: map[string]string{"/etc/systemd/zram-generator.conf.d/README": ""}, want: []string{zramConfig}},
		"the distribution's":      {files: map[string]string{"/usr/lib/systemd/zram-generator.conf.d/a.conf": "[zram0]\n"}, want: []string{zramConfig, "/etc/systemd/zram-generator.conf.d/a.conf to /dev/null"}},
		"hidden":                  {files: map[string]string{"/usr/lib/systemd/zram-generator.conf.d/a.conf": "[zram0]\n"}, hidden: true, want: []string{zramConfig}},
		"the same name in both":   {files: map[string]string{"/usr/lib/systemd/zram-generator.conf.d/a.conf": "", "/usr/local/lib/systemd/zram-generator.conf.d/a.conf": ""}, want: []string{zramConfig, "/etc/systemd/zram-generator.conf.d/a.conf to /dev/null"}},
		"replaced, but with swap": {files: map[string]string{"/usr/lib/systemd/zram-generator.conf.d/a.conf": "", "/etc/systemd/zram-generator.conf.d/a.conf": ""}, wantErr: "/etc/systemd/zram-generator.conf.d/a.conf configures swap in memory, with which a kubelet does not start: remove the file"},
	} {
		t.Run(name, func(t *testing.T) {
			h := bare(t, n.distro)
			write := func(name, text string) {
				require.NoError(t, h.Files.MkdirAll(path.Dir(name), 0o755))
				require.NoError(t, h.Files.WriteFile(name, []byte(text), host.Attributes{Mode: 0o644}))
			}
			require.NoError(t, h.Files.MkdirAll("/usr/lib/systemd/system-generators", 0o755))
			require.NoError(t, h.Files.WriteFile(zramGenerator, nil, host.Attributes{Mode: 0o755}))
			for name, text := range test.files {
				write(name, text)
			}
			if test.hidden {
				require.NoError(t, h.Files.MkdirAll(zramDropIns, 0o755))
				require.NoError(t, h.Files.SymlinkIfPossible("/dev/null", zramDropIns+"/a.conf"))
			}
			answer, err := pick(n, "swap")[0].Plan(t.Context(), h)
			if test.wantErr != "" {
				require.EqualError(t, err, test.wantErr)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, a := range answer.Actions {
				got = append(got, a.Target)
			}
			assert.Equal(t, test.want, got)
		})
	}
}
