// Package release tests what .goreleaser.yml builds: make release-check.
package release
