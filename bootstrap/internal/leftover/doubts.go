package leftover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// doubt is a setting in a drop-in of kubelet.service that makes the kubelet
// another node than its user data says.
type doubt struct{ setting, does string }

// doubtful are settings that win over what first boot writes: $KUBELET_ARGS and
// $KUBELET_EXTRA_ARGS come last on the kubelet's command line.
func doubtful() []doubt {
	const who, what = "says who the node is", "takes configuration from elsewhere than first boot writes it"
	return []doubt{
		{"--hostname-override", who}, {"--node-ip", who}, {"--provider-id", who},
		{"--kubeconfig", what}, {"--bootstrap-kubeconfig", what}, {"--config", what},
		{"--node-labels", "gives the node labels"}, {"--register-with-taints", "gives the node taints"},
	}
}

// doubts finds a unit and drop-ins of the kubelet that may be leftover state or a
// user's wish: they stay, and the journal says so. Those that go anyway are none.
func doubts(h *host.Host, going []plan.Action) ([]plan.Finding, error) {
	names := []string{path.Join(systemUnits, kubeletUnit)}
	folder := path.Join(systemUnits, kubeletUnit+".d")
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for drop-ins: %w", err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ".conf" {
			names = append(names, path.Join(folder, e.Name()))
		}
	}
	var found []plan.Finding
	for _, name := range names {
		if slices.ContainsFunc(going, func(a plan.Action) bool { return a.Target == name }) {
			continue
		}
		why, err := doubtOf(h, name)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", name, err)
		}
		if why != "" {
			found = append(found, plan.Finding{Target: name, Reason: why})
		}
	}
	return found, nil
}

// doubtOf says what a unit or a drop-in of the kubelet does that makes the node
// another one, or nothing.
func doubtOf(h *host.Host, name string) (string, error) {
	if there, err := plan.IsThere(h, name); err != nil || !there {
		return "", err
	}
	text, regular, err := regularContent(h, name)
	if err != nil || !regular {
		return "", err
	}
	if own, err := render.IsOurs(h, name); err != nil || own {
		return "", err
	}
	lines := settings(text)
	starts := slices.IndexFunc(lines, func(l string) bool {
		_, command, ok := strings.Cut(l, "ExecStart=")
		return ok && strings.HasPrefix(l, "ExecStart=") && command != ""
	})
	if starts >= 0 && !strings.Contains(lines[starts], argumentsOfInit) {
		return "it starts the kubelet without " + argumentsOfInit + ", in which first boot says which cluster and node it is; remove it unless it is meant so", nil
	}
	if path.Base(name) == kubeletUnit {
		return "", nil
	}
	for _, d := range doubtful() {
		if slices.ContainsFunc(lines, func(l string) bool { return sets(l, d.setting) }) {
			return "its " + d.setting + " " + d.does + ", and wins over this node's own; remove it if it is a former node's", nil
		}
	}
	return "", nil
}

// settings are the lines of a unit file that count, with those joined that a
// backslash continues (systemd.syntax(7)).
func settings(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(bytes.ReplaceAll(text, []byte("\\\n"), []byte(" ")))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
			lines = append(lines, line)
		}
	}
	return lines
}

// sets says whether a line has the flag, with a value after "=" or after a space.
func sets(line, flag string) bool {
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'=", r) }) {
		if word == flag {
			return true
		}
	}
	return false
}
