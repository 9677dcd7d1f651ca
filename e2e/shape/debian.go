package shape

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// pkg is a Debian package, under the distribution's name.
type pkg struct {
	name, version, summary string
	// debian is Debian's name.
	debian string
	// depends and provides are names without versions.
	depends  [][]string // alternatives
	provides []string
	// folder has the files of an offered package; the tree has those of an
	// installed one.
	folder string
	// control has an offered package's control files.
	control string
	files   []string // absolute; only of what is there
	size    int64    // bytes of an offered package's files
}

func names(all []pkg) []string {
	return show.Each(all, func(p pkg) string { return p.debian })
}

// fields reads a paragraph of Debian's control files.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			all[key] = strings.TrimSpace(value)
		}
	}
	return all
}

func described(control map[string]string) pkg {
	// An epoch or a tilde means nothing to the other managers, or something else.
	_, version, epoch := strings.Cut(control["Version"], ":")
	if !epoch {
		version = control["Version"]
	}
	version = strings.Join(strings.FieldsFunc(version, func(r rune) bool { return strings.ContainsRune("~-+.", r) }), ".")
	p := pkg{name: control["Package"], debian: control["Package"], version: version, summary: control["Description"]}
	for _, field := range []string{"Pre-Depends", "Depends"} {
		p.depends = append(p.depends, relations(control[field])...)
	}
	for _, group := range relations(control["Provides"]) {
		p.provides = append(p.provides, group...)
	}
	return p
}

// relations reads "a (>= 1), b:any | c" as names.
func relations(text string) [][]string {
	var all [][]string
	for group := range strings.SplitSeq(text, ",") {
		var names []string
		for one := range strings.SplitSeq(group, "|") {
			name, _, _ := strings.Cut(strings.TrimSpace(one), " ")
			name, _, _ = strings.Cut(name, ":")
			if name != "" {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			all = append(all, names)
		}
	}
	return all
}

func installedPackages(root string) ([]pkg, error) {
	text, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		return nil, fmt.Errorf("reading the installed packages: %w", err)
	}
	var all []pkg
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		control := fields(paragraph)
		if control["Package"] == "" || !strings.HasSuffix(control["Status"], " installed") {
			continue
		}
		p := described(control)
		for _, suffix := range []string{"", ":" + control["Architecture"]} {
			list, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/info", p.debian+suffix+".list"))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading the files of %s: %w", p.debian, err)
			}
			p.files = strings.Fields(string(list))
		}
		all = append(all, p)
	}
	return all, nil
}

// offeredFolder has the unpacked packages while the tree is made.
const offeredFolder = "offered"

const controlFolder = "control"

// unpackOffered unpacks what was downloaded, but for the packages that are left
// out.
func unpackOffered(ctx context.Context, root, folder string, without []string) ([]pkg, error) {
	archives, err := filepath.Glob(filepath.Join(root, base.OfferedFolder, "*.deb"))
	if err != nil {
		return nil, fmt.Errorf("listing the downloaded packages: %w", err)
	}
	var all []pkg
	for _, archive := range archives {
		out, err := exec.CommandContext(ctx, "dpkg-deb", "-f", archive).Output()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", filepath.Base(archive), err)
		}
		p := described(fields(string(out)))
		if slices.Contains(without, p.debian) {
			continue
		}
		p.folder = filepath.Join(folder, offeredFolder, p.debian)
		p.control = filepath.Join(folder, controlFolder, p.debian)
		for option, dir := range map[string]string{"-x": p.folder, "-e": p.control} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, fmt.Errorf("unpacking %s: %w", p.debian, err)
			}
			if err := command(ctx, "dpkg-deb", option, archive, dir); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// listed are the files of an unpacked package, folders with a slash, and their
// size in bytes.
func listed(folder string) (all []string, size int64, err error) {
	err = filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == folder {
			return err
		}
		name = strings.TrimPrefix(name, folder)
		if e.IsDir() {
			name += "/"
		}
		all = append(all, name)
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("listing %s: %w", folder, err)
	}
	return all, size, nil
}

// renamed gives packages the distribution's names. Of a tree's, only files that
// are there still stay listed.
func (s Shape) renamed(root string, all []pkg) []pkg {
	for i, p := range all {
		if name, ok := s.Names[p.debian]; ok {
			all[i].name = name
		}
		if root == "" {
			continue
		}
		var files []string
		for _, name := range p.files {
			if s.OneBin {
				name = strings.Replace(name, "/usr/sbin/", "/usr/bin/", 1)
			}
			for _, merged := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
				if strings.HasPrefix(name, merged) {
					name = "/usr" + name
				}
			}
			if s.OneBin {
				name = strings.Replace(name, "/usr/sbin/", "/usr/bin/", 1)
			}
			if unit, ok := s.Units[path.Base(name)]; ok && strings.Contains(name, "/systemd/system/") {
				name = path.Join(path.Dir(name), unit)
			}
			info, err := os.Lstat(filepath.Join(root, name))
			if err != nil || name == "/." || strings.HasPrefix(name, "/var/lib/dpkg") {
				continue
			}
			if info.IsDir() {
				name += "/"
			}
			files = append(files, name)
		}
		slices.Sort(files)
		all[i].files = slices.Compact(files)
	}
	return all
}
