package distros

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// aKernel is the placeholder in Kernels for the name of a kernel's package.
const aKernel = "{kernel}"

// Kernels are a package manager's packages of kernels.
type Kernels struct {
	// Offered prints the names that repositories have, among other words; Choice matches
	// the names that a person would choose. Empty if kernels cannot be chosen.
	Offered []string
	Choice  string
	// Installed prints the packages of all installed kernels, one on each line; the first
	// group of Form is such a package.
	Installed []string
	Form      string
	// Kept prints the packages, or the end of their names, that belong to one kernel.
	Kept []string
	// Flavour has a kernel's flavour as the first group; Headers are the headers of one.
	Flavour, Headers string
}

// Named fills the placeholders of packages in for a kernel.
func (k Kernels) Named(packages []string, kernel string) []string {
	flavour := kernel
	if found := regexp.MustCompile(k.Flavour).FindStringSubmatch(kernel); len(found) > 1 {
		flavour = found[1]
	}
	return fill(fill(packages, aHeaders, k.Headers), aFlavour, flavour)
}

// Choices returns the kernels that the machine's repositories have.
func (k Kernels) Choices(ctx context.Context, h *host.Host) ([]string, error) {
	out, err := h.Run(ctx, host.Command{Argv: k.Offered, Env: []string{"LC_ALL=C"}})
	form := regexp.MustCompile(`^(?:` + k.Choice + `)$`)
	names := slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return !form.MatchString(name) })
	slices.Sort(names)
	return slices.Compact(names), err
}

// Others returns the installed packages of kernels that do not belong to one kernel.
func (k Kernels) Others(ctx context.Context, h *host.Host, kernel string) ([]string, error) {
	var said [2]string
	for i, argv := range [][]string{k.Installed, k.Kept} {
		out, err := h.Run(ctx, host.Command{Argv: fill(argv, aKernel, kernel), Env: []string{"LC_ALL=C"}})
		if err != nil {
			return nil, fmt.Errorf("listing the kernels: %w", err)
		}
		said[i] = string(out)
	}
	kept := strings.Fields(said[1])
	var others []string
	for _, found := range regexp.MustCompile(k.Form).FindAllStringSubmatch(said[0], -1) {
		belongs := func(end string) bool {
			return found[1] == end || strings.HasPrefix(end, "-") && strings.HasSuffix(found[1], end)
		}
		if !slices.ContainsFunc(kept, belongs) {
			others = append(others, found[1])
		}
	}
	slices.Sort(others)
	return others, nil
}

// debKernels: a kernel such as linux-image-cloud-amd64 depends on the package with the
// kernel's version in its name. Packages of more modules, such as those of Ubuntu's
// linux-modules-nvidia-580-aws, have that version too.
func debKernels() Kernels {
	return Kernels{
		Offered: []string{"apt-cache", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "pkgnames",
			"linux-"},
		Choice: `linux-image-(?:[a-z]+-)?(?:amd64|arm64)|` +
			`linux-(?:image-)?(?:aws|azure|gcp|generic|virtual|kvm|lowlatency)(?:-(?:fips|hwe|lts|[0-9.]+|edge))*`,
		Installed: []string{"dpkg-query", "--show", `--showformat=${db:Status-Status} ${Package}\n`},
		Form:      `(?m)^installed (linux-(?:image-\S+|modules-(?:\S+-)?[0-9]+\.[0-9]\S*))$`,
		Kept: []string{"sh", "-c", `apt-cache -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= depends --recurse ` +
			`--installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$0" | ` +
			`sed -E 'p; s/.*linux-image(-unsigned)?(-[0-9])/\2/'`, aKernel},
		Flavour: `^linux-(?:image-)?(.+)$`, Headers: "linux-headers-" + aFlavour,
	}
}

// rpmKernels: the packages of one kernel have its version; of several versions, the one
// that was installed last is the newest.
func rpmKernels(offered ...string) Kernels {
	const form = `%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}\n`
	return Kernels{
		Offered: offered,
		Choice: `kernel([0-9.]+|-(core|default|default-base|rt|rt-core|azure|64k|64k-core|` +
			`lt|ml|lts|longterm|longterm-core|uek|uek-core|uek64k))?`,
		Installed: []string{"rpm", "--query", "--all", "--queryformat=" + form, "kernel*"},
		Form: `(?m)^(kernel(?:[0-9.]+)?(?:-(?:default|default-base|rt|azure|64k|lt|ml|lts|longterm|uek|uek64k))?` +
			`(?:-core|-modules(?:-core|-extra)?)?-[0-9][^-\n]*-[^-\n]+)$`,
		Kept: []string{"sh", "-c",
			`rpm --query --queryformat='%{INSTALLTIME} -%{VERSION}-%{RELEASE}.%{ARCH}\n' "$0" | sort -n | tail -n 1`,
			aKernel},
		Flavour: `^(.+?)(?:-core|-base)?$`, Headers: aFlavour + "-devel",
	}
}

// pacmanKernels: Arch Linux has one version of each kernel.
func pacmanKernels() Kernels {
	const names = `linux(?:-(?:lts|zen|hardened|rt|rt-lts))?`
	return Kernels{
		Offered: []string{"pacman", "--sync", "--search", "--quiet", "^linux"}, Choice: names,
		Installed: []string{"pacman", "--query", "--quiet"}, Form: `(?m)^(` + names + `)$`,
		Kept: []string{"echo", aKernel}, Flavour: `^(.+)$`, Headers: aFlavour + "-headers",
	}
}
