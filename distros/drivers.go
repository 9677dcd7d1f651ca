package distros

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Placeholders in the names of packages.
const (
	aLine    = "{line}"    // the number of a driver's line, such as 580
	aFlavour = "{flavour}" // what distinguishes a kernel: aws of linux-aws
	aHeaders = "{headers}" // the headers of a kernel
	aModules = "{modules}" // in Driver, the package of the modules
	aStream  = "{stream}"  // a module of dnf
)

// How dnf keeps to a line of NVIDIA's driver.
const (
	nvidiaStream = "dnf --assumeyes module enable nvidia-driver:" + aStream
	nvidiaLock   = "dnf --assumeyes versionlock add '*nvidia*" + aLine + "*'"
)

// Driver is the driver of NVIDIA's GPUs: packages, whose names may have placeholders, of
// the distribution's repositories or of NVIDIA's.
type Driver struct {
	// Open and Closed are the packages with open and with proprietary modules, that of the
	// modules first. Empty if there are none.
	Open, Closed []string
	// Offered prints what the repositories have, and the first group of Form is a line.
	Offered []string
	Form    string
	// First is a package, and Choose a command, by which the package manager keeps to the
	// line; empty where the names of packages do.
	First, Choose []string
}

// Packages returns the packages for one line and one kernel.
func (d Driver) Packages(open bool, line, kernel string, pm PackageManager) []string {
	list := d.Closed
	if open {
		list = d.Open
	}
	return pm.Kernels().Named(fill(list, aLine, line), kernel)
}

// Keep makes the package manager keep to a line.
func (d Driver) Keep(ctx context.Context, h *host.Host, open bool, line string, pm PackageManager) error {
	if first := fill(d.First, aLine, line); len(first) > 0 {
		if err := pm.Install(ctx, h, first); err != nil {
			return err
		}
	}
	stream := line + "-dkms"
	if open {
		stream = line + "-open"
	}
	if choose := fill(fill(d.Choose, aLine, line), aStream, stream); len(choose) > 0 {
		if _, err := h.Run(ctx, host.Command{Argv: choose}); err != nil {
			return fmt.Errorf("choosing the driver's line: %w", err)
		}
	}
	return nil
}

// Lines returns the lines that the machine's repositories have for a kernel.
func (d Driver) Lines(ctx context.Context, h *host.Host, open bool, kernel string, pm PackageManager) (
	[]string, error) {
	modules := d.Packages(open, "([0-9]+)", kernel, pm)[0]
	out, err := h.Run(ctx, host.Command{Argv: fill(d.Offered, aModules, modules), Env: []string{"LC_ALL=C"}})
	if err != nil {
		return nil, fmt.Errorf("listing the lines of NVIDIA's driver: %w", err)
	}
	form := regexp.MustCompile(strings.ReplaceAll(d.Form, aModules, modules))
	lines := show.Each(form.FindAllStringSubmatch(string(out), -1), func(found []string) string { return found[1] })
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

func fill(list []string, placeholder, value string) []string {
	return show.Each(list, func(word string) string { return strings.ReplaceAll(word, placeholder, value) })
}

// nvidiaOfDebian is in NVIDIA's repository for Debian, for systems that only compute
// (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/).
func nvidiaOfDebian() Driver {
	return Driver{
		Open:    []string{"nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced", aHeaders},
		Closed:  []string{"nvidia-kernel-dkms", "nvidia-driver-cuda", "nvidia-persistenced", aHeaders},
		Offered: []string{"apt-cache", "madison", aModules}, Form: `\| +([0-9]+)\.`,
		First: []string{"nvidia-driver-pinning-" + aLine},
	}
}

// nvidiaOfUbuntu is in Ubuntu's archive: modules that are built and signed for each kernel.
func nvidiaOfUbuntu() Driver {
	const modules, headless = "linux-modules-nvidia-" + aLine + "-server",
		"nvidia-headless-no-dkms-" + aLine + "-server"
	return Driver{
		Open:    []string{modules + "-open-" + aFlavour, headless + "-open", "nvidia-utils-" + aLine + "-server"},
		Closed:  []string{modules + "-" + aFlavour, headless, "nvidia-utils-" + aLine + "-server"},
		Offered: []string{"apt-cache", "pkgnames", "linux-modules-nvidia-"}, Form: `(?m)^` + aModules + `$`,
	}
}

// nvidiaOfRedHat is in NVIDIA's repositories for Red Hat's family, also for Amazon Linux.
// Those for release 10 and for Fedora have no streams.
func nvidiaOfRedHat(choose string, first ...string) Driver {
	return Driver{
		Open:   []string{"kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced", aHeaders},
		Closed: []string{"kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "nvidia-persistenced", aHeaders},
		Offered: []string{"dnf", "repoquery", "--quiet", "--setopt=*.module_hotfixes=true",
			`--queryformat=%{version}\n`, aModules}, Form: `(?m)^([0-9]+)\.`,
		First: first, Choose: []string{"sh", "-c", choose},
	}
}

// nvidiaOfArch is the newest line alone, which has open modules.
func nvidiaOfArch() Driver {
	return Driver{
		Open:    []string{"nvidia-open-dkms", "nvidia-utils", aHeaders},
		Offered: []string{"pacman", "--sync", "--info", aModules}, Form: `(?m)^Version +: +([0-9]+)\.`,
	}
}
