package distros

import (
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// PackageManager installs packages. Distributions share its values. Commands
// run without questions, wait for a lock of another process, and retry
// downloads if the tool can.
type PackageManager interface {
	// Name is the tool's own name, such as "apt".
	Name() string
	// Installed returns the versions of completely installed packages and
	// leaves out others. It needs no network. On an image root it reads the
	// files of the package database; if that needs the tool, it returns
	// host.ErrMountedRoot.
	Installed(ctx context.Context, h *host.Host, names []string) (map[string]string, error)
	// Refreshing is a short form of the command behind Refresh, for plans.
	Refreshing() string
	// Refresh updates the package lists. An unreachable repository is an error
	// that names the repository.
	Refresh(ctx context.Context, h *host.Host) error
	// Unfinished lists packages that an interrupted run left half installed.
	// Finish completes them without starting their services.
	Unfinished(h *host.Host) ([]string, error)
	Finish(ctx context.Context, h *host.Host) error
	// Install installs packages, after finishing those of an interrupted run.
	// Services of the packages do not start. A package that no repository has
	// is an error that names the package.
	Install(ctx context.Context, h *host.Host, names []string) error
	// Pinned returns the argument of Install for one version of a package, or
	// an error with the reason why there is none.
	Pinned(name, version string) (string, error)
	// Hold stops everything but Install from upgrading, installing or removing
	// packages. Held returns the names that are held.
	Hold(ctx context.Context, h *host.Host, names []string) error
	Held(h *host.Host, names []string) ([]string, error)
	// Remove removes packages, and those that depend on them.
	Remove(ctx context.Context, h *host.Host, names []string) error
	// Drop removes packages that a build needed for itself, and those that came only
	// for them.
	Drop(ctx context.Context, h *host.Host, names []string) error
	// Leftover lists files of an interrupted Install that must go.
	Leftover(h *host.Host) ([]string, error)
	// Clean deletes downloaded packages.
	Clean(ctx context.Context, h *host.Host) error
	// Kernels are the packages of kernels.
	Kernels() Kernels
	// RepositoryForm is how additional repositories are written.
	RepositoryForm() RepositoryForm
	// ScrubRules returns the scrub rules of machines with the package manager:
	// caches, identity, packages that are half installed.
	ScrubRules() []scrub.Rule
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// explained is the failure of a command with its meaning.
type explained struct {
	hint string
	err  error
}

func (e *explained) Error() string { return e.hint + ": " + e.err.Error() }
func (e *explained) Unwrap() error { return e.err }

//go:embed symptoms.yaml
var symptomsFile []byte

// symptom is a pattern in a tool's output and its meaning.
type symptom struct{ Pattern, Meaning string }

// symptoms are the symptoms by tool.
var symptoms = sync.OnceValue(func() map[string][]symptom {
	all := map[string][]symptom{}
	strictjson.Ours("symptoms.yaml", symptomsFile, &all)
	return all
})

// explain returns the first symptom in the output of a failed command.
func (t tool) explain(err error, said string) error {
	filled := strings.NewReplacer("\n", "", "{locked}", t.locked)
	for _, s := range slices.Concat(symptoms()["disk"], symptoms()[t.symptoms]) {
		pattern := regexp.MustCompile(filled.Replace(s.Pattern))
		if found := pattern.FindStringSubmatchIndex(said); found != nil {
			return &explained{hint: string(pattern.ExpandString(nil, s.Meaning, said, found)), err: err}
		}
	}
	return err
}

// packageless is for systems without a package manager: everything they need is
// in their image or comes as an asset.
type packageless struct{ manager }

// NoPackageManager is for systems whose image has all packages.
func NoPackageManager() PackageManager {
	return packageless{manager{name: "none", refreshing: "nothing"}}
}

func (packageless) Installed(context.Context, *host.Host, []string) (map[string]string, error) {
	return map[string]string{}, nil
}

// Install refuses all packages; the distribution's own lists are empty.
func (packageless) Install(_ context.Context, _ *host.Host, names []string) error {
	return while(installing, none(names))
}

// Pinned implements PackageManager.
func (packageless) Pinned(name, _ string) (string, error) { return "", none([]string{name}) }

func (packageless) Hold(_ context.Context, _ *host.Host, names []string) error {
	return while(holding, none(names))
}

func (packageless) Held(*host.Host, []string) ([]string, error) { return nil, nil }

func (packageless) Remove(_ context.Context, _ *host.Host, names []string) error {
	return while(removing, none(names))
}

func (packageless) Clean(context.Context, *host.Host) error { return nil }

// none returns the error for packages without a package manager.
func none(names []string) error {
	return surface.Errorf("this distribution has no package manager and so no package %s; leave %s",
		strings.Join(names, ", "), surface.Words{HCL: "packages empty", Flags: "--packages out"})
}

// HasPackages reports whether the distribution has a package manager.
func (d Distro) HasPackages() bool {
	_, without := d.PackageManager.(packageless)
	return !without
}
