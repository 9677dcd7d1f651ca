package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	hostsFile = "/etc/hosts"
	// hostsMark ends the lines that eksnode writes.
	hostsMark = templates.HostsMark
)

// controlPlane keeps the addresses of an Outpost's control plane in /etc/hosts.
// The node then finds the control plane while the Outpost is disconnected from AWS.
type controlPlane struct {
	node   *node.Node
	lookup func(ctx context.Context, host string) ([]string, error)
}

func (controlPlane) ID() string    { return "control-plane-address" }
func (controlPlane) Phase() string { return string(Config) }

// Plan implements plan.Item. Done means that the file has the current addresses of
// the name and no others. While the name does not resolve, its lines stay.
func (c controlPlane) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	text, err := h.Content(hostsFile)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("reading %s: %w", hostsFile, err)
	}
	var kept strings.Builder
	var own []string
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(strings.TrimSpace(line), hostsMark) {
			own = append(own, strings.TrimSpace(line))
		} else {
			kept.WriteString(line)
		}
	}
	want, err := c.lines(ctx, own)
	if err != nil || slices.Equal(own, want) {
		return plan.Answer{}, err
	}
	content := kept.String()
	if content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n"
	}
	for _, line := range want {
		content += line + "\n"
	}
	return plan.Acts(plan.Edit{
		Path: hostsFile, Target: hostsFile, Why: "addresses of the Outpost's control plane",
		Change: func(string) string { return content },
	}.Action(h)), nil
}

func (c controlPlane) lines(ctx context.Context, own []string) ([]string, error) {
	if !c.node.Cluster.Outpost {
		return nil, nil
	}
	name, err := nodeconfig.EndpointHost(c.node.Cluster.Endpoint)
	if err != nil {
		return nil, err
	}
	addresses, err := c.lookup(ctx, name)
	if err != nil {
		if slices.ContainsFunc(own, func(line string) bool { return strings.Contains(line, "\t"+name+" ") }) {
			return own, nil
		}
		return nil, fmt.Errorf("finding the Outpost's control plane: %w", err)
	}
	slices.Sort(addresses)
	return show.Each(slices.Compact(addresses), func(a string) string { return a + "\t" + name + " " + hostsMark }), nil
}

// bootID is the file with the boot's random ID. The ID differs on every boot and
// every instance.
const bootID = "/proc/sys/kernel/random/boot_id"

// cached is the cache file: the NodeConfig of the sources and the facts that the config
// phase gathered. Later runs of the same boot reuse both.
type cached struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Spec       json.RawMessage `json:"spec"`
	Boot       string          `json:"boot"`
	Wants      instance.Wants  `json:"wants"`
	Facts      instance.Facts  `json:"facts"`
}

// readCache returns the cache of this boot and the text of the cache file. c is
// nil when the file is missing, invalid or of an earlier boot.
func readCache(h *host.Host, name string) (c *cached, text []byte, boot string, err error) {
	id, err := h.Content(bootID)
	if err != nil {
		return nil, nil, "", fmt.Errorf("reading the boot ID: %w", err)
	}
	if text, err = h.Content(name); err != nil {
		return nil, nil, "", fmt.Errorf("reading the cache: %w", err)
	}
	boot = strings.TrimSpace(string(id))
	var old cached
	if json.Unmarshal(text, &old) != nil || boot == "" || old.Boot != boot {
		return nil, text, boot, nil
	}
	return &old, text, boot, nil
}

// CachedConfig returns the NodeConfig that an earlier run of this boot cached in
// the file name, or nil.
func CachedConfig(h *host.Host, name string) (*nodeconfig.NodeConfig, error) {
	c, _, _, err := readCache(h, name)
	if err != nil || c == nil || len(c.Spec) == 0 {
		return nil, err
	}
	config, err := nodeconfig.DecodeSpec(c.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading the NodeConfig in the cache %s: %w", name, err)
	}
	return config, nil
}

func (s Services) cachedFacts(ctx context.Context, h *host.Host, name string, config *nodeconfig.NodeConfig, aws AWS,
	want instance.Wants) (instance.Facts, error) {
	if name == "" {
		return s.facts(ctx, aws, want)
	}
	old, before, boot, err := readCache(h, name)
	if err != nil {
		return instance.Facts{}, err
	}
	now := cached{APIVersion: nodeconfig.APIVersion, Kind: nodeconfig.Kind, Boot: boot, Wants: want}
	if now.Spec, err = config.SpecJSON(); err != nil {
		return instance.Facts{}, err
	}
	if old != nil && old.Wants == want {
		now.Facts = old.Facts
	} else if now.Facts, err = s.facts(ctx, aws, want); err != nil {
		return instance.Facts{}, err
	}
	text, err := json.Marshal(now)
	if err != nil {
		return instance.Facts{}, fmt.Errorf("encoding the cache: %w", err)
	}
	if bytes.Equal(text, before) {
		return now.Facts, nil
	}
	if err := h.Files.WriteFile(name, text, host.Attributes{Mode: 0o600}); err != nil {
		return instance.Facts{}, fmt.Errorf("writing the cache: %w", err)
	}
	return now.Facts, nil
}

type services struct {
	node  *node.Node
	files []render.File
	names []render.Service
	// asIs says that this run writes no files: the services read those of an earlier run.
	asIs bool
}

const startServices = "services"

func (services) ID() string    { return "services" }
func (services) Phase() string { return startServices }

