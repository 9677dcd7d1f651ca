package provisioner

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

//go:embed options.yaml
var optionsFile []byte

// option is an optional feature of a node, as data for the steps.
type option struct {
	// ID is the value of the field that chooses the option, or the name of the field.
	ID string
	// Needs is the distribution option with the packages; empty means none.
	Needs distros.Option
	Why   string
	// Packages are those without an entry in the distribution's table, and Units start at
	// boot.
	Packages, Units []string
	// Module is what every kernel of the image must have, and ModuleOf the distribution
	// option with the packages for kernels that lack it.
	Module   string
	ModuleOf distros.Option
	Files    []tableFile
	Lines    []lineInFile
	Links    []plan.SymbolicLink
	Sysctls  map[string]string
}

// optionTable has the options that are the same on every distribution.
var optionTable = sync.OnceValue(func() (table []option) {
	strictjson.Ours("options.yaml", optionsFile, &table)
	return table
})

// optionIDs are the IDs of the options with this distribution option.
func optionIDs(needs distros.Option) []string {
	var ids []string
	for _, o := range optionTable() {
		if o.Needs == needs {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// The values of options that other files name.
const (
	hardenAudit = "audit"
	byVariable  = "envvar"
	swapZram    = "zram"
	fipsCheck   = "check"
	fipsEnable  = "enable"
)

// Hardenings lists the values of the field hardening.
func Hardenings() []string {
	return []string{distros.CIS1, distros.CIS2, distros.STIG, "tmp-noexec", "umask", hardenAudit}
}

// DeviceLists lists the values of the field nvidia_container_toolkit.
func DeviceLists() []string { return optionIDs(distros.NVIDIA) }

// Swaps lists the values of the field swap.
func Swaps() []string { return optionIDs(distros.Swap) }

// FIPSModes lists the values of the field fips.
func FIPSModes() []string { return []string{fipsCheck, fipsEnable} }

// Agents lists the values of the field agents.
func Agents() []string { return optionIDs(distros.Agents) }

// options are the options of the spec, in the order of the table.
func (s Spec) options() []option {
	toolkit := s.NVIDIAContainerToolkit
	if s.NVIDIA != "" {
		toolkit = cmp.Or(toolkit, byVariable)
	}
	ids := slices.Concat([]string{toolkit, s.Swap}, s.Hardening, s.Agents)
	for id, chosen := range map[string]bool{"neuron": s.Neuron, "efa": s.EFA, "soci": s.SOCI} {
		if chosen {
			ids = append(ids, id)
		}
	}
	return slices.DeleteFunc(slices.Clone(optionTable()), func(o option) bool { return !slices.Contains(ids, o.ID) })
}

// fips makes the image start in FIPS mode. It is done when the policy of programs and the
// kernel's arguments say so, or when the machine runs in FIPS mode.
func (n *node) fips(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	how := n.distro.FIPS
	policy, err := h.Content(how.Policy)
	if err != nil {
		return nil, err
	}
	starts, err := n.taken(ctx, h, []string{"fips=1"})
	if err != nil || starts && slices.Contains(strings.Fields(string(policy)), how.PolicyText) {
		return nil, err
	}
	why := "the image starts in FIPS mode"
	return []plan.Action{act(plan.Run, strings.Join(how.Setup, " "), why, func(ctx context.Context) error {
		if !h.HasCommand(how.Setup[0]) {
			return surface.Errorf("{fips}: this machine has no %s; %s, with %s", how.Setup[0], how.Enable,
				surface.Name("fips").Is(fipsCheck))
		}
		return run(ctx, h, how.Setup)
	})}, nil
}

func (n *node) optionPackages() []string {
	var names []string
	for _, o := range n.options() {
		if o.Needs != "" {
			names = append(append(names, n.named(n.distro.OptionPackages[o.Needs])...), o.Packages...)
		}
	}
	if n.spec.FIPS == fipsEnable {
		names = append(names, n.distro.FIPS.Packages...)
	}
	return names
}

// planOptionUnits plans to enable the units of options. A package that has no such unit is
// an error.
func (n *node) planOptionUnits(ctx context.Context, h *host.Host, o option) ([]plan.Action, error) {
	if len(o.Units) == 0 {
		return nil, nil
	}
	have, err := n.installed(ctx, h)
	if err != nil {
		return nil, err
	}
	for i, pkg := range o.Packages[:min(len(o.Packages), len(o.Units))] {
		unit := o.Units[i]
		has, err := h.HasUnit(unit)
		if err != nil {
			return nil, err
		}
		if !has && have[pkg] != "" {
			return nil, surface.Errorf("{agents}: the package %s has no unit %s; choose another repository",
				pkg, unit)
		}
	}
	return planEnabled(h, o.Units, o.Why+" starts at boot")
}
