// Package version contains the version of eksnode. Releases set it when linking.
package version

import (
	"strconv"
	"strings"
)

var (
	// Version is the release, set by -ldflags "-X …/internal/version.Version=…".
	Version = "0.1.0"
	// VersionPrerelease is "dev" between releases and empty in a release: Packer's
	// installer accepts no other marker.
	VersionPrerelease = "dev"
	// VersionMetadata is build metadata, usually empty.
	VersionMetadata = ""
)

// String is the version for commands and reports, such as "0.1.0-dev".
func String() string {
	s := Version
	if VersionPrerelease != "" {
		s += "-" + VersionPrerelease
	}
	if VersionMetadata != "" {
		s += "+" + VersionMetadata
	}
	return s
}

// Minor returns 36 for the version 1.36 or 1.36.3 of Kubernetes, and 0 and false for a text
// that is no version of Kubernetes 1.
func Minor(kubernetes string) (int, bool) {
	major, rest, _ := strings.Cut(kubernetes, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(minor); err == nil && major == "1" {
		return n, true
	}
	return 0, false
}

// Repository is the project's address.
const Repository = "https://github.com/eksnode/packer-plugin-eksnode"

// Page is the address of a file in the folder docs, as of this version: a release
// links to its own pages, a build between releases to those of the branch main.
func Page(name string) string {
	from := "main"
	if VersionPrerelease == "" {
		from = "v" + Version
	}
	return Repository + "/blob/" + from + "/docs/" + name
}
