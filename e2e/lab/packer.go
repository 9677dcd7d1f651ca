package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Packer is a packer in the lab's network, with plugins and settings of its own.
type Packer struct {
	// Folder is the working folder.
	Folder string
	// Key is the file with the private key of the lab.
	Key string
	// Environment has additional environment variables.
	Environment []string

	lab     *Lab
	program string
}

// NewPacker returns a packer of a version, the newest in the harness when empty, with
// plugins: the path of each, by its source address.
func (l *Lab) NewPacker(t *testing.T, version string, plugins map[string]string) *Packer {
	t.Helper()
	program, err := tools.Packer(l.Ctx, version, t.Output())
	require.NoError(t, err)
	p := &Packer{Folder: t.TempDir(), lab: l, program: program}
	p.Key = filepath.Join(p.Folder, "key")
	require.NoError(t, os.WriteFile(p.Key, l.Key.PEM, 0o600))
	require.NoError(t, os.WriteFile(p.resolver(), []byte("nameserver "+l.HostAddress()+"\n"), 0o644))
	for source, path := range plugins {
		p.Run(t, "plugins", "install", "--path", path, source)
	}
	return p
}

// resolver is the file with the address of the lab's name server, the only one in its
// network.
func (p *Packer) resolver() string { return filepath.Join(p.Folder, "resolv.conf") }

// Run runs a command of packer that must succeed.
func (p *Packer) Run(t *testing.T, args ...string) {
	t.Helper()
	cmd := p.lab.Command(p.lab.Ctx, "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec",
		`mount --bind "$0" /etc/resolv.conf; exec "$@"`, p.resolver(), p.program}, args...)...)
	cmd.Env = append(append(os.Environ(), "PACKER_PLUGIN_PATH="+filepath.Join(p.Folder, "plugins"),
		"PACKER_CONFIG_DIR="+filepath.Join(p.Folder, "config"), "CHECKPOINT_DISABLE=1"), p.Environment...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = t.Output(), t.Output(), p.Folder
	require.NoError(t, cmd.Run())
}
