package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// block is a fenced block of a page.
type block struct {
	page     string
	language string
	text     string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// pages returns the tracked pages that users read.
func pages(t *testing.T) []string {
	t.Helper()
	names := slices.DeleteFunc(tracked(t), func(name string) bool {
		return path.Ext(name) != ".md" || strings.HasPrefix(name, "docs/generate/")
	})
	require.Contains(t, names, "README.md")
	return names
}

// blocks returns the pages' fenced blocks in any of these languages.
func blocks(t *testing.T, languages ...string) []block {
	t.Helper()
	var list []block
	for _, page := range pages(t) {
		for _, found := range fence.FindAllStringSubmatch(read(t, page), -1) {
			if slices.Contains(languages, found[1]) {
				list = append(list, block{page, found[1], found[2]})
			}
		}
	}
	return list
}

// Every block has a language that a check reads.
func TestBlocksHaveKnownLanguages(t *testing.T) {
	for _, page := range pages(t) {
		for _, found := range fence.FindAllStringSubmatch(read(t, page), -1) {
			assert.Contains(t, []string{"sh", "hcl", "text"}, found[1], "%s: unknown language of the block that begins with %q", page, strings.SplitN(found[2], "\n", 2)[0])
		}
	}
}

var (
	pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns GitHub's anchors of a page's headings.
func anchors(text string) []string {
	var list []string
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		name := notWord.ReplaceAllString(strings.ToLower(h[1]), "")
		list = append(list, strings.ReplaceAll(name, " ", "-"))
	}
	return list
}

func TestLinksHaveTargets(t *testing.T) {
	const own = "https://" + module + "/blob/main/"
	for _, page := range pages(t) {
		text := read(t, page)
		for _, found := range pageLink.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			switch {
			case strings.HasPrefix(file, own):
				file = strings.TrimPrefix(file, own)
			case strings.Contains(file, "://"):
				continue
			case file == "":
				file = page
			default:
				file = path.Join(path.Dir(page), file)
			}
			if !assert.True(t, exists(file), "%s: the link %s has no target", page, found[1]) || anchor == "" {
				continue
			}
			assert.Contains(t, anchors(read(t, file)), anchor, "%s: the page in the link %s has no such heading", page, found[1])
		}
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	assert.Equal(t, []string{"provisioner-eksnode", "phase-caches-and-logs"}, anchors("# Provisioner `eksnode`\ntext\n## Phase: caches and logs\n"))
}

// A newcomer finds every page from the index, and a README in every example.
func TestTheIndexListsEveryPage(t *testing.T) {
	for _, page := range pages(t) {
		for folder, index := range map[string]string{"docs": "docs/README.md", "docs/design": "docs/README.md", "examples": "examples/README.md"} {
			at := strings.TrimPrefix(page, path.Dir(index)+"/")
			if page != index && (path.Dir(page) == folder || folder == "examples" && path.Dir(path.Dir(page)) == folder) {
				assert.Contains(t, read(t, index), "]("+at+")", "%s does not list %s", index, page)
			}
		}
	}
	for _, name := range tracked(t) {
		if example, rest, _ := strings.Cut(strings.TrimPrefix(name, "examples/"), "/"); strings.HasPrefix(name, "examples/") && rest != "" {
			assert.True(t, exists("examples/"+example+"/README.md"), "examples/%s has no README", example)
		}
	}
}

// Every description on a page renders for each family that the page names, and
// passes the check without a warning.
func TestDescriptionsInPagesRenderForEveryFamilyOfThePage(t *testing.T) {
	rendered := map[string]int{}
	for _, b := range blocks(t, "text", "sh") {
		if !strings.HasPrefix(b.text, "cluster:\n") {
			continue
		}
		node, err := userdata.ParseNode([]byte(b.text))
		require.NoError(t, err, b.page)
		named := familiesNamed(read(t, b.page))
		for _, family := range named {
			for _, carried := range carriedBy(family, named) {
				text, err := userdata.Render(family.ID, carried, node)
				if assert.NoError(t, err, "%s: %s %s", b.page, family.ID, carried) {
					report, err := userdata.Check(text, family.ID)
					require.NoError(t, err)
					assert.Empty(t, report.Problems, "%s: %s %s", b.page, family.ID, carried)
					rendered[b.page]++
				}
			}
		}
	}
	assert.NotZero(t, rendered["docs/join.md"])
}

// familiesNamed returns the families in a page's table of families, or after
// --family and --carrying.
func familiesNamed(page string) []userdata.Family {
	var list []userdata.Family
	for _, f := range userdata.Families() {
		if regexp.MustCompile("(?m)^\\| `" + f.ID + "`|--(family|carrying) " + f.ID + `\b`).MatchString(page) {
			list = append(list, f)
		}
	}
	return list
}

// carriedBy returns the families whose user data a family carries, or "" for a family
// that carries none. eksctl takes no user data of Bottlerocket and Windows.
func carriedBy(family userdata.Family, named []userdata.Family) []string {
	if !family.Carries {
		return []string{""}
	}
	var list []string
	for _, f := range named {
		if !f.Carries && (family.ID != "eksctl" || f.ID != "bottlerocket" && f.ID != "windows") {
			list = append(list, f.ID)
		}
	}
	return list
}

// User data in the pages and the examples passes the check as it stands, without
// warnings but the one of the example for Karpenter. Of the pages, the blocks that the
// check recognizes are user data.
func TestUserDataInPagesAndExamplesPassesTheCheck(t *testing.T) {
	for _, b := range blocks(t, "text") {
		if report, err := userdata.CheckMerged([]byte(b.text), ""); err == nil {
			assert.Empty(t, report.Problems, "%s: %s", b.page, b.text)
		}
	}
	count := 0
	for _, name := range tracked(t) {
		// The consumers of these two make the user data.
		made := slices.Contains([]string{".md", ".tf"}, path.Ext(name)) || path.Base(name) == "cluster-api.yaml"
		if !strings.HasPrefix(name, "examples/consumers/") || made {
			continue
		}
		count++
		report, err := userdata.Check([]byte(userDataOf(t, read(t, name))), "")
		require.NoError(t, err, name)
		if name == "examples/consumers/karpenter.yaml" {
			require.Len(t, report.Problems, 1)
			assert.Equal(t, "20: warning: spec.userData: Karpenter merges it with its own unless amiFamily is Custom", report.Problems[0].String())
			continue
		}
		assert.Empty(t, report.Problems, name)
	}
	assert.NotZero(t, count)
}

var (
	substituted = regexp.MustCompile(`(?s)Fn::Base64: !Sub \|\n(.*?)\n\n`)
	parameter   = regexp.MustCompile(`(?m)^  (\w+):\n    Type: String\n    Default: "?(.*?)"?$`)
)

// userDataOf returns the user data of a CloudFormation template, with the defaults of
// its parameters. Other texts are user data themselves.
func userDataOf(t *testing.T, text string) string {
	t.Helper()
	found := substituted.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	script := regexp.MustCompile(`(?m)^ {12}`).ReplaceAllString(found[1], "")
	for _, p := range parameter.FindAllStringSubmatch(text, -1) {
		script = strings.ReplaceAll(script, "${"+p[1]+"}", p[2])
	}
	require.NotContains(t, script, "${")
	return script + "\n"
}
