package leftover

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

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

// serverOf returns the API server in a kubeconfig.
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
	if have := firstNonEmpty(providerOf(text), providerOf(script)); have != "" {
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

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
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

// addressIn returns the node's address in the kubelet's arguments.
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
			return "the certificate is for " + c.Subject.CommonName + ", not for this node at " + s.Node.Instance.Address, nil
		}
		return "", nil
	}
	return "", nil
}
