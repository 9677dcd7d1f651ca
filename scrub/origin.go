package scrub

import (
	"bytes"
	"context"
	"fmt"
	"regexp"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// originRules has the rule for paths of the Packer host.
func originRules() []Rule {
	return []Rule{
		{
			ID: "build-paths", Phase: Inspect, Groups: []string{"assets", "identity"}, Verb: Report,
			Paths: []string{manifest.Path, manifest.SBOMPath}, Owner: "eksnode",
			Why:         "paths of the Packer host in the manifest or the bill of materials show who built the image and where, and exist on no node",
			Regenerated: "provisioning the image again", Source: "the image's own manifest",
			Find: buildPaths,
		},
	}
}

// localPlace matches an address or a path of a file on one computer: file://,
// /, ~/ or a Windows drive.
var localPlace = expression(`(?i)^(file:|/|~|[a-z]:[\\/])`)

// localAddress matches file:// anywhere in a text, also with percent encoding.
var localAddress = expression(`(?i)file(:|%3a)(/|%2f){2}`)

// buildPaths reports where the manifest or the bill of materials names a folder
// of the computer that built the image.
func buildPaths(_ context.Context, h *host.Host) (plan.Answer, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	found := func(file, what string) {
		answer.Find(file, what+" names a file of the computer that built the image: provision again")
	}
	if m != nil {
		for _, a := range m.Assets {
			if localPlace().MatchString(a.URL) {
				found(manifest.Path, fmt.Sprintf("the address of %s", a.ID))
			}
		}
		for _, i := range m.Images {
			if localPlace().MatchString(i.Source) {
				found(manifest.Path, fmt.Sprintf("the source of the image %s", i.Name))
			}
		}
	}
	bill, err := h.Content(manifest.SBOMPath)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("reading the bill of materials: %w", err)
	}
	if addresses := linesWith(localAddress(), bill); addresses > 0 {
		found(manifest.SBOMPath, fmt.Sprintf("the bill of materials in %d lines", addresses))
	}
	return answer, nil
}

// linesWith counts the lines of a text that match an expression.
func linesWith(e *regexp.Regexp, text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if e.Match(line) {
			n++
		}
	}
	return n
}
