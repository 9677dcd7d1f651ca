package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/bootunits"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// The values of the field bootstrap.
const (
	bootEksnode = "eksnode"
	bootNone    = "none"
)

// Bootstraps lists the values of the field bootstrap; the first is the default.
func Bootstraps() []string { return []string{bootEksnode, bootNone} }

// joins says whether eksnode does this node's first boot.
func (s Spec) joins() bool { return s.Bootstrap != bootNone }

// authenticator is the program that kubeconfigs in the form of Amazon Linux 2 call.
const authenticator = "aws-iam-authenticator"

// searchPath are the folders in which services find commands (systemd.exec(5)).
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func (n *node) bootFiles() ([]plan.File, []plan.SymbolicLink) {
	return bootunits.Files(bootunits.Layout{
		Command: n.commandPath(), Commands: n.distro.CommandFolder, Units: n.distro.UnitFolder,
	})
}

// firstBoot installs the files with which the image joins a cluster, or removes
// them when bootstrap is "none". Another program's first boot is never replaced.
func (n *node) firstBoot(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	var g gathered
	if n.spec.joins() {
		g.add(n.planBoot(h, m))
	} else {
		// another program's first boot stays
		files, links := n.bootFiles()
		g.add(planUnwanted(h, m, `bootstrap is "none"`, func(name string) bool {
			return name == path.Join(n.distro.CommandFolder, authenticator) ||
				slices.ContainsFunc(files, func(f plan.File) bool { return f.Path == name }) ||
				slices.ContainsFunc(links, func(l plan.SymbolicLink) bool { return l.Path == name })
		}))
	}
	stale := false
	if len(g.actions) > 0 {
		stale, err = knowsUnits(ctx, h, bootunits.Units())
		g.add(nil, err)
	}
	g.add(needsReload(ctx, h, stale, bootunits.Units()))
	return g.all()
}

// knowsUnits says whether systemd has any of the units in memory. systemd finds new
// units without a reload, which takes most of a second.
func knowsUnits(ctx context.Context, h *host.Host, names []string) (bool, error) {
	if !h.HasSystemd() {
		return false, nil
	}
	states, err := h.UnitProperty(ctx, "LoadState", names...)
	return slices.Contains(states, "loaded"), err
}

func (n *node) planBoot(h *host.Host, m *manifest.Manifest) ([]plan.Action, error) {
	if err := n.refuseOthers(h, m); err != nil {
		return nil, err
	}
	var g gathered
	for _, f := range n.stepFiles("first-boot") {
		g.add(planFolder(h, f.Path, f.Why))
	}
	files, _ := n.bootFiles()
	g.add(plan.Files(h, files))
	links, err := n.bootLinks(h)
	g.add(nil, err)
	g.add(plan.Links(h, links))
	return g.all()
}

// bootLinks are the links for first boot. eksnode replaces aws-iam-authenticator
// when the image has none.
func (n *node) bootLinks(h *host.Host) ([]plan.SymbolicLink, error) {
	_, links := n.bootFiles()
	own := plan.SymbolicLink{Path: path.Join(n.distro.CommandFolder, authenticator), To: path.Base(n.commandPath()),
		Why: "kubeconfigs in the form of Amazon Linux 2 call this program for a token"}
	for _, dir := range append([]string{n.distro.CommandFolder}, searchPath...) {
		name := path.Join(dir, authenticator)
		if to, err := h.Files.ReadlinkIfPossible(name); err == nil && to == own.To {
			continue
		}
		switch there, err := h.Exists(name); {
		case err != nil:
			return nil, fmt.Errorf("looking for %s: %w", authenticator, err)
		case there:
			return links, nil
		}
	}
	return append(links, own), nil
}

// refuseOthers fails when the image has another program's first boot: it would be
// lost, or run in addition to eksnode's.
func (n *node) refuseOthers(h *host.Host, m *manifest.Manifest) error {
	var p problems
	check := func(name string, same bool, err error) {
		there, isThere := plan.IsThere(h, name)
		if err = errors.Join(isThere, err); err != nil {
			p = append(p, fmt.Errorf("searching for another first boot: %w", err))
		} else if there && !same && !recorded(m, name) {
			p.add("%s belongs to another first boot: set %s to keep that first boot, or remove the file", name,
				surface.Name("bootstrap").Is(bootNone))
		}
	}
	files, links := n.bootFiles()
	for _, f := range files {
		same, err := f.IsThere(h) // a killed run left it before it wrote the manifest
		check(f.Path, same, err)
	}
	for _, l := range links {
		to, err := h.Files.ReadlinkIfPossible(l.Path)
		check(l.Path, err == nil && to == l.To, nil)
	}
	return errors.Join(p...)
}

func recorded(m *manifest.Manifest, name string) bool {
	return m != nil && slices.ContainsFunc(m.Files, func(f manifest.File) bool { return f.Path == name })
}

// bootRecords are the files and links of first boot for the manifest.
func (n *node) bootRecords(h *host.Host) ([]manifest.File, error) {
	if !n.spec.joins() {
		return nil, nil
	}
	files, _ := n.bootFiles()
	records := show.Each(files, record)
	links, err := n.bootLinks(h)
	for _, l := range links {
		records = append(records, manifest.File{Path: l.Path, Mode: 0o777, Link: l.To})
	}
	return records, err
}

const commandMode = 0o755

func (n *node) commandPath() string { return path.Join(n.distro.CommandFolder, "eksnode") }

// command installs the running program on the node: it audits the image and joins
// the node at first boot. It is done when the file there is this program.
func (n *node) command(_ context.Context, h *host.Host) ([]plan.Action, error) {
	actions, err := plan.Leftovers(h, n.commandPath())
	if err != nil {
		return nil, err
	}
	record, err := n.commandRecord()
	if err != nil {
		return nil, err
	}
	differs, err := record.Differs(h)
	if err != nil || differs == "" {
		return actions, err
	}
	return append(actions, act(plan.Write, record.Path, "audits the image and lets it join at first boot",
		func(context.Context) error { return n.copySelf(h) })), nil
}

func (n *node) copySelf(h *host.Host) error {
	in, err := os.Open(n.self)
	if err != nil {
		return fmt.Errorf("opening the running program: %w", err)
	}
	defer in.Close()
	return h.Files.Replace(n.commandPath(), host.Attributes{Mode: commandMode}, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

func (n *node) commandRecord() (manifest.File, error) {
	in, err := os.Open(n.self)
	if err != nil {
		return manifest.File{}, fmt.Errorf("opening the running program: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	if err != nil {
		return manifest.File{}, fmt.Errorf("reading the running program: %w", err)
	}
	return manifest.File{
		Path: n.commandPath(), Mode: commandMode, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}
