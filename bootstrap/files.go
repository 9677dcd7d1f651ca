package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// configuration writes the rendered files and removes those of an earlier
// configuration.
type configuration struct {
	files []render.File
	// partial says that files of some daemons are left out. Files of an earlier
	// configuration then stay.
	partial bool
	// transient says that every boot renders the files again.
	transient bool
}

func (configuration) ID() string    { return "configuration" }
func (configuration) Phase() string { return string(Config) }

// Plan implements plan.Item. Done means that every file is as rendered and that no
// file of an earlier configuration is left.
func (c configuration) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	var wanted []plan.File
	for _, f := range c.files {
		wanted = append(wanted, plan.File{Path: f.Path, Content: f.Content, Mode: f.Mode, Why: f.Why,
			Transient: c.transient})
	}
	actions, err := plan.Files(h, wanted)
	if err != nil || c.partial {
		return plan.Acts(actions...), err
	}
	ours, err := marked(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var old []string
	for _, name := range append(render.Possible(), ours...) {
		if !slices.ContainsFunc(c.files, func(f render.File) bool { return f.Path == name }) {
			old = append(old, name)
		}
	}
	removals, err := plan.Absent(h, "the file belongs to an earlier configuration", old...)
	return plan.Acts(append(actions, removals...)...), err
}

// marked lists the files with eksnode's mark in folders that other programs use
// too.
func marked(h *host.Host) ([]string, error) {
	candidates := []string{
		render.SystemEnvironment, render.SOCIConfig, render.SOCIOrder, render.ScriptArguments,
		render.ScriptExtraArguments,
	}
	const units = "/etc/systemd/system"
	entries, err := afero.ReadDir(h.Files, units)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for drop-ins: %w", err)
	}
	for _, e := range entries {
		if service, ok := strings.CutSuffix(e.Name(), ".service.d"); ok && e.IsDir() {
			candidates = append(candidates, path.Clean(render.ServiceEnvironment(service)))
		}
	}
	var ours []string
	for _, name := range candidates {
		own, err := render.IsOurs(h, name)
		if err != nil {
			return nil, err
		}
		if own {
			ours = append(ours, name)
		}
	}
	return ours, nil
}

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
			warnings = append(warnings, templates.KubeletConfig+" contains the settings of another node; the "+
				"settings that bootstrap.sh writes there are left out")
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
		warnings = append(warnings,
			templates.ContainerdConfig+" contains the settings of another node; its pause image is left out")
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
var eksPause = show.Regexp(`((?m)^\s*(?:sandbox_image|sandbox)\s*=\s*")\d{12}\.dkr[.-]ecr[^"]*/eks/pause[:@][^"]*(")`)

// system makes systemd and systemd-resolved read their changed files.
type system struct {
	files []render.File
	// partial says that files of some daemons are left out.
	partial bool
}

func (system) ID() string    { return "system" }
func (system) Phase() string { return string(Config) }

// Plan implements plan.Item. Done means that both services have read their current
// files.
func (s system) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	if !h.HasSystemd() {
		return plan.Answer{}, nil
	}
	var answer plan.Answer
	for _, r := range []struct {
		service render.Service
		argv    []string
		why     string
	}{
		{render.Systemd, []string{"systemctl", "daemon-reload"}, "systemd must read the services' environments"},
		{render.Resolved, []string{"systemctl", "restart", "systemd-resolved.service"},
			"systemd-resolved must read its DNS servers"},
	} {
		sum := digest(s.files, r.service)
		current, err := service.IsStartedWith(h, string(r.service), sum)
		if err != nil {
			return plan.Answer{}, err
		}
		if current || s.partial && sum == "" {
			continue
		}
		if r.service == render.Resolved {
			there, err := h.HasUnit("systemd-resolved.service")
			if err != nil {
				return plan.Answer{}, err
			}
			if !there {
				return plan.Answer{}, fmt.Errorf("spec.instance.network needs systemd-resolved, which is not installed")
			}
		}
		answer.Act(service.Recorded(h, plan.Command(h, r.why, r.argv...), string(r.service), sum))
	}
	return answer, nil
}

// digest returns the digest of the files that a service reads.
func digest(files []render.File, of render.Service) string {
	var d service.Digest
	for _, f := range files {
		if slices.Contains(f.Of, of) {
			d.Add(f.Path, f.Content)
		}
	}
	return d.Sum()
}

// bpf mounts the bpf file system, in which eBPF programs pin maps and programs.
// systemd mounts it itself since version 238.
type bpf struct{}

func (bpf) ID() string    { return "bpf-file-system" }
func (bpf) Phase() string { return "disks" }

// Plan implements plan.Item. Done means that the bpf file system is mounted, or
// that the kernel does not support it.
func (bpf) Plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	const where = "/sys/fs/bpf"
	there, err := h.Exists(where)
	if err != nil || !there {
		return plan.Answer{}, err
	}
	mounted, err := h.Files.IsMountPoint(where)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("looking at %s: %w", where, err)
	}
	if mounted {
		return plan.Answer{}, nil
	}
	why := "network policies keep their eBPF programs there"
	return plan.Acts(plan.Command(h, why, "mount", "-t", "bpf", "bpf", where)), nil
}
