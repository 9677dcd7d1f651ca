package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

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
