package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
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
	return plan.Acts(plan.Action{Verb: plan.Write, Target: hostsFile, Reason: "addresses of the Outpost's control plane", Do: func(context.Context, plan.Progress) error {
		attr, err := h.Files.Attributes(hostsFile)
		if errors.Is(err, fs.ErrNotExist) {
			attr, err = host.Attributes{Mode: 0o644}, nil
		}
		if err != nil {
			return err
		}
		return h.Files.WriteFile(hostsFile, []byte(content), attr)
	}}), nil
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
	var lines []string
	for _, a := range slices.Compact(addresses) {
		lines = append(lines, a+"\t"+name+" "+hostsMark)
	}
	return lines, nil
}

// bootID is the file with the boot's random ID. The ID differs on every boot and
// every instance.
const bootID = "/proc/sys/kernel/random/boot_id"

// cached is the cache file: the merged NodeConfig and the facts that the config
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
	text, err := json.Marshal(map[string]any{"apiVersion": nodeconfig.APIVersion, "kind": nodeconfig.Kind, "spec": c.Spec})
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	config, err := nodeconfig.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("reading the NodeConfig in the cache %s: %w", name, err)
	}
	return config, nil
}

func (s Surroundings) cachedFacts(ctx context.Context, h *host.Host, name string, config *nodeconfig.NodeConfig, aws AWS, want instance.Wants) (instance.Facts, error) {
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
