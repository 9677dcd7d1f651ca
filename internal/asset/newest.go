package asset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// NewestPatch returns the newest release of a minor version of Kubernetes, such as 1.36.3
// for 1.36. source is a mirror or a folder; empty means the publisher.
func (f *Fetcher) NewestPatch(ctx context.Context, minor, origin, source string) (string, error) {
	finding := func(err error) error {
		return surface.Errorf("finding the newest Kubernetes %s: %w; name a complete version with %s", minor, err, surface.Name("kubernetes_version"))
	}
	kubelet := Table()[0]
	release, published := kubelet.from(origin)
	var names []string
	if source == "" && published == Upstream {
		text, err := f.text(ctx, "https://dl.k8s.io/release/stable-"+minor+".txt")
		if err != nil {
			return "", finding(err)
		}
		names = []string{strings.TrimPrefix(strings.TrimSpace(text), "v")}
	} else {
		folders, err := versionFolders(release.URL, strings.NewReplacer("{kubernetes}", minor, "{version}", minor), source, published)
		if err == nil {
			names, err = f.names(ctx, folders[0])
		}
		if err != nil {
			return "", finding(err)
		}
	}
	newest := ""
	for _, name := range names { // the newest last
		if nameForm.MatchString(name) && strings.HasPrefix(name, minor+".") && !strings.Contains(name, "-") {
			newest = name
		}
	}
	if newest == "" {
		return "", finding(errors.New("there is no release of it"))
	}
	return newest, nil
}

// IsNewer reports whether version a is newer than b.
func IsNewer(a, b string) bool { return compareVersions(a, b) > 0 }

// Notes is the page about the changes of a version; empty if there is none.
func (a Asset) Notes(version string) string {
	switch {
	case a.Version == "":
		minor := version[:strings.LastIndexByte(version, '.')]
		return fmt.Sprintf("https://github.com/kubernetes/kubernetes/blob/master/CHANGELOG/CHANGELOG-%s.md#v%s", minor, strings.ReplaceAll(version, ".", ""))
	case strings.HasPrefix(a.Catalog, "https://github.com/"):
		return a.Catalog + "/tag/v" + version
	}
	return a.Catalog
}
