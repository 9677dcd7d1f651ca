package provisioner

import (
	"bytes"
	"context"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// file is a file that provisioning writes; root owns it.
type file struct {
	path    string
	content []byte
	mode    fs.FileMode
	why     string
}

func (f file) attributes() host.Attributes { return host.Attributes{Mode: f.mode} }

// record is the file as the manifest lists it.
func (f file) record() manifest.File {
	return manifest.File{Path: f.path, Mode: manifest.Mode(f.mode), Size: int64(len(f.content)), SHA256: manifest.Sum(f.content)}
}

// planFiles plans those files that are not there with this content, mode and
// owner.
func planFiles(h *host.Host, files []file) ([]plan.Action, error) {
	var actions []plan.Action
	for _, f := range files {
		left, err := planLeftovers(h, f.path)
		if err != nil {
			return nil, err
		}
		actions = append(actions, left...)
		same, err := f.isThere(h)
		if err != nil {
			return nil, err
		}
		if !same {
			actions = append(actions, plan.Action{Verb: plan.Write, Target: f.path, Reason: f.why,
				Do: func(context.Context, plan.Progress) error {
					return h.Files.WriteFile(f.path, f.content, f.attributes())
				}})
		}
	}
	return actions, nil
}

func (f file) isThere(h *host.Host) (bool, error) {
	content, err := h.Content(f.path)
	if err != nil || content == nil || !bytes.Equal(content, f.content) {
		return false, err
	}
	attr, err := h.Files.Attributes(f.path)
	return attr == f.attributes(), err
}

// planLeftovers plans the removal of the temporary files that a killed write
// of name left beside it.
func planLeftovers(h *host.Host, name string) ([]plan.Action, error) {
	names, err := h.Leftovers(name)
	if err != nil {
		return nil, err
	}
	var actions []plan.Action
	for _, left := range names {
		actions = append(actions, removeLeftover(h, left))
	}
	return actions, nil
}

// removeLeftover plans the removal of what an interrupted run left.
func removeLeftover(h *host.Host, name string) plan.Action {
	return plan.Action{Verb: plan.Remove, Target: name, Reason: "an interrupted run left it",
		Do: func(context.Context, plan.Progress) error {
			_, err := h.Files.RemoveTree(name)
			return err
		}}
}
