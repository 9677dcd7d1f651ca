package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// readTemplates reads the templates as they lie on the machine: users edit them
// before they call bootstrap.sh. What Amazon Linux 2's script filled in for a
// former node is left out, and told. containerd's counts only when somebody
// changed it, because the built-in one fits more versions of containerd.
func readTemplates(h *host.Host, call *node.Call) (warnings []string, err error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	content, err := h.Content(templates.KubeletConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's template: %w", err)
	}
	shipped := shippedTemplate(m, templates.KubeletConfig)
	if content == nil {
		content = shipped
	}
	if back := emptied(content, shipped); back != nil {
		warnings = append(warnings, templates.KubeletConfig+" was filled in for a former node; what Amazon Linux 2's bootstrap.sh writes there is left out")
		content = back
	}
	call.KubeletConfig = content
	if name := call.ContainerdConfigFile; name != "" {
		if call.ContainerdConfig, err = h.Content(name); err != nil {
			return nil, fmt.Errorf("reading --containerd-config-file: %w", err)
		}
		if call.ContainerdConfig == nil {
			return nil, fmt.Errorf("reading --containerd-config-file: %s is missing", name)
		}
		return warnings, nil
	}
	if content, err = h.Content(templates.ContainerdConfig); err != nil {
		return nil, fmt.Errorf("reading containerd's template: %w", err)
	}
	if back := eksPause().ReplaceAll(content, []byte("${1}SANDBOX_IMAGE${2}")); !bytes.Equal(back, content) {
		warnings = append(warnings, templates.ContainerdConfig+" was filled in for a former node; its pause image is left out")
		content = back
	}
	if content != nil && !bytes.Equal(content, shippedTemplate(m, templates.ContainerdConfig)) {
		call.ContainerdConfig = content
	}
	return warnings, nil
}

// shippedTemplate is a template as the image has it, or as it is built in.
func shippedTemplate(m *manifest.Manifest, name string) []byte {
	if t, ok := m.Template(name); ok {
		return []byte(t.Content)
	}
	for _, t := range templates.All() {
		if t.Path == name {
			return t.Content
		}
	}
	return nil
}

// filledKeys are those that Amazon Linux 2's bootstrap.sh writes into the
// kubelet's template and that the node's description does not always replace.
var filledKeys = []string{"providerID", "maxPods", "systemReservedCgroup", "kubeReservedCgroup", "kubeAPIQPS", "kubeAPIBurst"}

// emptied is a kubelet's template without what was filled in for a former node;
// nil where nothing was, which a template shows by naming no instance.
func emptied(content, shipped []byte) []byte {
	var config, before map[string]json.RawMessage
	if json.Unmarshal(content, &config) != nil || config["providerID"] == nil {
		return nil // what is no JSON is told by whoever reads it
	}
	if json.Unmarshal(shipped, &before) != nil {
		before = nil
	}
	for _, key := range filledKeys {
		if delete(config, key); before[key] != nil {
			config[key] = before[key]
		}
	}
	back, err := json.Marshal(config)
	if err != nil {
		return nil // it was read from JSON
	}
	return back
}

// eksPause finds EKS's pause image of some region in containerd's configuration.
var eksPause = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`((?m)^\s*(?:sandbox_image|sandbox)\s*=\s*")\d{12}\.dkr[.-]ecr[^"]*/eks/pause[:@][^"]*(")`)
})
