package packages

import (
	"context"
	"fmt"
	"iter"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

const (
	dpkgStatus = "/var/lib/dpkg/status"
	dpkgInfo   = "/var/lib/dpkg/info"
)

// eachList calls do with each of dpkg's lists that have an ending, one per package.
func eachList(h *host.Host, ending string, do func(owner, name, text string) error) error {
	entries, err := afero.ReadDir(h.Files, dpkgInfo)
	if isMissing(err) {
		return nil
	}
	for _, e := range entries {
		owner, ok := strings.CutSuffix(e.Name(), ending)
		if !ok || err != nil {
			continue
		}
		var text string
		name := path.Join(dpkgInfo, e.Name())
		if text, err = content(h, name); err == nil {
			err = do(owner, name, text)
		}
	}
	return err
}

// dpkgFiles reads dpkg's lists of files, one per package. A list that is
// missing for an installed package is an error.
func dpkgFiles(l *lister) error {
	listed := map[string]bool{}
	err := eachList(l.h, ".list", func(owner, name, text string) error {
		listed[withoutArch(owner)] = true
		return dpkgList(l, owner, name, text)
	})
	if err != nil {
		return fmt.Errorf("reading dpkg's lists of files: %w", err)
	}
	return eachDpkg(l.h, func(p map[string]string) error {
		if isInstalled(p) && !listed[p["Package"]] {
			return fmt.Errorf("reading dpkg's lists of files: %q has no list in %s; install the package again",
				p["Package"],
				dpkgInfo)
		}
		return nil
	})
}

// withoutArch is the name of a package that can be installed for several architectures.
func withoutArch(owner string) string {
	name, _, _ := strings.Cut(owner, ":")
	return name
}

// eachDpkg calls do with the fields of each package in dpkg's status.
func eachDpkg(h *host.Host, do func(map[string]string) error) error {
	status, err := content(h, dpkgStatus)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading dpkg's status: %w", err)
	}
	for fields := range Paragraphs(status) {
		if err := do(fields); err != nil {
			return err
		}
	}
	return nil
}

// Paragraphs reads the fields of a file of deb-control(5)'s form. The lines of a field stay apart.
func Paragraphs(text string) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			fields, name := map[string]string{}, ""
			for line := range strings.Lines(paragraph) {
				if first, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
					name, line = first, value
				}
				fields[name] += strings.TrimSpace(line) + "\n"
			}
			for name, value := range fields {
				fields[name] = strings.TrimSpace(value)
			}
			if !yield(fields) {
				return
			}
		}
	}
}

func isInstalled(p map[string]string) bool { return strings.HasSuffix(p["Status"], " installed") }

func dpkgList(l *lister, owner, name, text string) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		file := strings.TrimSuffix(line, "\n")
		if !path.IsAbs(file) {
			return fmt.Errorf("%s:%d: %.80q is not an absolute path; install the package again", name, number, file)
		}
		if err := l.add(owner, file); err != nil {
			return err
		}
	}
	return nil
}

// diverted are dpkg's diversions: files of other packages than the one named
// are at another place.
type diverted map[string]struct{ to, but string }

// dpkgSums reads dpkg's lists of checksums, and those of configuration files in
// its status.
func dpkgSums(l *lister, all Originals) error {
	diverted, err := diversions(l.h)
	if err != nil {
		return fmt.Errorf("reading dpkg's diversions: %w", err)
	}
	err = eachList(l.h, ".md5sums", func(owner, _, text string) error {
		for line := range strings.Lines(text) {
			sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if !ok {
				continue
			}
			if err := all.add(l, owner, diverted.place(owner, path.Join("/", name)), sum, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading dpkg's checksums: %w", err)
	}
	return conffiles(l, diverted, all)
}

// conffiles reads the configuration files of dpkg's packages, also of removed
// ones.
func conffiles(l *lister, diverted diverted, all Originals) error {
	return eachDpkg(l.h, func(p map[string]string) error {
		for line := range strings.Lines(p["Conffiles"]) {
			fields := strings.Fields(line) // /etc/file sum, and perhaps "obsolete"
			if len(fields) < 2 || !path.IsAbs(fields[0]) {
				continue
			}
			if err := all.add(l, p["Package"], diverted.place(p["Package"], fields[0]), fields[1], true); err != nil {
				return err
			}
		}
		return nil
	})
}

// diversions reads dpkg's diversions, three lines each.
func diversions(h *host.Host) (diverted, error) {
	text, err := content(h, path.Join(path.Dir(dpkgStatus), "diversions"))
	if err != nil && !isMissing(err) {
		return nil, err
	}
	found, lines := diverted{}, strings.Split(text, "\n")
	for ; len(lines) >= 3; lines = lines[3:] {
		found[lines[0]] = struct{ to, but string }{lines[1], lines[2]}
	}
	return found, nil
}

func (d diverted) place(owner, name string) string {
	if to, ok := d[name]; ok && to.but != withoutArch(owner) {
		return to.to
	}
	return name
}

// sourceOf is a source package whose version is not that of its package.
var sourceOf = regexp.MustCompile(`^(\S+) \((\S+)\)$`)

// dpkgInstalled reads dpkg's status. The lists of files of a package that can be
// installed for several architectures have the architecture in their names.
func dpkgInstalled(_ context.Context, h *host.Host, all Installed) error {
	return eachDpkg(h, func(p map[string]string) error {
		name := p["Package"]
		if p["Multi-Arch"] == "same" {
			name += ":" + p["Architecture"]
		}
		if p["Package"] != "" && isInstalled(p) {
			all.add(name, Package{Name: name, Version: p["Version"],
				Source: sourceOf.ReplaceAllString(p["Source"], "$1@$2")})
		}
		return nil
	})
}
