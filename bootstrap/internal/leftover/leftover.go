// Package leftover removes leftover state at first boot: files of another node, on a
// machine whose image was captured from a node.
package leftover

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	kubeletFolder = "/var/lib/kubelet"
	systemUnits   = "/etc/systemd/system"
	kubeletUnit   = "kubelet.service"
	// amazonFolder is the folder from which Amazon Linux 2's script copies units.
	amazonFolder = "/etc/eks/containerd"
)

// State removes the files that another node's kubelet wrote, and the files that
// Amazon Linux 2's bootstrap.sh wrote for that kubelet. With these files the kubelet
// joins as another node, serves no logs or does not start. Files that a user may
// have written stay, and State reports them as findings.
type State struct {
	// Node is the node to configure, and Files are its rendered files.
	Node  *node.Node
	Files []render.File
}

// ID implements plan.Item.
func (State) ID() string { return "leftover-state" }

// Phase implements plan.Item.
func (State) Phase() string { return "config" }

// row is a row of the table: files of one kind and the conditions for their removal.
// Any one condition is enough.
type row struct {
	paths []string
	// of lists the evidence that removes the files.
	of []evidence
	// unless reports whether a file's content keeps the file in spite of the
	// evidence.
	unless func(h *host.Host, name string) (bool, error)
	// holds returns a reason to remove a file because of its content, without
	// evidence of another node.
	holds func(h *host.Host, name string) (why string, err error)
	// unit marks a systemd unit. The links that enable the unit are removed too.
	unit bool
}

// table lists all leftover state. docs/design/why-scrub.md describes the effect of
// each file on a node.
func (s State) table() []row {
	anotherNode := []evidence{otherCluster, otherInstance, unknownNode}
	dropIns := path.Join(systemUnits, kubeletUnit+".d")
	return []row{
		{paths: below("pki"), of: []evidence{otherCluster, otherInstance, otherCertificate}},
		{paths: below("cpu_manager_state", "memory_manager_state"), of: anotherNode, holds: s.otherPolicy},
		{
			paths: below("dra_manager_state", "allocated_pods_state", "actuated_pods_state", "pod_status_manager_state",
				"graceful_node_shutdown_state", "device-plugins/kubelet_internal_checkpoint"),
			of: anotherNode, holds: damaged,
		},
		{
			paths: []string{path.Join(dropIns, "10-kubelet-args.conf"),
				path.Join(dropIns, "30-kubelet-extra-args.conf")},
			of: anotherNode, unless: notAmazonsDropIn, unit: true,
		},
		{paths: []string{path.Join(systemUnits, kubeletUnit)}, holds: amazonsKubelet, unit: true},
		{paths: []string{path.Join(systemUnits, "sandbox-image.service")}, holds: amazonsSandboxImage, unit: true},
		{paths: []string{render.Kubeconfig}, holds: s.strayKubeconfig},
	}
}

// Plan implements plan.Item. Done means that the kubelet finds no file of another
// cluster or node, apart from the findings.
func (s State) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	shown, err := s.evidence(h)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("looking for leftover state: %w", err)
	}
	var actions []plan.Action
	units := false
	for _, row := range s.table() {
		for _, name := range row.paths {
			more, err := row.plan(h, name, shown)
			if err != nil {
				return plan.Answer{}, fmt.Errorf("looking for leftover state: %w", err)
			}
			if row.unit && len(more) > 0 {
				units = true
				if more, err = end(ctx, h, path.Base(name), more); err != nil {
					return plan.Answer{}, err
				}
			}
			actions = append(actions, more...)
		}
	}
	if units && h.HasSystemd() {
		// Needed too if systemd has queued the start of the kubelet.
		actions = append(actions,
			plan.Command(h, "systemd must forget the removed units", "systemctl", "daemon-reload"))
	}
	if actions, err = s.stopFirst(ctx, h, actions); err != nil {
		return plan.Answer{}, err
	}
	found, err := doubts(h, actions)
	return plan.Answer{Actions: actions, Findings: found}, err
}

// plan returns the actions that remove one of the row's files.
func (r row) plan(h *host.Host, name string, shown map[evidence]string) ([]plan.Action, error) {
	if there, err := plan.IsThere(h, name); err != nil || !there {
		return nil, err
	}
	why := cmp.Or(show.Each(r.of, func(e evidence) string { return shown[e] })...)
	if why != "" && r.unless != nil {
		if spared, err := r.unless(h, name); err != nil || spared {
			return nil, err
		}
	}
	if why == "" && r.holds != nil {
		var err error
		if why, err = r.holds(h, name); err != nil {
			return nil, err
		}
	}
	if why == "" {
		return nil, nil
	}
	names := []string{name}
	if r.unit && path.Base(name) != kubeletUnit { // the item services enables or disables the kubelet
		links, err := h.Enablements(path.Base(name))
		if err != nil {
			return nil, err
		}
		names = append(links, name)
	}
	return plan.Absent(h, why, names...)
}

// end stops a service, or resets its failed state, before the unit's file is
// removed. Otherwise systemd lists a failed service until the next boot. stopFirst
// handles the kubelet.
func end(ctx context.Context, h *host.Host, unit string, actions []plan.Action) ([]plan.Action, error) {
	if !h.HasSystemd() || path.Ext(unit) != ".service" || unit == kubeletUnit {
		return actions, nil
	}
	states, err := h.UnitProperty(ctx, "ActiveState", unit)
	if err != nil {
		return nil, err
	}
	switch states[0] {
	case "inactive":
		return actions, nil
	case "failed":
		reset := plan.Command(h, "the unit failed, and its file is removed", "systemctl", "reset-failed", unit)
		return slices.Insert(actions, 0, reset), nil
	default:
		return slices.Insert(actions, 0, plan.Command(h, "the unit's file is removed", "systemctl", "stop", unit)), nil
	}
}

