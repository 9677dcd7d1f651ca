package main

import (
	"path"
	"regexp"
	"strings"
)

// published is where a page's relative links lead once it stands elsewhere.
const published = "https://github.com/eksnode/packer-plugin-eksnode/blob/main/"

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// absolute makes a page of docs readable outside the repository: its relative
// links become addresses.
func absolute(text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		to := link.FindStringSubmatch(found)[1]
		if strings.Contains(to, "://") || strings.HasPrefix(to, "#") {
			return found
		}
		file, anchor, has := strings.Cut(to, "#")
		if has {
			anchor = "#" + anchor
		}
		return "](" + published + path.Join("docs", file) + anchor + ")"
	})
}
