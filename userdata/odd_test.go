package userdata

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

const (
	powers    = "<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName a "
	powersEnd = "\n</powershell>\n"
)

func said(t *testing.T, text, family string) string {
	t.Helper()
	r, err := Check([]byte(withAuthority(text)), family)
	if err != nil {
		return "error: " + err.Error()
	}
	list := show.Each(r.Problems, func(p Problem) string { return p.String() })
	return strings.Join(list, "|")
}

// EC2 limits the size of decoded user data, compressed or not.
func TestUserDataAboveTheLimitOfEC2(t *testing.T) {
	noise := make([]byte, 20<<10)
	source := rand.NewChaCha8([32]byte{})
	_, err := source.Read(noise)
	require.NoError(t, err)
	text := []byte(script + "/etc/eks/bootstrap.sh c\n#" + fmt.Sprintf("%x", noise) + "\n")
	packed := testkit.Gzip(text)
	require.Greater(t, len(packed), maxUserData)
	assert.Equal(t, fmt.Sprintf("it has %d bytes, and EC2 takes at most 16384; compress it with gzip", len(text)), said(t, base64.StdEncoding.EncodeToString(text), ""))
	assert.Equal(t, fmt.Sprintf("it has %d bytes, and EC2 takes at most 16384, also compressed", len(packed)), said(t, string(packed), ""))
	fits := bytes.Repeat([]byte("# fits\n"), 2000)
	assert.Empty(t, said(t, base64.StdEncoding.EncodeToString(append([]byte(script+"/etc/eks/bootstrap.sh c\n"), fits...)), ""), "the limit must not count the base64 text")
	assert.Empty(t, said(t, string(testkit.Gzip(append([]byte(script+"/etc/eks/bootstrap.sh c\n"), bytes.Repeat(fits, 4)...))), ""))
	assert.Contains(t, said(t, powers+"\n#"+strings.Repeat("x", 17000)+powersEnd, ""), "EC2 takes at most 16384; fetch a part of the script from elsewhere")
	large := class + "  amiFamily: AL2023\n  userData: |\n    #!/bin/sh\n    #" + strings.Repeat("x", 17000) + "\n"
	assert.Equal(t, "9: warning: spec.userData: Karpenter merges it with its own unless amiFamily is Custom|"+
		"9: spec.userData: it has 17012 bytes, and EC2 takes at most 16384", said(t, large, ""))
	assert.Equal(t, "error: reading user data: decompressing: the text has more than 1 MiB", said(t, string(testkit.Gzip(make([]byte, 2<<20))), ""))

	n := node()
	n.Labels = map[string]string{}
	for i := range 700 {
		n.Labels[fmt.Sprintf("example.com/label-%d", i)] = "value"
	}
	_, err = Render("al2023", "", n)
	require.ErrorContains(t, err, "checking what was written for al2023: it has ")
	require.ErrorContains(t, err, "EC2 takes at most 16384; compress it with gzip")
}

func TestOutpostClustersAreRendered(t *testing.T) {
	n := node()
	n.Cluster.Outpost = "1234abcd-12ab-34cd-56ef-1234567890ab"
	text := written(t, "al2023", "", n)
	c, _, err := nodeconfig.Parse(text)
	require.NoError(t, err)
	assert.True(t, c.Spec.Cluster.Outpost())
	assert.Equal(t, n.Cluster.Outpost, c.Spec.Cluster.ID)

	args, err := n.bootstrapArguments()
	require.NoError(t, err)
	a, err := arguments.Parse(args)
	require.NoError(t, err)
	require.NoError(t, a.Validate())
	assert.True(t, *a.Outpost)
	assert.Equal(t, n.Cluster.Outpost, a.ClusterID)
	for _, family := range []string{"al2", "ubuntu"} {
		assert.Contains(t, string(written(t, family, "", n)), n.Cluster.Outpost)
	}
	for family, want := range map[string]string{
		"windows":      "writing user data for windows: cluster.outpost: EKS has no Windows nodes on Outposts",
		"bottlerocket": "writing user data for bottlerocket: cluster.outpost: local clusters on Outposts have no Bottlerocket nodes",
	} {
		_, err := Render(family, "", n)
		assert.EqualError(t, err, want)
	}
	n.Cluster.Outpost = "a b"
	_, err = Render("al2023", "", n)
	assert.EqualError(t, err, `cluster.outpost: "a b" is not an ID of a local cluster: up to 100 letters, digits, - and _`)
}

// Values with quotes and dots are read back unchanged.
func TestRenderedValuesAreQuoted(t *testing.T) {
	n := node()
	n.KubeletArgs = []string{`--system-reserved=cpu=100m,memory='1Gi'`, `--image-gc-high-threshold="85"`}
	args, err := n.bootstrapArguments()
	require.NoError(t, err)
	assert.Equal(t, args, callIn(t, written(t, "al2", "", n)))

	text := written(t, "windows", "", n)
	assert.Contains(t, string(text), `memory=''1Gi'' --image-gc-high-threshold="85" --max-pods=58'`)
	var given string
	commands, _ := powershellCommands(strings.TrimPrefix(string(text), windowsOpen))
	for _, command := range commands {
		for i, w := range command {
			if w.text == "-KubeletExtraArgs" {
				given = command[i+1].text
			}
		}
	}
	assert.Equal(t, strings.Join(n.kubeletFlags(), " ")+" --max-pods=58", given)

	n.KubeletArgs = nil
	n.Labels = map[string]string{"a.b/c": "d", "e": ""}
	text = written(t, "bottlerocket", "", n)
	var document struct {
		Settings struct {
			Kubernetes struct {
				Labels map[string]string `toml:"node-labels"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	require.NoError(t, toml.Unmarshal(text, &document))
	assert.Equal(t, n.Labels, document.Settings.Kubernetes.Labels)
}