func below(names ...string) []string {
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = path.Join(kubeletFolder, n)
	}
	return paths
}

// stopFirst stops a running kubelet before the removal of its files.
func (State) stopFirst(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
	if len(actions) == 0 || !h.HasSystemd() {
		return actions, nil
	}
	active, err := h.IsActive(ctx, kubeletUnit)
	if err != nil || !active {
		return actions, err
	}
	stop := plan.Command(h, "the kubelet runs as another node", "systemctl", "stop", kubeletUnit)
	stop.Verb, stop.Target = plan.Stop, kubeletUnit
	return slices.Insert(actions, 0, stop), nil
}

// evidence is one kind of proof that the machine was another node.
type evidence string

const (
	// otherCluster: the configuration belongs to another cluster.
	otherCluster evidence = "cluster"
	// otherInstance: the configuration belongs to another instance.
	otherInstance evidence = "instance"
	// unknownNode: the machine has no configuration. All files of a kubelet are
	// then leftover state of an unknown node, because first boot writes the
	// configuration before the kubelet starts.
	unknownNode evidence = "unknown node"
	// otherCertificate: the kubelet's serving certificate is for another node.
	otherCertificate evidence = "certificate"
)

// evidence returns the evidence on the machine. Each value is the reason to remove
// the files.
func (s State) evidence(h *host.Host) (map[evidence]string, error) {
	found := map[evidence]string{}
	var err error
	if found[otherCluster], err = s.anotherCluster(h); err != nil {
		return nil, err
	}
	if found[otherInstance], found[unknownNode], err = s.anotherInstance(h); err != nil {
		return nil, err
	}
	found[otherCertificate], err = s.anotherCertificate(h)
	return found, err
}

// rendered returns the content that first boot renders for a path, or nil.
func (s State) rendered(name string) []byte {
	for _, file := range s.Files {
		if file.Path == name {
			return file.Content
		}
	}
	return nil
}

// anotherCluster describes why the machine was a node of another cluster, or returns
// an empty text.
func (s State) anotherCluster(h *host.Host) (string, error) {
	have, err := h.Content(render.ClusterCA)
	if err != nil {
		return "", err
	}
	if have != nil && !bytes.Equal(have, s.rendered(render.ClusterCA)) {
		return "the file belongs to a cluster with a different certificate authority", nil
	}
	for _, name := range []string{render.Kubeconfig, render.BootstrapKubeconfig} {
		text, err := h.Content(name)
		if err != nil {
			return "", err
		}
		if server := serverOf(text); strings.HasPrefix(server, "http") && server != s.Node.Cluster.Endpoint {
			return "the file belongs to the cluster at " + server, nil
		}
	}
	return "", nil
}

func serverOf(kubeconfig []byte) string {
	for line := range strings.Lines(string(kubeconfig)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "server:"); ok {
			return strings.Trim(strings.TrimSpace(rest), `"'`)
		}
	}
	return ""
}

// anotherInstance reports whether the kubelet's configuration belongs to another
// instance. The configuration of both contracts names the instance; before
// Kubernetes 1.26 the kubelet's arguments name the node's address. Configuration
// without either is treated as this node's own. unknown is set when there is no
// configuration.
func (s State) anotherInstance(h *host.Host) (another, unknown string, err error) {
	text, err := h.Content(render.KubeletConfig)
	if err != nil {
		return "", "", err
	}
	script, err := h.Content(templates.KubeletConfig)
	if err != nil {
		return "", "", err
	}
	want := providerOf(s.rendered(render.KubeletConfigOf(s.Node)))
	if have := cmp.Or(providerOf(text), providerOf(script)); have != "" {
		if have == want {
			return "", "", nil
		}
		return "the file belongs to the instance " + path.Base(have), "", nil
	}
	if text == nil {
		return "", "the file belongs to a node whose configuration is missing", nil
	}
	arguments, err := h.Content(render.KubeletEnvironment)
	if err != nil {
		return "", "", err
	}
	if address := addressIn(arguments); address != "" && address != addressIn(s.rendered(render.KubeletEnvironment)) {
		return "the file belongs to the node at " + address, "", nil
	}
	return "", "", nil
}

// providerOf returns the provider ID in a kubelet's configuration.
func providerOf(config []byte) string {
	var c struct {
		ProviderID string `json:"providerID"`
	}
	if json.Unmarshal(config, &c) != nil {
		return "" // first boot replaces this file
	}
	return c.ProviderID
}

func addressIn(arguments []byte) string {
	_, rest, _ := strings.Cut(string(arguments), "--node-ip=")
	address, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(address)
}

// anotherCertificate reports whether the kubelet's serving certificate belongs to
// another node. A kubelet with a certificate does not request a new one, so the API
// server could never read its logs.
func (s State) anotherCertificate(h *host.Host) (string, error) {
	if s.Node.Name == "" {
		return "", nil
	}
	text, err := h.Content(path.Join(kubeletFolder, "pki/kubelet-server-current.pem"))
	if err != nil {
		return "", fmt.Errorf("reading the kubelet's certificate: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "the kubelet's certificate is damaged", nil
		}
		elsewhere := len(c.IPAddresses) > 0 && c.VerifyHostname(s.Node.Instance.Address) != nil
		if c.Subject.CommonName != "system:node:"+s.Node.Name || elsewhere {
			return "the certificate is for " + c.Subject.CommonName + ", not for this node at " +
				s.Node.Instance.Address, nil
		}
		return "", nil
	}
	return "", nil
}
