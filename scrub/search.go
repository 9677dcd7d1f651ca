package scrub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// notSearched are paths that other rules cover, or that contain public data
// which looks like secrets, such as test keys of packages.
var notSearched = []string{
	"/etc/ssh/ssh_host_*", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/etc/kubernetes/pki",
	"/var/lib/containerd", "/var/lib/docker", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dnf",
	"/var/lib/pacman", "/var/lib/snapd", "/var/lib/flatpak", "/var/lib/swcatalog", "/var/lib/mlocate", "/var/lib/plocate",
	"/etc/ssl/certs", "/etc/pki/ca-trust", "/etc/ca-certificates", "/opt/cni/bin", "/usr/local/go",
}

// libraries are folders of libraries and documentation of programs, by the end
// of their paths. They are public and contain many test keys and examples.
var libraries = []string{
	"site-packages", "dist-packages", "lib/python[23].*", "lib64/python[23].*", "node_modules", "awscli", "google-cloud-sdk",
	"gems", "lib/ruby", "perl5", "share/perl", "go/pkg/mod", ".cargo/registry", "share/doc", "share/man", "share/info",
}

func isLibrary(folder string) bool {
	return slices.ContainsFunc(libraries, func(end string) bool {
		parts := strings.Split(folder, "/")
		n := min(len(parts), strings.Count(end, "/")+1)
		return kept([]string{end}, strings.Join(parts[len(parts)-n:], "/"))
	})
}

// searchMost is how many bytes of a file are searched: secrets are in small
// files, and large files are databases and programs.
const searchMost = 8 << 20

// search looks for patterns in every text file below the places that no other
// rule removes. A finding names the file, the kind and the line, never the
// secret.
func search(ctx context.Context, h *host.Host, taken taken, tops []string, patterns []pattern) ([]plan.Finding, error) {
	tops = slices.Compact(slices.Sorted(slices.Values(tops)))
	var findings []plan.Finding
	var errs []error
	seen, words := map[string]bool{}, newIndex(patterns)
	var foreign []*host.ForeignMount
	for _, top := range tops {
		mounts, err := h.Files.Walk(ctx, top, path.Dir(top), func(e host.Entry, err error) error {
			name := e.Path
			switch {
			case err != nil:
				errs = append(errs, err)
				return nil
			case e.IsDir() && (kept(notSearched, name) || isLibrary(name) || taken.has(name)):
				return fs.SkipDir
			case kept(notSearched, name), taken.has(name), !e.Mode().IsRegular(), e.Size() == 0, e.Size() > searchMost, seen[name]:
				return nil
			}
			seen[name] = true
			found, err := searchFile(e, words)
			findings = append(findings, found...)
			if err != nil {
				errs = append(errs, fmt.Errorf("searching %s: %w", name, err))
			}
			return nil
		})
		foreign = append(foreign, mounts...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool { return kept(notSearched, m.Path) || taken.has(m.Path) })
	return append(findings, foreignFindings(h, foreign)...), errors.Join(errs...)
}

func searchFile(e host.Entry, words *index) ([]plan.Finding, error) {
	var findings []plan.Finding
	for _, p := range words.patterns {
		if p.re == nil && p.in(e.Path) {
			findings = append(findings, plan.Finding{Target: e.Path, Reason: "the file is " + p.kind})
		}
	}
	in, err := e.Open()
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start := make([]byte, 8192)
	n, err := io.ReadFull(in, start)
	if bytes.IndexByte(start[:n], 0) >= 0 {
		return findings, nil // no text
	}
	text := start[:n]
	if err == nil {
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(in, searchMost))
		text = append(text, rest...)
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	small := lower(text)
	for _, p := range words.hinted(small) {
		if p.in != nil && !p.in(e.Path) {
			continue
		}
		if line := p.line(text, small); line > 0 {
			findings = append(findings, plan.Finding{Target: e.Path, Reason: fmt.Sprintf("line %d contains %s", line, p.kind)})
		}
	}
	return findings, nil
}
