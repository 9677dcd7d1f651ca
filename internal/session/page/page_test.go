package page

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m</table>&amp;"

func hostileReport() plan.Report {
	return plan.Report{
		Command: "audit", Tool: hostile, Started: time.Unix(0,
			0), Result: plan.Findings, Error: hostile, Warnings: []string{hostile},
		Machine: plan.Machine{Distro: hostile, Disk: hostile, Digest: "sha256:ab", AMI: hostile, Region: hostile,
			Boots: []plan.Boot{{Started: time.Unix(0, 0), Ended: time.Unix(60, 0)}}},
		Phases: []plan.PhaseTotals{{Phase: hostile, Milliseconds: 3000}, {Phase: "other", Milliseconds: 1500}},
		Plan: []plan.Planned{{Item: hostile, Error: hostile,
			Findings: []plan.Finding{{Target: hostile, Reason: "remove the key"}},
			Actions:  []plan.Action{{Verb: plan.Remove, Target: hostile, Reason: hostile}}}},
		Rules: []plan.Check{{Item: hostile, Outcome: plan.LeftOut, Reason: hostile}},
		Image: &plan.Contents{Kubernetes: hostile, Tailoring: `<x:Tailoring xmlns:x="y"><x:Profile><x:select idref="rule">
<x:remark>nodes &lt;b&gt; need it</x:remark></x:select></x:Profile></x:Tailoring>`, Components: []plan.Component{{Name: hostile, Version: hostile, Bytes: 10}},
			Images: []plan.ImageContents{{Name: hostile, Digest: hostile}}, Packages: []plan.Package{{Name: hostile,
				Version: hostile}}},
	}
}

// The texts of a page are those of the report, whatever an image makes of them: the page
// has no script, no foreign element, and no address.
func TestAPageEscapesWhatIsForeign(t *testing.T) {
	text, err := Of("x.html", "report of "+hostile,
		[]Table{{hostile, []string{hostile}, [][]string{{"a cell", hostile}}}}, hostileReport())
	require.NoError(t, err)
	root, err := html.Parse(strings.NewReader(string(text)))
	require.NoError(t, err)
	known := strings.Fields("html head meta title style body h1 h2 h3 span p table tbody tr th td ul li svg rect details summary")
	var words strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			assert.Contains(t, known, n.Data)
			for _, a := range n.Attr {
				assert.NotContains(t, []string{"src", "href", "onerror", "style"}, a.Key)
			}
		}
		if n.Type == html.TextNode {
			words.WriteString(n.Data + "\n")
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	assert.NotContains(t, string(text), "\x1b")
	for _, want := range []string{"a cell", "remove the key", "<script>alert(1)</script>", "Exceptions", "sha256:ab",
		"1.5 s", "findings", "nodes <b> need it", "Boots", "to 1970-01-01 00:01:00 UTC"} {
		assert.Contains(t, words.String(), want)
	}
	assert.Contains(t, string(text), `<rect width="50.0"`)
	text, err = Of("x.md", "summary", nil, hostileReport())
	require.NoError(t, err)
	assert.Contains(t, string(text), "\n- ` rule `: ` nodes <b> need it `\n")
}

// What is foreign stays in code spans of the summary: it is neither Markdown nor HTML.
func TestASummaryQuotesWhatIsForeign(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "` plain `", "a ` b": "`` a ` b ``", "``": "``` `` ```", "x\n# y": "` x\\n# y `", "<img src=x>": "` <img src=x> `",
	} {
		assert.Equal(t, want, code(text), text)
	}
	quoted := "` <b>@someone</b> \n# head"
	text, err := Of("a.md", quoted, []Table{{"Nodes", nil, [][]string{{"i-1", quoted}}}}, plan.Report{
		Command: "audit", Result: plan.Findings, Machine: plan.Machine{Distro: quoted, Digest: "sha256:ab"},
		Phases: []plan.PhaseTotals{{Phase: "identity", Totals: plan.Totals{Removal: host.Removal{Bytes: 33}}}},
		Plan:   []plan.Planned{{Item: "machine-id", Findings: []plan.Finding{{Target: quoted, Reason: "remove it"}}}},
		Rules:  []plan.Check{{Item: "logs", Outcome: plan.LeftOut, Reason: "kept"}},
	})
	require.NoError(t, err)
	assert.Contains(t, string(text), "\n## ` audit `: findings\n")
	assert.Contains(t, string(text), "\n## Nodes\n\n- ` i-1 `: `` ` <b>@someone</b> \\n# head ``\n")
	assert.NotContains(t, string(text), "removed")
	assert.NotContains(t, string(text), "\n\n\n")
	assert.Contains(t, string(text), "\n### To resolve\n\n- ` machine-id `: `` ` <b>@someone</b> \\n# head ``: ` remove it `\n\n### Exceptions\n\n- ` logs `: ` kept `\n")
	assert.NotContains(t, regexp.MustCompile("(?s)(`+) .*? (`+)").ReplaceAllString(string(text), ""), "<b>")
}
