// Package release tests the files that .goreleaser.yml builds. Run it with make
// release-check.
package release
