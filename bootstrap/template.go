package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
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
	if back, own := emptied(content, shipped, call); back != nil {
		if !own {
			warnings = append(warnings, templates.KubeletConfig+" was filled in for a former node; the settings that bootstrap.sh writes there are left out")
		}
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

// filled are the keys that bootstrap.sh writes into the kubelet's template and
// that the node's description does not always replace, with the values of this
// node.
func filled(call *node.Call) map[string]any {
	return map[string]any{
		"maxPods": call.Instance.MaxPods(), "systemReservedCgroup": "/system", "kubeReservedCgroup": "/runtime",
		"kubeAPIQPS": 10, "kubeAPIBurst": 20, "providerID": nil, "resolvConf": render.ResolvConf,
	}
}

// emptied is a kubelet's template without the settings of an earlier bootstrap;
// nil when the template names no instance. Of this instance's own settings those
// go that bootstrap.sh wrote, and a user's edits stay; own says that the template
// is this instance's.
func emptied(content, shipped []byte, call *node.Call) (back []byte, own bool) {
	var config, before map[string]json.RawMessage
	if json.Unmarshal(content, &config) != nil || config["providerID"] == nil {
		return nil, false // whoever reads the template reports what is no JSON
	}
	if json.Unmarshal(shipped, &before) != nil {
		before = nil
	}
	own = string(config["providerID"]) == strconv.Quote(call.Instance.ProviderID())
	for key, value := range filled(call) {
		text, err := json.Marshal(value)
		written := err == nil && string(config[key]) == string(text)
		if own && !written && key != "providerID" || key == "resolvConf" && !written {
			continue
		}
		if delete(config, key); before[key] != nil {
			config[key] = before[key]
		}
	}
	back, err := json.Marshal(config)
	if err != nil {
		return nil, own // it was read from JSON
	}
	return back, own
}

// eksPause finds EKS's pause image of some region in containerd's configuration.
var eksPause = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`((?m)^\s*(?:sandbox_image|sandbox)\s*=\s*")\d{12}\.dkr[.-]ecr[^"]*/eks/pause[:@][^"]*(")`)
})
