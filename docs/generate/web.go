package main

import (
	"path"
	"regexp"
	"strings"
)

// repository is the address of the pages outside the repository.
const repository = "https://github.com/eksnode/packer-plugin-eksnode/blob/main/"

// components is the folder of the components' pages.
const components = "docs/reference/components/"

// webPages are the pages of Packer's registry, and the page that each one copies.
var webPages = map[string]string{
	".web-docs/README.md":                                   components + "README.md",
	".web-docs/components/provisioner/eksnode/README.md":    components + "provisioner-eksnode.md",
	".web-docs/components/provisioner/scrub/README.md":      components + "provisioner-eksnode-scrub.md",
	".web-docs/components/data-source/cluster/README.md":    components + "data-source-cluster.md",
	".web-docs/components/data-source/base-ami/README.md":   components + "data-source-base-ami.md",
	".web-docs/components/data-source/contents/README.md":   components + "data-source-contents.md",
	".web-docs/components/post-processor/ami/README.md":     components + "post-processor-ami.md",
	".web-docs/components/post-processor/publish/README.md": components + "post-processor-publish.md",
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// absolute replaces the relative links of a page with addresses.
func absolute(page, text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		to := link.FindStringSubmatch(found)[1]
		if strings.Contains(to, "://") || strings.HasPrefix(to, "#") {
			return found
		}
		file, anchor, has := strings.Cut(to, "#")
		if has {
			anchor = "#" + anchor
		}
		return "](" + repository + path.Join(path.Dir(page), file) + anchor + ")"
	})
}

// anchor is the name that GitHub gives to a heading in links.
func anchor(heading string) string {
	return strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
