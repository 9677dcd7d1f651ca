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

// doubt is a setting in a unit or drop-in of the kubelet that overrides the node's
// user data.
type doubt struct{ setting, does string }

// doubtful lists the settings that override first boot's values. $KUBELET_ARGS and
// $KUBELET_EXTRA_ARGS come last on the kubelet's command line.
func doubtful() []doubt {
	const identity, file = "sets the node's identity", "reads a file that first boot does not write"
	return []doubt{
		{"--hostname-override", identity}, {"--node-ip", identity}, {"--provider-id", identity},
		{"--kubeconfig", file}, {"--bootstrap-kubeconfig", file}, {"--config", file},
		{"--node-labels", "sets node labels"}, {"--register-with-taints", "sets node taints"},
	}
}

// doubts returns findings for a unit and drop-ins of the kubelet that may be
// leftover state or a user's own files. These files stay, and the journal reports
// them. Files that the plan removes anyway are left out.
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

// doubtOf describes how a unit or drop-in of the kubelet overrides first boot's
// values, or returns an empty text.
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
		return "the unit starts the kubelet without " + argumentsOfInit + ", with which first boot sets the cluster and the node; remove the file if this is not intended", nil
	}
	if path.Base(name) == kubeletUnit {
		return "", nil
	}
	for _, d := range doubtful() {
		if slices.ContainsFunc(lines, func(l string) bool { return sets(l, d.setting) }) {
			return "its " + d.setting + " " + d.does + ", and overrides this node's value; remove the file if it is leftover state", nil
		}
	}
	return "", nil
}

// settings returns the effective lines of a unit file. Lines that a backslash
// continues are joined (systemd.syntax(7)).
func settings(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(bytes.ReplaceAll(text, []byte("\\\n"), []byte(" ")))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
			lines = append(lines, line)
		}
	}
	return lines
}

// sets reports whether a line contains the flag, with a value after "=" or a space.
func sets(line, flag string) bool {
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\"'=", r) }) {
		if word == flag {
			return true
		}
	}
	return false
}
