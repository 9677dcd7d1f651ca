package rules

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// KeptAgent is the agent that a provision leaves for the next provisioner of a build. Only
// root can enter its folder.
const KeptAgent = "/run/eksnode-agent/eksnode"

const agentFolder = "eksnode-" + hex4 + hex4 + hex4 + hex4

const hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"

// noAgents are folders without agents: of the kernel, and of containers' files.
var noAgents = []string{"/proc", "/sys", "/dev", "/run", "/var/lib/containerd", "/var/lib/docker",
	"/var/lib/containers"}

func agentFolders(d *rule.Draft) {
	d.Plan(plan.Remove, d.Paths[0], "the agent that a provision kept")
	var errs []error
	d.Walk(func(e host.Entry) error {
		switch {
		case !e.IsDir():
			return nil
		case slices.Contains(noAgents, e.Path):
			return fs.SkipDir
		case !rule.Kept([]string{agentFolder}, path.Base(e.Path)):
			return nil
		}
		own, err := onlyAgent(d.Host, e.Path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case own:
			d.Remove(e.Path, "the agent of a session that was cut")
		default:
			d.Find(e.Path, "has the name of the agent's folder, and other files: look at them and remove the folder")
		}
		return fs.SkipDir
	})
	d.Failed(errors.Join(errs...))
}

func onlyAgent(h *host.Host, folder string) (bool, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(entries,
		func(e fs.FileInfo) bool { return e.Name() != "eksnode" || !e.Mode().IsRegular() }), nil
}

// RemoveAgents removes the agents that sessions left in a folder, and the one that a
// provision kept.
func RemoveAgents(h *host.Host, folder string) error {
	entries, err := afero.ReadDir(h.Files, folder)
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if !e.IsDir() || !rule.Kept([]string{agentFolder}, e.Name()) {
			continue
		}
		own, failed := onlyAgent(h, name)
		if own {
			_, failed = h.Files.RemoveTree(name)
		}
		err = errors.Join(err, rule.IgnoreMissing(failed))
	}
	_, failed := h.Files.RemoveTree(path.Dir(KeptAgent))
	return errors.Join(err, rule.IgnoreMissing(failed))
}

// namesMachine reports whether one of some settings has the name of a machine: no
// variable, and not localhost. Without a setting, the whole line is the value.
func namesMachine(settings []string, text []byte) bool {
	re := regexp.MustCompile(`(?m)^[\t ]*(?:` + strings.Join(settings, "|") + `)[\t ]*[=: ]?[\t ]*(.*)$`)
	separates := func(r rune) bool { return strings.ContainsRune("\"', ;:\t\r", r) }
	return slices.ContainsFunc(re.FindAllSubmatch(text, -1), func(m [][]byte) bool {
		return slices.ContainsFunc(strings.FieldsFunc(string(m[1]), separates), func(word string) bool {
			return word[0] != '$' && word[0] != '#' && !strings.HasPrefix(word, "localhost")
		})
	})
}
