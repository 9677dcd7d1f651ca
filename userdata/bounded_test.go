package userdata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func filled(text string, size int) string { return strings.Repeat(text, max(1, size/len(text))) }

// nested is an opening text so many times, a core, and as many closing texts.
func nested(open, core, end string, times int) string {
	return strings.Repeat(open, times) + core + strings.Repeat(end, times)
}

// aliases are YAML anchors that refer to one another, each so many times to the
// one before.
func aliases(depth, wide int, format string) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for i := 1; i <= depth; i++ {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(format, i-1), wide), ", ")
		fmt.Fprintf(&b, "a%d: &a%d {%s}\n", i, i, list)
	}
	return b.String()
}

// doubling returns variables that each hold the variable before them twice.
func doubling(times int) string {
	var b strings.Builder
	b.WriteString("A0=xxxxxxxxxx\n")
	for i := 1; i < times; i++ {
		fmt.Fprintf(&b, "A%d=\"$A%d$A%d\"\n", i, i-1, i-1)
	}
	return b.String()
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// archiveIn is a cloud-config-archive in an archive, packed to fit.
func archiveIn(depth int) string {
	text := "- a\n"
	for range depth {
		text = "- |\n  #cloud-config-archive\n  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
		text += text
	}
	return text
}

// slowTexts are those of the file, by kind and name.
func slowTexts(t testing.TB) map[string]map[string]string {
	var slow map[string]map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/slow.yaml")), &slow))
	part := func(media string) string { return "--X\nContent-Type: " + media + "\n\n" }
	words := map[string]any{
		"call": "\n/etc/eks/bootstrap.sh c\n", "windows": "& Start-EKSBootstrap.ps1 -EKSClusterName a ",
		"mail":  "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n",
		"shell": part("text/x-shellscript") + "#!/bin/bash\n", "part": part("application/node.eks.aws"),
		"manifest":   "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n",
		"powershell": "<powershell>\n", "head": head, "script": script, "shells": slow["shells"],
	}
	for _, kind := range []string{"shells", "mime", "yaml", "others", "bombs"} { // messages have shells
		for name, text := range slow[kind] {
			slow[kind][name] = fill(t, text, words)
		}
	}
	return slow
}

// Values that hold one another double in each line: their text is bounded, and
// what follows of a script is still checked.
func TestExpansionIsBounded(t *testing.T) {
	r := checked(t, []byte(script+doubling(60)+"/etc/eks/bootstrap.sh \"$A59\" --kubelet-extra-args '--max-pods=many'\n"), "")
	require.Len(t, r.Problems, 1)
	assert.Equal(t, `62: --kubelet-extra-args: --max-pods: "many" must be a number`, r.Problems[0].String())
	s, err := readShell(doubling(60), "bash")
	require.NoError(t, err)
	assert.LessOrEqual(t, s.expanded, maxExpanded)
}
