package scrub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// notSearched are paths that other rules cover, that no image has, or that
// contain public data which looks like secrets, such as images of containers.
var notSearched = []string{
	"/proc", "/sys", "/dev", "/run", "/snap", "/var/lib/snapd",
	"/etc/ssh/ssh_host_*", "/var/lib/kubelet/pki", "/var/lib/kubelet/pods", "/etc/kubernetes/pki",
	"/var/lib/containerd", "/var/lib/docker", "/var/lib/containers", "/etc/eks/pause.tar",
	"/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm", "/var/lib/dnf", "/var/lib/pacman",
	"/var/lib/flatpak", "/var/lib/swcatalog", "/var/lib/mlocate", "/var/lib/plocate", "/usr/local/go",
}

// elsewhere are folders with mounts that an image of the machine's disk does not
// have.
var elsewhere = []string{"/mnt", "/media", "/snap", "/var/lib/snapd", "/run"}

// libraries are folders of libraries and documentation of programs, by the end
// of their paths. They are public and contain many test keys and examples.
var libraries = []string{
	"site-packages", "dist-packages", "lib/python[23].*", "lib64/python[23].*", "node_modules", "awscli", "google-cloud-sdk",
	"gems", "lib/ruby", "perl5", "share/perl", "go/pkg/mod", ".cargo/registry", "share/doc", "share/man", "share/info",
}

func isLibrary(folder string) bool {
	return slices.ContainsFunc(libraries, func(end string) bool {
		at := len(folder)
		for range strings.Count(end, "/") + 1 {
			at = max(strings.LastIndexByte(folder[:at], '/'), 0)
		}
		return kept([]string{end}, strings.TrimPrefix(folder[at:], "/"))
	})
}

// search is a search for patterns in every file below some places that no other
// rule removes.
type search struct {
	taken taken
	words *index
	// keys says that files of keys are findings.
	keys bool
	// known are the files of packages. What a package owns and has not changed is
	// not searched. nil searches all.
	known *originals
}

// opened is a file on its way to a worker.
type opened struct {
	entry host.Entry
	in    *os.File
}

// in searches below the folders. A finding names the file, the kind and the
// line, never the secret.
func (s search) in(ctx context.Context, h *host.Host, tops ...string) ([]plan.Finding, error) {
	var findings []plan.Finding
	var errs []error
	var lock sync.Mutex
	files := make(chan opened)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		workers.Go(func() {
			for o := range files {
				found, err := s.file(ctx, o)
				lock.Lock()
				findings = append(findings, found...)
				if err != nil {
					errs = append(errs, err)
				}
				lock.Unlock()
			}
		})
	}
	foreign, err := s.walk(ctx, h, tops, files)
	close(files)
	workers.Wait()
	slices.SortStableFunc(findings, func(a, b plan.Finding) int { return cmp.Compare(a.Target, b.Target) })
	return append(findings, foreignFindings(h, foreign)...), errors.Join(append(errs, err)...)
}

// walk sends the files below the folders to the workers.
func (s search) walk(ctx context.Context, h *host.Host, tops []string, files chan<- opened) ([]*host.ForeignMount, error) {
	var foreign []*host.ForeignMount
	var errs []error
	for _, top := range tops {
		mounts, err := h.Files.Walk(ctx, top, path.Dir(top), func(e host.Entry, err error) error {
			name := e.Path
			switch {
			case err != nil:
				errs = append(errs, err)
				return nil
			case e.IsDir() && (kept(notSearched, name) || s.library(name) || s.taken.inWalk(top, name)):
				return fs.SkipDir
			case kept(notSearched, name), s.taken.inWalk(top, name), !e.Mode().IsRegular(), e.Size() == 0:
				return nil
			}
			in, err := e.Open()
			if err != nil {
				if !isMissing(err) {
					errs = append(errs, fmt.Errorf("searching %s: %w", name, err))
				}
				return nil
			}
			files <- opened{e, in}
			return nil
		})
		foreign, errs = append(foreign, mounts...), append(errs, err)
	}
	foreign = slices.DeleteFunc(foreign, func(m *host.ForeignMount) bool {
		return kept(notSearched, m.Path) || s.taken.has(m.Path) ||
			slices.ContainsFunc(elsewhere, func(folder string) bool { return within(folder, m.Path) })
	})
	return foreign, errors.Join(errs...)
}

// library reports whether a folder has public files. Where checksums of packages
// show which files are public, the others are searched. The folders of compiled
// Python modules have what follows from the modules.
func (s search) library(folder string) bool {
	if system(folder) && path.Base(folder) == "__pycache__" {
		return true
	}
	return isLibrary(folder) && !(system(folder) && s.known.covers(folder))
}

// system reports whether a file is one of the distribution. Without a database
// of packages, /usr is an image of its own, as on Flatcar.
func system(name string) bool { return within("/usr", name) && !within("/usr/local", name) }

// file searches a file, unless it is a package's own.
func (s search) file(ctx context.Context, o opened) ([]plan.Finding, error) {
	defer o.in.Close()
	name := o.entry.Path
	unchanged, err := s.known.unchanged(ctx, name, o.in)
	if err != nil || unchanged {
		return nil, wrapSearch(name, err)
	}
	var findings []plan.Finding
	found := func(text string) {
		if f := (plan.Finding{Target: name, Reason: text}); !slices.Contains(findings, f) {
			findings = append(findings, f)
		}
	}
	for _, p := range s.words.patterns {
		if p.re == nil && p.in(name) {
			found("the file is " + p.kind)
		}
	}
	// Programs of the distribution contain keys for tests.
	if system(name) && len(s.known.of(name)) == 0 && isProgram(o.in) {
		return nil, nil
	}
	c := content{ctx: ctx, words: s.words, most: searchMost, left: expandMost, keys: s.keys, special: !s.known.any() && system(name), found: found}
	return findings, wrapSearch(name, c.file(name, o.in, o.entry.Size()))
}

func wrapSearch(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("searching %s: %w", name, err)
}
