package scrub

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// agentFolderRules has the rule for folders of interrupted sessions of Packer.
func agentFolderRules() []Rule {
	return []Rule{
		{
			ID: "agent-folders", Phase: Caches, Groups: []string{"caches"}, Verb: plan.Remove,
			Paths: []string{"/**/" + agentFolder, path.Dir(KeptAgent)}, Owner: "the Packer plugin",
			Why:         "a session that was cut leaves a copy of eksnode in remote_folder, and a provision one for the next provisioner; a folder with other files is a finding",
			Regenerated: "nothing", Source: "the Packer plugin, which makes the folder",
			Find: agentFolders,
		},
	}
}

// KeptAgent is the agent that a provision leaves for the next provisioner of a build. Only
// root can enter its folder.
const KeptAgent = "/run/eksnode-agent/eksnode"

// agentFolder matches the name of the agent's folder.
const agentFolder = "eksnode-" + hex4 + hex4 + hex4 + hex4

const hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"

// noAgents are folders without agents: of the kernel, and of containers' files.
var noAgents = []string{"/proc", "/sys", "/dev", "/run", "/var/lib/containerd", "/var/lib/docker", "/var/lib/containers"}

// agentFolders plans the removal of agents wherever they are.
func agentFolders(ctx context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	var errs []error
	_, err := h.Files.Lstat(path.Dir(KeptAgent))
	if err == nil {
		answer.Actions = append(answer.Actions, removeAction(h, path.Dir(KeptAgent), "the agent that a provision kept"))
	}
	errs = append(errs, ignoreMissing(err))
	_, err = h.Files.Walk(ctx, "/", "/", func(e host.Entry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, err)
			return nil
		case !e.IsDir():
			return nil
		case slices.Contains(noAgents, e.Path):
			return fs.SkipDir
		case !kept([]string{agentFolder}, path.Base(e.Path)):
			return nil
		}
		own, err := onlyAgent(h, e.Path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case own:
			answer.Actions = append(answer.Actions, removeAction(h, e.Path, "the agent of a session that was cut"))
		default:
			answer.Find(e.Path, "has the name of the agent's folder, and other files: look at them and remove the folder")
		}
		return fs.SkipDir
	})
	return answer, errors.Join(append(errs, err)...)
}

// onlyAgent reports whether a folder has nothing but the agent.
func onlyAgent(h *host.Host, folder string) (bool, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(entries, func(e fs.FileInfo) bool { return e.Name() != "eksnode" || !e.Mode().IsRegular() }), nil
}

// RemoveAgents removes the agents that sessions left in a folder, and the one that a
// provision kept.
func RemoveAgents(h *host.Host, folder string) error {
	entries, err := afero.ReadDir(h.Files, folder)
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if !e.IsDir() || !kept([]string{agentFolder}, e.Name()) {
			continue
		}
		own, failed := onlyAgent(h, name)
		if own {
			_, failed = h.Files.RemoveTree(name)
		}
		err = errors.Join(err, ignoreMissing(failed))
	}
	_, failed := h.Files.RemoveTree(path.Dir(KeptAgent))
	return errors.Join(err, ignoreMissing(failed))
}
