package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Inputs are the inputs of a spec's steps from outside the machine.
type Inputs struct {
	// Arch is the machine's architecture, amd64 or arm64.
	Arch string
	// Command is the program file that becomes the node's eksnode command; empty means the
	// running program.
	Command string
	// Supply delivers images; nil means none.
	Supply Supply
	// SupplyAssets makes downloads come from Supply too.
	SupplyAssets bool
}

// Supply delivers files that a machine does not fetch itself. Wanted names a
// download or an image, and Supplied is its content.
type (
	Supply   = asset.Supply
	Wanted   = asset.Wanted
	Supplied = asset.Supplied
)

// Steps are the steps, in order, that turn a machine of this distribution into a node. Each
// step is a phase of its own: it starts only after the previous ones succeeded. Steps can be
// planned on any host, also on an image root. Applying them needs the live machine, because
// package managers do.
func Steps(spec Spec, d distros.Distro, in Inputs) ([]plan.Item, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	n, err := newNode(spec, d, in.Arch)
	if err != nil {
		return nil, err
	}
	n.self, n.supply = cmp.Or(in.Command, n.self), in.Supply
	if in.SupplyAssets {
		n.source = asset.FromSupply(in.Supply)
	}
	return n.steps(), nil
}

func (n *node) steps() []plan.Item {
	modules := slices.ContainsFunc(n.options(), func(o option) bool { return o.Module != "" })
	var items []plan.Item
	add := func(wanted bool, steps ...step) {
		for _, s := range steps {
			if wanted {
				items = append(items, s)
			}
		}
	}
	add(true, step{"requirements", n.requirements}, step{"packages", n.packages})
	add(n.spec.Kernel != "", step{"kernel", n.kernel})
	add(modules, step{"drivers", n.drivers})
	add(n.spec.level() != "", step{"hardening", n.hardening})
	add(true, step{"authorities", n.authorities}, step{"directories", n.directories})
	for _, download := range n.downloads {
		add(true, n.asset(download))
	}
	add(true, step{"templates", files(n.templateFiles)}, step{"units", n.units}, step{"system", n.system},
		step{"modules", files(func() []plan.File { return n.stepFiles("modules") })}, step{"sysctls", n.sysctls},
		step{"kernel-arguments", n.kernelArguments})
	add(n.spec.FIPS == fipsEnable, step{"fips", n.fips})
	add(true, step{"swap", n.swap}, step{"images", n.images}, step{"command", n.command},
		step{"first-boot", n.firstBoot}, step{"labels", n.labels}, step{"manifest", n.manifest})
	return items
}

// files is the find of a step that only writes files.
func files(list func() []plan.File) func(context.Context, *host.Host) ([]plan.Action, error) {
	return func(_ context.Context, h *host.Host) ([]plan.Action, error) { return plan.Files(h, list()) }
}

// node is the data that all steps share.
type node struct {
	spec   Spec
	distro distros.Distro
	// replaced are the packages that archives replace.
	replaced  []string
	arch      string
	downloads []asset.Download
	source    asset.Source
	// containers are the images, which supply delivers; nil means none.
	containers []wanted
	supply     asset.Supply
	// self is the running program, which becomes the node's eksnode command.
	self string
}

// selfPath is the running program, also after its file was removed.
const selfPath = "/proc/self/exe"

// newNode makes a node from a spec that Validate accepts.
func newNode(spec Spec, d distros.Distro, arch string) (*node, error) {
	if arch != "amd64" && arch != "arm64" {
		return nil, fmt.Errorf("the architecture %q is not supported; EKS nodes are amd64 (x86_64) or arm64 (aarch64)",
			arch)
	}
	n := &node{spec: spec, distro: d, arch: arch, source: spec.fetcher(asset.UsualPatience()), self: selfPath}
	if err := spec.supportedBy(d); err != nil {
		return nil, err
	}
	n.distro = spec.withContainerd(d)
	n.replaced = replaced(d, n.distro)
	var err error
	if n.containers, err = spec.wanted(); err != nil {
		return nil, err
	}
	for _, a := range asset.Table() {
		if !a.NeededBy(spec.KubernetesVersion) || !downloads(n.distro, a) {
			continue
		}
		download, err := a.For(spec.choice(a, arch, d.CommandFolder))
		if err != nil {
			return nil, err
		}
		n.downloads = append(n.downloads, download)
	}
	return n, nil
}

func (n *node) has(id string) bool {
	return slices.ContainsFunc(n.downloads, func(d asset.Download) bool { return d.ID == id })
}

// step is a plan.Item that is a phase of its own.
type step struct {
	id   string
	find func(context.Context, *host.Host) ([]plan.Action, error)
}

func (s step) ID() string    { return s.id }
func (s step) Phase() string { return s.id }

// Plan implements plan.Item.
func (s step) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	actions, err := s.find(ctx, h)
	return plan.Acts(actions...), err
}

// gathered are the actions of the parts of a step, or the first error of a part.
type gathered struct {
	actions []plan.Action
	err     error
}

func (g *gathered) add(actions []plan.Action, err error) {
	g.actions = append(g.actions, actions...)
	if g.err == nil {
		g.err = err
	}
}

func (g *gathered) all() ([]plan.Action, error) {
	if g.err != nil {
		return nil, g.err
	}
	return g.actions, nil
}

// act is an action that reports no progress.
func act(verb plan.Verb, target, why string, do func(context.Context) error) plan.Action {
	return plan.Action{Verb: verb, Target: target, Reason: why,
		Do: func(ctx context.Context, _ plan.Progress) error { return do(ctx) }}
}

// run runs a command whose output does not matter.
func run(ctx context.Context, h *host.Host, argv []string) error {
	_, err := h.Run(ctx, host.Command{Argv: argv})
	return err
}

func removal(h *host.Host, name, why string) plan.Action {
	return act(plan.Remove, name, why, func(context.Context) error { return h.Files.Remove(name) })
}

// planUnwanted plans to remove the files of an earlier provision that are no longer wanted
// and that nobody changed. The manifest may be nil.
func planUnwanted(
	h *host.Host, m *manifest.Manifest, why string, unwanted func(name string) bool,
) (actions []plan.Action, err error) {
	if m == nil {
		return nil, nil
	}
	for _, f := range m.Files {
		if !unwanted(f.Path) {
			continue
		}
		differs, err := f.Differs(h)
		if err != nil {
			return nil, err
		}
		if differs == "" {
			actions = append(actions, removal(h, f.Path, why))
		}
	}
	return actions, nil
}
