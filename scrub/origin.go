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

// originRules holds the row of the Packer host's own files.
func originRules() []Rule {
	return []Rule{
		{
			ID: "build-paths", Phase: Inspect, Groups: []string{"assets", "identity"}, Verb: Report,
			Paths: []string{manifest.Path, manifest.SBOMPath}, Owner: "eksnode",
			Why:         "a manifest or a bill of materials that names files of the Packer host tells every user of the image who built the image, and where; and nobody else finds anything there",
			Regenerated: "provisioning again", Source: "the image's own manifest",
			Find: buildPaths,
		},
	}
}

// localPlace is the address or the path of a file on one computer: file://, /,
// ~/ or a Windows drive.
var localPlace = expression(`(?i)^(file:|/|~|[a-z]:[\\/])`)

// localAddress is a file:// anywhere in a text, also with percent encoding.
var localAddress = expression(`(?i)file(:|%3a)(/|%2f){2}`)

// buildPaths reports where the image says of itself that parts came from a
// folder of the computer that built the image.
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

// linesWith counts the lines of a text that an expression matches.
func linesWith(e *regexp.Regexp, text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		if e.Match(line) {
			n++
		}
	}
	return n
}
