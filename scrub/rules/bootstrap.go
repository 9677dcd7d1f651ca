package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// generatedContainerdConfig removes /etc/containerd/config.toml if a first boot
// wrote it or copied it from the template. A file that the manifest records is
// restored. A file that a package installed or a person wrote stays.
func generatedContainerdConfig(d *rule.Draft) {
	name := d.Paths[0]
	current := d.Content(name)
	if current == nil {
		return
	}
	if templateOf(d, name) != nil {
		restore(reverseContainerdConfig)(d)
		return
	}
	if !(baseRuntimeSpec().Match(current) && nodeadm.there(d)) && !isInits(current) {
		if !copiedFromTemplate(d, current) {
			return
		}
		if bootstrapScript(d) == "" && !d.Exists(templates.ContainerdConfig) { // nothing here copies a template
			d.Find(name, "pulls the pause image from the registry of the build's region, and no bootstrap on this "+
				"machine writes the file again: name the pause image of the new node's region, or remove the file")
			return
		}
	}
	d.Plan(plan.Remove, name, "first boot wrote it")
}

// copiedFromTemplate reports whether a configuration of containerd is the
// filled-in template. The template may be that of the image or an edited one,
// and the pause image that of a region or of the image.
func copiedFromTemplate(d *rule.Draft, current []byte) bool {
	tmpl := templateOf(d, templates.ContainerdConfig)
	if tmpl == nil {
		return slices.ContainsFunc(templates.All(), func(t templates.Template) bool { // of Amazon Linux 2
			return t.Path == templates.ContainerdConfig && isKnown(t, current)
		})
	}
	edited := d.Content(templates.ContainerdConfig)
	back, err := reverseContainerdConfig(current, tmpl.Content)
	if err != nil {
		return false // not from a bootstrap: no sandbox image
	}
	if !bytes.Equal(back.Content, current) {
		return true // had the pause image of a region
	}
	plain := withoutPause(current)
	return equivalent(plain, withoutPause(tmpl.Content)) || edited != nil && equivalent(plain, withoutPause(edited))
}

// withoutPause replaces every pause image with the placeholder SANDBOX_IMAGE.
func withoutPause(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if m := sandboxLine().FindStringSubmatch(line); m != nil {
			lines[i] = m[1] + m[2] + sandboxPlaceholder + m[4] + m[5]
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// credentialProvider restores the image's own list of registries if a first
// boot wrote another. On an image without a recorded list, the rule removes the
// list, unless Amazon Linux 2's bootstrap.sh installed it. A list that a person
// wrote stays.
func credentialProvider(d *rule.Draft) {
	name := d.Paths[0]
	current, tmpl := d.Content(name), templateOf(d, name)
	switch {
	case tmpl != nil && current == nil:
		d.Act(rule.WriteAction(d.Host, plan.Restore, name, tmpl.Content, tmpl.Attributes, "the template is missing"))
	case current == nil || !namesOnlyECR(current):
	case tmpl == nil:
		// bootstrap.sh does not write the list itself. A manifest names every template that the image had.
		if c := contractOf(d); c != withScript && (c != knownTemplate || loaded(d) != nil) {
			d.Plan(plan.Remove, name, "first boot wrote it")
		}
	case !bytes.Equal(current, tmpl.Content):
		d.Write(plan.Restore, name, tmpl.Content, "first boot wrote it")
	}
}

// namesOnlyECR reports whether a CredentialProviderConfig could come from a
// first boot: it has one provider, without arguments or environment, and only
// for ECR.
func namesOnlyECR(text []byte) bool {
	var config struct {
		Providers []struct {
			Name        string   `json:"name"`
			MatchImages []string `json:"matchImages"`
			Args        []string `json:"args"`
			Env         []any    `json:"env"`
		} `json:"providers"`
	}
	if json.Unmarshal(text, &config) != nil || len(config.Providers) != 1 {
		return false
	}
	p := config.Providers[0]
	return p.Name == "ecr-credential-provider" && len(p.Args)+len(p.Env) == 0 &&
		!slices.ContainsFunc(p.MatchImages, func(image string) bool {
			return !strings.HasPrefix(image, "*.dkr.ecr") && !strings.HasPrefix(image, "*.dkr-ecr") &&
				!strings.HasPrefix(image, "public.ecr.") && !strings.HasPrefix(image, "ecr-public.")
		})
}

// isInits reports whether `eksnode init` wrote a file: the first line says so,
// in file formats with comments.
func isInits(text []byte) bool { return bytes.HasPrefix(text, []byte(templates.InitMark+"\n")) }

// generatedSOCI plans the removal of a configuration of SOCI's snapshotter that a
// first boot wrote. A file that a package installed or a person wrote stays.
func generatedSOCI(d *rule.Draft) {
	d.RemoveWhere("first boot wrote it", func(text []byte) bool { return isInits(text) || isNodeadmsSOCI(d, text) },
		d.Paths...)
}

// copiedUnits removes the units that bootstrap.sh copies from the image's own
// folder to /etc/systemd/system. The originals stay. Where /usr is read-only, the
// image's own unit is at that place, and is restored.
func copiedUnits(d *rule.Draft) {
	for i, original := range []string{
		"/etc/eks/containerd/kubelet-containerd.service", "/etc/eks/containerd/sandbox-image.service",
	} {
		copied := d.Paths[i]
		source, current, own := d.Content(original), d.Content(copied), templateOf(d, copied)
		why := "the bootstrap copied it from " + original
		copies := source != nil && bytes.Equal(current, source)
		switch {
		case own == nil && copies:
			d.Plan(plan.Remove, copied, why)
		case own != nil && source != nil && (current == nil || copies && !bytes.Equal(current, own.Content)):
			d.Act(rule.WriteAction(d.Host, plan.Restore, copied, own.Content, own.Attributes, why))
		}
	}
}

func kubeletEnabled(d *rule.Draft) {
	disable(d, "would start at boot, before the bootstrap", d.Paths...)
}

// disable plans the removal of the links that start units at boot.
func disable(d *rule.Draft, why string, links ...string) {
	for _, link := range d.Matching(links...) {
		d.Act(plan.Action{Verb: plan.Disable, Target: link, Reason: path.Base(link) + " " + why,
			Removal: host.Removal{Entries: 1},
			Do: func(context.Context, plan.Progress) error {
				_, err := d.Host.Files.RemoveTree(link)
				return err
			}})
	}
}
