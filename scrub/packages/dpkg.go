package packages

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

const (
	dpkgStatus = "/var/lib/dpkg/status"
	dpkgInfo   = "/var/lib/dpkg/info"
)

// dpkgFiles reads dpkg's lists of files, one per package. A list that is
// missing for an installed package is an error.
func dpkgFiles(l *lister) error {
	entries, err := afero.ReadDir(l.h.Files, dpkgInfo)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("reading dpkg's lists of files: %w", err)
	}
	listed := map[string]bool{}
	for _, e := range entries {
		owner, ok := strings.CutSuffix(e.Name(), ".list")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(owner, ":")
		listed[name] = true
		if err := dpkgList(l, owner, path.Join(dpkgInfo, e.Name())); err != nil {
			return err
		}
	}
	status, err := content(l.h, dpkgStatus)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the installed packages: %w", err)
	}
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		name, installed := "", false
		for line := range strings.Lines(paragraph) {
			if v, ok := strings.CutPrefix(line, "Package:"); ok {
				name = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "Status:"); ok {
				installed = strings.HasSuffix(strings.TrimSpace(v), " installed")
			}
		}
		if installed && !listed[name] {
			return fmt.Errorf("reading dpkg's lists of files: %q has no list in %s; install the package again", name, dpkgInfo)
		}
	}
	return nil
}

func dpkgList(l *lister, owner, name string) error {
	text, err := content(l.h, name)
	if err != nil {
		return fmt.Errorf("reading dpkg's lists of files: %w", err)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		file := strings.TrimSuffix(line, "\n")
		if !path.IsAbs(file) {
			return fmt.Errorf("reading dpkg's lists of files: %s:%d: %.80q is not an absolute path; install the package again", name, number, file)
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
	entries, err := afero.ReadDir(l.h.Files, dpkgInfo)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("reading dpkg's checksums: %w", err)
	}
	diverted, err := diversions(l.h)
	if err != nil {
		return fmt.Errorf("reading dpkg's diversions: %w", err)
	}
	for _, e := range entries {
		owner, ok := strings.CutSuffix(e.Name(), ".md5sums")
		if !ok {
			continue
		}
		text, err := content(l.h, path.Join(dpkgInfo, e.Name()))
		if err != nil {
			return fmt.Errorf("reading dpkg's checksums: %w", err)
		}
		for line := range strings.Lines(text) {
			sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if !ok {
				continue
			}
			if err := all.add(l, owner, diverted.place(owner, path.Join("/", name)), sum, false); err != nil {
				return err
			}
		}
	}
	return conffiles(l, diverted, all)
}

// conffiles reads the configuration files of dpkg's packages, also of removed
// ones.
func conffiles(l *lister, diverted diverted, all Originals) error {
	status, err := content(l.h, dpkgStatus)
	if err != nil {
		if isMissing(err) {
			return nil
		}
		return fmt.Errorf("reading dpkg's configuration files: %w", err)
	}
	owner, listed := "", false
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "Package:"); ok {
			owner = strings.TrimSpace(v)
		}
		if !strings.HasPrefix(line, " ") {
			listed = strings.HasPrefix(line, "Conffiles:")
			continue
		}
		fields := strings.Fields(line) // /etc/file sum, and perhaps "obsolete"
		if !listed || len(fields) < 2 || !path.IsAbs(fields[0]) {
			continue
		}
		if err := all.add(l, owner, diverted.place(owner, fields[0]), fields[1], true); err != nil {
			return err
		}
	}
	return nil
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
	owner, _, _ = strings.Cut(owner, ":")
	if to, ok := d[name]; ok && to.but != owner {
		return to.to
	}
	return name
}

// dpkgInstalled reads dpkg's status. The lists of files of a package that can be
// installed for several architectures have the architecture in their names.
func dpkgInstalled(_ context.Context, h *host.Host, all Installed) error {
	status, err := content(h, dpkgStatus)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		field := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				field[name] = strings.TrimSpace(value)
			}
		}
		if field["Package"] == "" || !strings.HasSuffix(field["Status"], " installed") {
			continue
		}
		name := field["Package"]
		if field["Multi-Arch"] == "same" {
			name += ":" + field["Architecture"]
		}
		all.add(name, name, field["Version"])
	}
	return nil
}
