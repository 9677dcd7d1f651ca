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

// evidence shows that the machine was another node.
type evidence string

const (
	// otherCluster: its configuration is of another cluster.
	otherCluster evidence = "cluster"
	// otherInstance: its configuration is of another instance.
	otherInstance evidence = "instance"
	// nobody: it has no configuration. Whatever a kubelet left was then left by
	// a node of which nothing else is known, because a node's first boot writes
	// the configuration before its kubelet starts.
	nobody evidence = "nobody"
	// otherCertificate: the kubelet's serving certificate is for another node.
	otherCertificate evidence = "certificate"
)

// evidence is what the machine shows, each with the reason for its files to go.
func (s State) evidence(h *host.Host) (map[evidence]string, error) {
	found := map[evidence]string{}
	var err error
	if found[otherCluster], err = s.anotherCluster(h); err != nil {
		return nil, err
	}
	if found[otherInstance], found[nobody], err = s.anotherInstance(h); err != nil {
		return nil, err
	}
	found[otherCertificate], err = s.anotherCertificate(h)
	return found, err
}

// rendered is the content that a file will have.
func (s State) rendered(name string) []byte {
	for _, file := range s.Files {
		if file.Path == name {
			return file.Content
		}
	}
	return nil
}

// anotherCluster says why the machine was another cluster's node, or nothing.
func (s State) anotherCluster(h *host.Host) (string, error) {
	have, err := h.Content(render.ClusterCA)
	if err != nil {
		return "", err
	}
	if have != nil && !bytes.Equal(have, s.rendered(render.ClusterCA)) {
		return "it is of a cluster with another certificate authority", nil
	}
	for _, name := range []string{render.Kubeconfig, render.BootstrapKubeconfig} {
		text, err := h.Content(name)
		if err != nil {
			return "", err
		}
		if server := serverOf(text); strings.HasPrefix(server, "http") && server != s.Node.Cluster.Endpoint {
			return "it is of the cluster at " + server, nil
		}
	}
	return "", nil
}

// serverOf finds the API server of a kubeconfig.
func serverOf(kubeconfig []byte) string {
	for line := range strings.Lines(string(kubeconfig)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "server:"); ok {
			return strings.Trim(strings.TrimSpace(rest), `"'`)
		}
	}
	return ""
}

// anotherInstance compares whom the kubelet's configuration is of: that of
// either contract names the instance, and before Kubernetes 1.26 the arguments
// name its address. Configuration that names nobody is taken for this node's.
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
		return "it is of the instance " + path.Base(have), "", nil
	}
	if text == nil {
		return "", "it is of a node of which this machine has no configuration", nil
	}
	arguments, err := h.Content(render.KubeletEnvironment)
	if err != nil {
		return "", "", err
	}
	if address := addressIn(arguments); address != "" && address != addressIn(s.rendered(render.KubeletEnvironment)) {
		return "it is of the node at " + address, "", nil
	}
	return "", "", nil
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// providerOf finds the instance that a kubelet's configuration is of.
func providerOf(config []byte) string {
	var c struct {
		ProviderID string `json:"providerID"`
	}
	if json.Unmarshal(config, &c) != nil {
		return "" // it is written anew in any case
	}
	return c.ProviderID
}

// addressIn finds the node's address in the kubelet's arguments.
func addressIn(arguments []byte) string {
	_, rest, _ := strings.Cut(string(arguments), "--node-ip=")
	address, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(address)
}

// anotherCertificate looks whom the kubelet's serving certificate is for.
// Whoever has one files no request for another, so that its logs stay
// unreachable for good.
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
			return "its certificate is for " + c.Subject.CommonName + ", not for this node at " + s.Node.Instance.Address, nil
		}
		return "", nil
	}
	return "", nil
}
