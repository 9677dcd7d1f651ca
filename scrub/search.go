package scrub

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// pattern is a kind of secret, or of what belongs to one machine.
type pattern struct {
	kind string
	// hints are what a file has to hold one of, in small letters, to be searched
	// at all: looking for a word costs little, an expression much.
	hints []string
	re    func() *regexp.Regexp
	// public is in matches that documentation is full of.
	public string
	// in says which files are searched; nil is all.
	in func(name string) bool
	// digit says that a match without one is a word of a manual.
	digit bool
}

// expression compiles when it is first used: only an audit searches.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// notSearched are other rules' business, or full of public data that looks
// like secrets, such as packages' own test keys.
var notSearched = []string{
	"/etc/ssh/ssh_host_*", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/etc/kubernetes/pki",
	"/var/lib/containerd", "/var/lib/docker", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dnf",
	"/var/lib/pacman", "/var/lib/snapd", "/var/lib/flatpak", "/var/lib/swcatalog", "/var/lib/mlocate", "/var/lib/plocate",
	"/etc/ssl/certs", "/etc/pki/ca-trust", "/etc/ca-certificates", "/opt/cni/bin", "/usr/local/go",
}

// searchMost is how much of a file is searched: secrets stand in small files,
// and large ones are databases and programs.
const searchMost = 8 << 20

// search looks for patterns in every text file below the places. It says the
// file, the kind and the line, never the secret.
func search(ctx context.Context, h *host.Host, places []string, patterns []pattern) ([]plan.Action, error) {
	places = slices.Compact(slices.Sorted(slices.Values(places)))
	var actions []plan.Action
	var errs []error
	seen := map[string]bool{}
	for _, place := range places {
		err := walk(h, place, func(name string, st fs.FileInfo, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			switch {
			case isMissing(err):
				return nil
			case err != nil:
				errs = append(errs, err)
				return nil
			case kept(notSearched, name) && st.IsDir():
				return fs.SkipDir
			case kept(notSearched, name), !st.Mode().IsRegular(), st.Size() == 0, st.Size() > searchMost, seen[name]:
				return nil
			}
			seen[name] = true
			found, err := searchFile(h, name, patterns)
			actions = append(actions, found...)
			if err != nil {
				errs = append(errs, fmt.Errorf("searching %s: %w", name, err))
			}
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return actions, errors.Join(errs...)
}

func searchFile(h *host.Host, name string, patterns []pattern) ([]plan.Action, error) {
	in, err := h.Files.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	start := make([]byte, 8192)
	n, err := io.ReadFull(in, start)
	if bytes.IndexByte(start[:n], 0) >= 0 {
		return nil, nil // no text
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
	small := bytes.ToLower(text)
	var actions []plan.Action
	for _, p := range patterns {
		if p.in != nil && !p.in(name) || !p.hinted(small) {
			continue
		}
		if line := p.line(text); line > 0 {
			actions = append(actions, plan.Action{Verb: plan.Decide, Target: name, Reason: fmt.Sprintf("line %d holds %s", line, p.kind)})
		}
	}
	return actions, nil
}

func (p pattern) hinted(small []byte) bool {
	return len(p.hints) == 0 || slices.ContainsFunc(p.hints, func(hint string) bool { return bytes.Contains(small, []byte(hint)) })
}

// line is the first line that holds the pattern, or 0.
func (p pattern) line(text []byte) int {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, len(text)+1)
	for n := 1; s.Scan(); n++ {
		for _, m := range p.re().FindAll(s.Bytes(), -1) {
			if p.means(m) {
				return n
			}
		}
	}
	return 0
}

// means says whether a match is one, and not an example.
func (p pattern) means(match []byte) bool {
	return (p.public == "" || !bytes.Contains(match, []byte(p.public))) && (!p.digit || bytes.ContainsAny(match, "0123456789"))
}

// named says whether a file's own name is one of these; wildcards as in
// path.Match.
func named(patterns ...string) func(string) bool {
	return func(name string) bool { return kept(patterns, path.Base(name)) }
}

// below says whether a file lies below one of these folders.
func below(folders ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(name, f+"/") })
	}
}

func either(a, b func(string) bool) func(string) bool {
	return func(name string) bool { return a(name) || b(name) }
}
