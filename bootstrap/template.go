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

// readTemplates reads the templates from the machine, because users edit them
// before they call bootstrap.sh. Values that Amazon Linux 2's script wrote for
// another node are left out, with a warning. containerd's template is used only if
// a user changed it, because the built-in template fits more versions of containerd.
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
			warnings = append(warnings, templates.KubeletConfig+" contains the settings of another node; the settings that bootstrap.sh writes there are left out")
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
		warnings = append(warnings, templates.ContainerdConfig+" contains the settings of another node; its pause image is left out")
		content = back
	}
	if content != nil && !bytes.Equal(content, shippedTemplate(m, templates.ContainerdConfig)) {
		call.ContainerdConfig = content
	}
	return warnings, nil
}

// shippedTemplate returns the template recorded in the image's manifest, or the
// built-in template.
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

// filled returns the keys that bootstrap.sh writes into the kubelet's template,
// with the values of this node. The node's rendered configuration does not always
// replace these keys.
func filled(call *node.Call) map[string]any {
	return map[string]any{
		"maxPods": call.Instance.MaxPods(), "systemReservedCgroup": "/system", "kubeReservedCgroup": "/runtime",
		"kubeAPIQPS": 10, "kubeAPIBurst": 20, "providerID": nil, "resolvConf": render.ResolvConf,
	}
}

// emptied returns the kubelet's template without the settings of an earlier
// bootstrap, or nil when the template names no instance. own reports whether the
// template names this instance. Then only the values that bootstrap.sh wrote are
// removed, and a user's edits stay.
func emptied(content, shipped []byte, call *node.Call) (back []byte, own bool) {
	var config, before map[string]json.RawMessage
	if json.Unmarshal(content, &config) != nil || config["providerID"] == nil {
		return nil, false // Call.Node reports invalid JSON
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
		return nil, own // impossible: config was decoded from JSON
	}
	return back, own
}

// eksPause matches EKS's pause image of any region in containerd's configuration.
var eksPause = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`((?m)^\s*(?:sandbox_image|sandbox)\s*=\s*")\d{12}\.dkr[.-]ecr[^"]*/eks/pause[:@][^"]*(")`)
})