// starting returns the items that start the services and supply the pause image. A
// pause image from the archive is there before the kubelet starts. A pull may take
// long, and the kubelet does not wait for it.
func starting(n *node.Node, files []render.File, pick Selection) []plan.Item {
	chosen := func(all ...render.Service) services {
		return services{n, files, slices.DeleteFunc(all, func(r render.Service) bool {
			return !pick.concerns(r) || r == render.SOCI && !n.Containerd.SOCI
		}), slices.Contains(pick.Skip, Config)}
	}
	runtime, image := []render.Service{render.SOCI, render.Containerd}, pause{n, 250 * time.Millisecond}
	switch {
	case !pick.concerns(render.Containerd):
		return []plan.Item{chosen(render.Kubelet)}
	case image.isLocal():
		return []plan.Item{chosen(runtime...), image, chosen(render.Kubelet)}
	default:
		return []plan.Item{chosen(append(runtime, render.Kubelet)...), image}
	}
}

// unitState holds the properties of a unit that systemctl show prints.
type unitState struct{ load, active, file, reload string }

func (u unitState) running() bool { return u.active != "inactive" && u.active != "failed" }

// Plan implements plan.Item. Done means that every service runs with the current
// files and is enabled as its contract needs. With a NodeConfig, first boot
// configures and starts the services at every boot. bootstrap.sh runs once in an
// instance's life, so systemd must start the services after a reboot.
func (s services) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if len(s.names) == 0 {
		return plan.Answer{}, nil
	}
	states, err := unitStates(ctx, h, s.names)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, state := range states {
		if state.reload == "yes" {
			answer.Act(plan.Command(h, "systemd must read the changed units", "systemctl", "daemon-reload"))
			break
		}
	}
	for _, name := range s.names {
		unit, state := string(name)+".service", states[string(name)+".service"]
		if state.load != "loaded" {
			return plan.Answer{}, fmt.Errorf("starting %s: systemd reports the unit as %s; build the image with "+
				"this unit", unit, state.load)
		}
		switch enabled := state.file == "enabled"; {
		case s.node.Form == node.BootstrapScript && !enabled:
			why := "bootstrap.sh does not run again after a reboot"
			answer.Act(as(plan.Enable, unit, plan.Command(h, why, "systemctl", "enable", unit)))
		case s.node.Form == node.NodeConfig && enabled && name == render.Kubelet:
			why := "first boot configures and starts the kubelet at every boot"
			answer.Act(as(plan.Disable, unit, plan.Command(h, why, "systemctl", "disable", unit)))
		}
		start, err := s.start(h, name, state)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Act(start...)
	}
	return answer, nil
}

func (s services) start(h *host.Host, name render.Service, state unitState) ([]plan.Action, error) {
	unit := string(name) + ".service"
	sum, err := s.sum(h, name)
	if err != nil {
		return nil, err
	}
	current, err := service.IsStartedWith(h, string(name), sum)
	if err != nil {
		return nil, err
	}
	verb, why := "start", "the node needs it"
	switch {
	case state.running() && current:
		return nil, nil
	case state.running():
		verb, why = "restart", "a file that the service reads has changed"
	}
	a := plan.Command(h, why, "systemctl", verb, unit)
	run := a.Do
	a.Do = func(ctx context.Context, p plan.Progress) error {
		if err := s.checkConfig(ctx, h, name); err != nil {
			return err
		}
		return run(ctx, p)
	}
	return []plan.Action{service.Recorded(h, a, string(name), sum)}, nil
}

// checkConfig lets containerd read a configuration with a user's part before containerd
// starts with it: the failure of a unit does not name the line.
func (s services) checkConfig(ctx context.Context, h *host.Host, name render.Service) error {
	own := len(s.node.Containerd.Config) > 0 || s.node.Containerd.Template != nil
	if name != render.Containerd || !own || !h.HasCommand("containerd") {
		return nil
	}
	argv := []string{"containerd", "--config", render.ContainerdConfig, "config", "dump"}
	if _, err := h.Run(ctx, host.Command{Argv: argv}); err != nil {
		return fmt.Errorf("checking containerd's configuration; spec.containerd.config or the template has a "+
			"mistake: %w",
			err)
	}
	return nil
}

// sum returns the digest of the files that a service reads. For containerd, these
// include the users' files that its configuration imports.
func (s services) sum(h *host.Host, name render.Service) (string, error) {
	files := slices.Clone(s.files)
	rendered := len(files)
	if name == render.Containerd && s.node.Form == node.BootstrapScript {
		imported, err := afero.Glob(h.Files, render.ContainerdImports)
		if err != nil {
			return "", fmt.Errorf("listing containerd's imports: %w", err)
		}
		for _, f := range imported {
			files = append(files, render.File{Path: f, Of: []render.Service{name}})
		}
	}
	for i, f := range files {
		if i < rendered && !s.asIs {
			continue
		}
		var err error
		if files[i].Content, err = h.Content(f.Path); err != nil {
			return "", fmt.Errorf("reading the files of %s: %w", name, err)
		}
	}
	return digest(files, name), nil
}

func as(verb plan.Verb, target string, a plan.Action) plan.Action {
	a.Verb, a.Target = verb, target
	return a
}

func unitStates(ctx context.Context, h *host.Host, names []render.Service) (map[string]unitState, error) {
	argv := []string{"systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState,NeedDaemonReload"}
	for _, n := range names {
		argv = append(argv, string(n)+".service")
	}
	out, err := h.Run(ctx, host.Command{Argv: argv})
	if err != nil {
		return nil, fmt.Errorf("reading the state of the services from systemd: %w", err)
	}
	states := map[string]unitState{}
	for block := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[name] = value
		}
		states[values["Id"]] = unitState{values["LoadState"], values["ActiveState"], values["UnitFileState"],
			values["NeedDaemonReload"]}
	}
	return states, nil
}
