//go:build linux

package scrub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigurationsThatNameAPersonGo(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd":                        passwd,
		"root/.gitconfig":                   "[user]\n\tname = Ada\n\temail = ada@corp\n",
		"home/admin/.config/git/config":     "[user]\n\temail=ada@corp\n",
		"home/admin/.gitconfig":             "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n",
		"opt/svc home/.makepkg.conf":        "PACKAGER=\"Ada <ada@corp>\"\n",
		"opt/svc home/.hgrc":                "[ui]\nusername = Ada\n",
		"etc/security/opasswd":              "ada:1000:1:$6$x\n",
		"home/admin/.config/git/attributes": "*.x diff\n",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"names-in-configs", "old-passwords"}})
	assert.Equal(t, []string{
		"- /home/admin/.config/git/config", "- /opt/svc home/.hgrc", "- /opt/svc home/.makepkg.conf", "- /root/.gitconfig", "~ /etc/security/opasswd",
	}, diff(before, snapshot(t, root)))
}

func TestHomesWithoutAnAccountAreReported(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "home/admin/": "", "home/ada@corp/": "", "home/lost+found/": "", "home/build/": ""})
	require.NoError(t, os.Chown(filepath.Join(root, "home/ada@corp"), 70000, 70000))
	assert.Equal(t, []string{"/home/ada@corp: home of an account that this machine does not know: move what the image needs, and remove the folder"}, audit(t, h, "homes-left"))
}
