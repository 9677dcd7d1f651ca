package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// The files that Amazon's nodeadm renders have no mark. They are recognized by
// settings that only nodeadm combines, on machines that have nodeadm: each first
// boot writes the files again.

// baseRuntimeSpec matches the setting of containerd's runtime that names
// nodeadm's file of limits, in all forms that nodeadm and containerd print.
var baseRuntimeSpec = rule.Expression(`(?m)^\s*base_runtime_spec\s*=\s*["']/etc/containerd/base-runtime-spec\.json["']`)

// sociTables are the tables of the configuration that nodeadm renders for SOCI's
// snapshotter.
var sociTables = []string{
	"[content_store]", "[cri_keychain]", "[pull_modes.parallel_pull_unpack]",
	`[pull_modes.parallel_pull_unpack.decompress_streams."gzip"]`,
}

// isNodeadmsSOCI reports whether nodeadm rendered a configuration of SOCI's
// snapshotter: it has nodeadm's tables and the socket of containerd, and no
// comment.
func isNodeadmsSOCI(d *rule.Draft, text []byte) bool {
	lines := configLines(text)
	for _, needed := range []string{"[cri_keychain]", "[pull_modes.parallel_pull_unpack]",
		`image_service_path = "/run/containerd/containerd.sock"`} {
		if !slices.Contains(lines, needed) {
			return false
		}
	}
	other := func(line string) bool { return strings.HasPrefix(line, "[") && !slices.Contains(sociTables, line) }
	return !strings.Contains(string(text), "#") && !slices.ContainsFunc(lines, other) && nodeadm.there(d)
}

// clusterNodeConfigs plans the removal of NodeConfigs that name a cluster. A text that
// is not plain YAML is a finding: first boot fails on it, or unpacks base64, gzip and
// MIME, and the old cluster may be inside.
func clusterNodeConfigs(d *rule.Draft) {
	names := slices.DeleteFunc(d.Glob(d.Paths...), func(name string) bool { // no first boot reads others
		return !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name)))
	})
	d.Texts(names, func(name string, text []byte) {
		switch named, err := namesCluster(text); {
		case err != nil:
			d.Find(name, fmt.Sprintf("not readable as plain YAML, so the file may name the old cluster or make first "+
				"boot fail (%v): repair or remove the file", err))
		case named:
			d.Remove(name, "names the old cluster, and would override a new node's user data")
		}
	})
}

func namesCluster(text []byte) (bool, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var config struct {
			Kind string `yaml:"kind"`
			Spec struct {
				Cluster map[string]any `yaml:"cluster"`
			} `yaml:"spec"`
		}
		if err := d.Decode(&config); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if config.Kind == "NodeConfig" && len(config.Spec.Cluster) > 0 {
			return true, nil
		}
	}
}

// rendered matches the whole of a drop-in as nodeadm renders it: assignments in
// quotes, and nothing else.
var rendered = regexp.MustCompile(`^(?:\[Service\]\n(?:Environment="[^"=\n]+=(?:[^"\\\n]|\\.)*"\n)+|` +
	`\[Manager\]\n(?:DefaultEnvironment="[^"=\n]+=(?:[^"\\\n]|\\.)*"\n)+)$`)

// generatedEnvironments plans the removal of drop-ins that a first boot wrote.
// eksnode marks its files. Amazon's nodeadm does not, so its form counts only
// where nodeadm has configured the machine.
func generatedEnvironments(d *rule.Draft) {
	// Only a first boot by NodeConfig writes these files. The rule runs before the one that removes them.
	configured := slices.ContainsFunc([]string{
		"/etc/eks/kubelet/environment", "/etc/kubernetes/kubelet/config.json",
		"/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf",
		"/etc/kubernetes/kubelet/config.json.d/00-nodeadm.conf",
	}, d.Exists)
	d.Texts(d.Matching(d.Paths...), func(name string, text []byte) {
		form := configured && isRendered(string(text))
		if name == d.Paths[0] {
			form = slices.Equal(configLines(text),
				[]string{"[Unit]", "Requires=soci-snapshotter.service", "After=soci-snapshotter.service"})
		}
		if isInits(text) || form {
			d.Remove(name, "first boot wrote it")
		}
	})
}

// isRendered reports whether nodeadm could have rendered a drop-in: it sorts the
// variables by name.
func isRendered(text string) bool {
	if !rendered.MatchString(text) {
		return false
	}
	var names []string
	for line := range strings.Lines(text) {
		if _, assignment, ok := strings.Cut(line, `"`); ok {
			name, _, _ := strings.Cut(assignment, "=")
			names = append(names, name)
		}
	}
	return slices.IsSorted(names) && len(slices.Compact(slices.Clone(names))) == len(names)
}
