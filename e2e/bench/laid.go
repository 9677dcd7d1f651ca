package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
)

// laid is what provisioning lays down, as a first run tells it.
type laid struct {
	report   plan.Report
	manifest *manifest.Manifest
	contents map[string]string // of the files that it writes itself
	print    string            // fingerprint of what is watched
}

// onlyOurs are steps whose work a shell provisioner has no counterpart for:
// eksnode's own command, its first boot, and the manifest.
var onlyOurs = []string{"command", "first-boot", "manifest"}

// provision runs a real eksnode block.
func (b *bench) provision(ctx context.Context, node *bed.Node, source string) (contest.Counts, error) {
	fields, err := provisionFields(source)
	if err != nil {
		return nil, err
	}
	return b.block(ctx, node, new(eksnode.Provisioner), fields)
}

// provisionFields are the block's, for the newest versions that the harness
// can build.
func provisionFields(source string) (map[string]any, error) {
	versions := map[string]any{}
	var kubelet string
	for _, name := range []string{tools.NameKubelet, tools.NameCredentialProvider, tools.NameCNIPlugins} {
		_, version, err := tools.Find(name, "")
		if err != nil {
			return nil, err
		}
		if name == tools.NameKubelet {
			kubelet = version
		} else {
			versions[name] = version
		}
	}
	return map[string]any{"kubernetes_version": kubelet, "versions": versions, "source_url": source}, nil
}

// learn provisions the machine and looks what has become of it.
func (b *bench) learn(ctx context.Context, node *bed.Node, source string) (*laid, error) {
	l := &laid{contents: map[string]string{}}
	_, err := b.provision(ctx, node, source)
	if err != nil {
		return nil, err
	}
	if l.report, err = b.readReport(); err != nil {
		return nil, err
	}
	text, err := node.Run(ctx, "cat "+manifest.Path)
	if err != nil {
		return nil, err
	}
	if l.manifest, err = manifest.Parse([]byte(text)); err != nil {
		return nil, err
	}
	for _, o := range l.report.Outcomes {
		for _, a := range o.Actions {
			if a.Verb != plan.Write || slices.Contains(onlyOurs, o.Item) {
				continue
			}
			if l.contents[a.Target], err = node.Run(ctx, "cat "+a.Target); err != nil {
				return nil, err
			}
		}
	}
	l.print, err = l.fingerprint(ctx, node)
	return l, err
}

// files lists all files, those of onlyOurs too.
func (l *laid) files() []string {
	var all []string
	for _, asset := range l.manifest.Assets {
		for _, f := range asset.Files {
			all = append(all, f.Path)
		}
	}
	for _, t := range l.manifest.Templates {
		all = append(all, t.Path)
	}
	for _, f := range l.manifest.Files {
		all = append(all, f.Path)
	}
	return append(all, manifest.Path)
}

// folders lists the folders that were made, parents first.
func (l *laid) folders() []string {
	var all []string
	for _, o := range l.report.Outcomes {
		for _, a := range o.Actions {
			if a.Verb == plan.Mkdir {
				all = append(all, a.Target)
			}
		}
	}
	return all
}

// watched lists what both contestants must lay down alike.
func (l *laid) watched() []string {
	ours := []string{manifest.Path}
	for _, o := range l.report.Outcomes {
		for _, a := range o.Actions {
			if slices.Contains(onlyOurs, o.Item) {
				name, _, _ := strings.Cut(a.Target, " ") // a link's target says where it leads
				ours = append(ours, name)
			}
		}
	}
	return slices.DeleteFunc(append(l.files(), l.folders()...), func(name string) bool { return slices.Contains(ours, name) })
}

// fingerprint is mode, owner and content of what is watched, and whether units
// start at boot that must not. Those that must are our own.
func (l *laid) fingerprint(ctx context.Context, node *bed.Node) (string, error) {
	var units []string
	for _, u := range l.manifest.Units {
		if !u.Enabled {
			units = append(units, u.Name)
		}
	}
	return node.Run(ctx, fmt.Sprintf(`for p in %s; do
	stat -c '%%n %%F %%a %%u:%%g' "$p" || echo "$p is missing"
	if [ -h "$p" ]; then readlink "$p"; elif [ -f "$p" ]; then sha256sum <"$p"; fi
done
for u in %s; do echo "$u $(systemctl is-enabled "$u" || true)"; done`, strings.Join(l.watched(), " "), strings.Join(units, " ")))
}

// compare says how a machine differs from the one learned from.
func (l *laid) compare(ctx context.Context, node *bed.Node) error {
	print, err := l.fingerprint(ctx, node)
	if err != nil || print == l.print {
		return err
	}
	have, want := strings.Split(print, "\n"), strings.Split(l.print, "\n")
	var errs []error
	for i := range min(len(have), len(want)) {
		if have[i] != want[i] {
			errs = append(errs, fmt.Errorf("have %q, want %q", have[i], want[i]))
		}
	}
	return fmt.Errorf("the machine is not as a block makes it: %w", errors.Join(append(errs, fmt.Errorf("%d and %d lines", len(have), len(want)))...))
}

// sameSteps says whether a block did all that the first one did.
func (l *laid) sameSteps(r plan.Report, packages bool) error {
	did := func(r plan.Report) (all []string) {
		for _, o := range r.Outcomes {
			if o.Item != packagesStep || packages {
				all = append(all, fmt.Sprintf("%s %d", o.Item, len(o.Actions)))
			}
		}
		return all
	}
	if have, want := did(r), did(l.report); !slices.Equal(have, want) {
		return fmt.Errorf("the block's steps and actions were %q, not %q", have, want)
	}
	return nil
}

// removal is a script that takes away what was laid down, down to the packages,
// and flushes it.
func (l *laid) removal() string {
	var text strings.Builder
	fmt.Fprintf(&text, "rm -f %s\n", strings.Join(l.files(), " "))
	for _, folder := range slices.Backward(l.folders()) {
		fmt.Fprintf(&text, "if [ -d %[1]s ]; then rmdir %[1]s; fi\n", folder)
	}
	for _, o := range l.report.Outcomes {
		for _, a := range o.Actions {
			switch a.Verb {
			case plan.Disable:
				fmt.Fprintf(&text, "systemctl --quiet enable %s\n", path.Base(a.Target))
			case plan.Link:
				name, _, _ := strings.Cut(a.Target, " to ")
				fmt.Fprintf(&text, "rm -f %s\n", name)
			}
		}
	}
	text.WriteString("systemctl daemon-reload\nsync -f /\n")
	return text.String()
}
