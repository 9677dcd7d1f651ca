package rules

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// loaded is the image's manifest; nil if it has none.
func loaded(d *rule.Draft) *manifest.Manifest {
	m, err := manifest.Load(d.Host)
	d.Failed(err)
	return m
}

// localPlace matches an address or a path of a file on one computer: file://,
// /, ~/ or a Windows drive.
var localPlace = rule.Expression(`(?i)^(file:|/|~|[a-z]:[\\/])`)

// localAddress matches lines with file://, also with percent encoding.
var localAddress = rule.Expression(`(?im)^.*file(:|%3a)(/|%2f){2}`)

// buildPaths reports where the manifest or the bill of materials names a folder
// of the computer that built the image.
func buildPaths(d *rule.Draft) {
	found := func(file, what string) {
		d.Find(file, what+" names a file of the computer that built the image: provision again")
	}
	if m := loaded(d); m != nil {
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
	if addresses := len(localAddress().FindAll(d.Content(manifest.SBOMPath), -1)); addresses > 0 {
		found(manifest.SBOMPath, fmt.Sprintf("the bill of materials in %d lines", addresses))
	}
}
