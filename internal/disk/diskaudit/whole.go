package diskaudit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp"
	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Whole returns a manifest with every package and container image of a machine. The
// downloads are those of the machine's own manifest.
func Whole(ctx context.Context, h *host.Host) (*manifest.Manifest, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = &manifest.Manifest{}
	}
	installed, err := packages.ReadInstalled(ctx, h)
	if err != nil {
		return nil, err
	}
	m.Packages, m.Images = nil, nil
	for _, owner := range slices.Sorted(maps.Keys(installed)) {
		p := installed[owner]
		one := manifest.Package{Name: p.Name, Source: p.Source}
		if one.Licenses, one.UnknownLicenses, err = licenses(h, p); err != nil {
			return nil, err
		}
		for _, one.Version = range p.Versions() {
			m.Packages = append(m.Packages, one)
		}
	}
	if m.Kernels, err = kernels(h); err != nil {
		return nil, err
	}
	images, err := containerd.Images(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		m.Images = append(m.Images, manifest.Image{Name: i.Name, Digest: i.Digest})
	}
	manager := "dnf"
	for path, name := range map[string]string{"/var/lib/dpkg/status": "apt", "/var/lib/pacman/local": "pacman"} {
		there, err := h.Exists(path)
		if err != nil {
			return nil, err
		}
		if there {
			manager = name
		}
	}
	m.PackageManager = cmp.Or(m.PackageManager, manager)
	return m, nil
}

// kernels are the folders of kernel modules.
func kernels(h *host.Host) ([]string, error) {
	for _, folder := range []string{"/usr/lib/modules", "/lib/modules"} {
		list, err := afero.ReadDir(h.Files, folder)
		if err == nil {
			return show.Each(list, fs.FileInfo.Name), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing the kernel modules: %w", err)
		}
	}
	return nil, nil
}

// copyrightLicense is the short name of a license in a file of Debian's form
// (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/).
var copyrightLicense = regexp.MustCompile(`(?m)^License:[ \t]*(\S.*)$`)

// debianNames turn Debian's short names into those of SPDX.
var debianNames = []struct {
	name *regexp.Regexp
	spdx string
}{
	{regexp.MustCompile(`^((?:[AL]?GPL|GFDL)-\d)(\+?)$`), "${1}.0${2}"},
	{regexp.MustCompile(`^((?:[AL]?GPL|GFDL)-\d\.\d)\+$`), "${1}-or-later"},
	{regexp.MustCompile(`^((?:[AL]?GPL|GFDL)-\d\.\d)$`), "${1}-only"},
	{regexp.MustCompile(`^Expat$`), "MIT"},
	{regexp.MustCompile(`^or$`), "OR"},
	{regexp.MustCompile(`^and$`), "AND"},
}

// licenses returns the licenses of a package: expressions of SPDX, and other names. dpkg
// has none in its database, so they come from the package's copyright file.
func licenses(h *host.Host, p packages.Package) (known, unknown []string, err error) {
	names := []string{p.License}
	if p.License == "" {
		name, _, _ := strings.Cut(p.Name, ":")
		text, err := h.Content(path.Join("/usr/share/doc", name, "copyright"))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the licenses of the package %s: %w", name, err)
		}
		names = nil
		if bytes.Contains(text, []byte("/copyright-format/")) {
			for _, found := range copyrightLicense.FindAllSubmatch(text, -1) {
				names = append(names, strings.Join(strings.Fields(string(found[1])), " "))
			}
		}
	}
	slices.Sort(names)
	for _, one := range slices.Compact(names) {
		words := strings.Fields(one)
		for n := range words {
			for _, d := range debianNames {
				words[n] = d.name.ReplaceAllString(words[n], d.spdx)
			}
		}
		ok, _ := spdxexp.ValidateAndNormalizeLicensesWithOptions([]string{strings.Join(words, " ")},
			spdxexp.ValidateLicensesOptions{})
		known = append(known, ok...)
		if len(ok) == 0 {
			unknown = append(unknown, one)
		}
	}
	slices.Sort(known)
	return slices.Compact(known), unknown, nil
}
