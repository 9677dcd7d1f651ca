package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
