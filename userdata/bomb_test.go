package userdata

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bombs returns texts that need much time or memory in a naive parser.
func bombs() map[string]string {
	const large = 900_000
	mail := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
	long := strings.Repeat("x", 100_000)
	return map[string]string{
		"a long word":           script + strings.Repeat("x", large) + "\n/etc/eks/bootstrap.sh c\n",
		"a long word, quoted":   script + "'" + strings.Repeat("x", large) + "'\n/etc/eks/bootstrap.sh c\n",
		"PowerShell's words":    "<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName '" + strings.Repeat("x", large) + "'\n</powershell>",
		"a long header":         "MIME-Version: 1.0\nContent-Type: text/plain\n" + strings.Repeat(" a\n", large/3),
		"parts in parts":        mail + strings.Repeat("--X\nContent-Type: multipart/mixed; boundary=X\n\n", 10_000) + "--X--\n",
		"parts in nested parts": mail + strings.Repeat("--X\nContent-Type: multipart/mixed; boundary=\n\n--\nContent-Type: multipart/mixed; boundary=X\n\n", 8000),
		"names in names":        "#cloud-config\n? " + long + "\n: {" + strings.Repeat("a: 1, ", 20_000) + "z: 1}\nruncmd: [/etc/eks/bootstrap.sh c]\n",
		"much cloud-config":     "#cloud-config\na: [" + strings.Repeat("a,", large/2) + "]\n",
		"objects in objects":    "#cloud-config\na: " + strings.Repeat("{a: ", 9000) + "1" + strings.Repeat("}", 9000) + "\n",
		"names in TOML":         "[settings]\n" + strings.Repeat("a.", 30_000) + "a = 1\n",
		"much TOML":             "[settings.kubernetes]\ncluster-name = '" + strings.Repeat("x", large) + "'\n",
		"many calls":            script + strings.Repeat("/etc/eks/bootstrap.sh c --x y\n", 30_000),
		"many NodeConfigs":      script + strings.Repeat("cat <<'E'\n"+head+"  x: 1\nE\n", 5000) + "nodeadm init\n",
		"a label":               script + "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=" + strings.Repeat("a,", 400_000) + "'\n",
	}
}

// Check needs bounded time and memory for any text, and its messages are bounded.
func TestCheckOfBombsIsBounded(t *testing.T) {
	for name, text := range bombs() {
		t.Run(name, func(t *testing.T) {
			r, err := Check([]byte(text), "")
			if err != nil {
				assert.Less(t, len(err.Error()), 1000)
				return
			}
			said := 0
			for _, p := range r.Problems {
				said += len(p.String())
			}
			assert.Less(t, said, 300_000)
		})
	}
	_, err := Check([]byte(script+strings.Repeat("x", 2<<20)), "")
	require.EqualError(t, err, "reading user data: the text has more than 1 MiB")
	r, err := Check([]byte(script+strings.Repeat("/etc/eks/bootstrap.sh c --x y\n", 1000)), "")
	require.NoError(t, err)
	var last int
	for _, p := range r.Problems {
		if p.Text == "further problems are not listed" {
			last++
		}
	}
	assert.Equal(t, 1, last)
}

func TestMessagesArePrintable(t *testing.T) {
	r, err := Check([]byte("#cloud-config\n\"a\\nb\\e[2J\": 1\nruncmd: [/etc/eks/bootstrap.sh c]\n"), "")
	require.NoError(t, err)
	require.Len(t, r.Problems, 1)
	assert.Equal(t, `2: a\nb\x1b[2J: unknown field; cloud-init passes over it`, r.Problems[0].String())
}
