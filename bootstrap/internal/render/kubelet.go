package render

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// The sockets of containerd and the SOCI snapshotter.
const (
	containerdSocket = "unix:///run/containerd/containerd.sock"
	sociSocket       = "unix:///run/soci-snapshotter-grpc/soci-snapshotter-grpc.sock"
)

// ResolvConf lists the DNS servers of systemd-resolved, which pods can reach.
const ResolvConf = "/run/systemd/resolve/resolv.conf"

// kubeletConfig returns the kubelet's configuration without the user's part.
func kubeletConfig(n *node.Node) map[string]any {
	v := n.Machine.Kubelet
	config := maps.Clone(n.Kubelet.Template)
	script := n.Form == node.BootstrapScript
	if config == nil {
		config = kubelet.Defaults()
	}
	config["cgroupDriver"] = "systemd"
	config["clusterDNS"] = n.Cluster.DNS
	config["evictionHard"] = map[string]any{"memory.available": "100Mi", "nodefs.available": "10%",
		"nodefs.inodesFree": "5%"}
	config["kubeReserved"] = map[string]any{
		"cpu":               fmt.Sprintf("%dm", reservedCPU(n.Machine.CPUs)),
		"ephemeral-storage": "1Gi",
		"memory":            fmt.Sprintf("%dMi", 11*n.ReservedPods()+255),
	}
	if n.Kubelet.PodsFrom != node.Unlimited {
		config["maxPods"] = n.Kubelet.MaxPods
	}
	if n.Kubelet.ReservedCgroups {
		kubelet.ReserveInCgroups(config)
	}
	if script || !v.Less(1, 26) {
		config["providerID"] = n.Instance.ProviderID()
	}
	if v.Less(1, 27) {
		// Since 1.27 the kubelet's own defaults are higher.
		setDefault(config, "kubeAPIQPS", 10)
		setDefault(config, "kubeAPIBurst", 20)
	}
	if !script {
		kubelet.AddOfVersion(config, v.Minor)
		setDefault(config, "logging", map[string]any{"verbosity": 2})
	}
	if !script && !v.Less(1, 27) {
		config["containerRuntimeEndpoint"] = containerdSocket // a flag before
		if n.Containerd.SOCI {
			config["imageServiceEndpoint"] = sociSocket
		}
	}
	if n.Machine.ResolvedStub {
		setDefault(config, "resolvConf", ResolvConf)
	}
	return config
}

func setDefault(config map[string]any, name string, value any) {
	if config[name] == nil {
		config[name] = value
	}
}

// reservedCPU returns the reserved CPU time in thousandths of a CPU: 6 % of the first
// CPU, 1 % of the second, 0.5 % of the third and fourth and 0.25 % of all others, each
// rounded down.
func reservedCPU(cpus int) int {
	total := 0
	for _, r := range []struct{ from, to, basisPoints int }{{0, 1, 600}, {1, 2, 100}, {2, 4, 50}, {4, cpus, 25}} {
		if n := min(cpus, r.to) - r.from; n > 0 {
			total += n * 1000 * r.basisPoints / 10000
		}
	}
	return total
}

// hasDropIn reports whether the user's part is a separate drop-in. Before 1.29, the
// user's part is merged into the configuration, as upstream does.
func hasDropIn(n *node.Node) bool { return len(n.Kubelet.Config) > 0 && !n.Machine.Kubelet.Less(1, 29) }

func kubeletFiles(n *node.Node) ([]File, error) {
	config := nodeconfig.Document(kubeletConfig(n))
	files := []File{secret(KubeletConfigOf(n), nil, "the kubelet's configuration", Kubelet)}
	if !hasDropIn(n) {
		config = nodeconfig.MergeDocuments(config, n.Kubelet.Config)
	} else {
		user := nodeconfig.MergeDocuments(nodeconfig.Document{
			"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		}, n.Kubelet.Config)
		content, err := encode(user)
		if err != nil {
			return nil, fmt.Errorf("writing spec.kubelet.config: %w", err)
		}
		files = append(files, secret(KubeletDropIn, content, "the user's part of the kubelet's configuration", Kubelet))
	}
	content, err := encode(config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	files[0].Content = content
	arguments := file(KubeletEnvironment, kubeletEnvironment(n), "the kubelet's arguments", Kubelet)
	return append(append(files, scriptFiles(n)...), arguments), nil
}

// clusterFiles returns the certificate authority and the kubeconfig. On an Outpost
// the rendered file is the bootstrap kubeconfig. The kubelet requests a certificate
// with this file and writes the kubeconfig itself, so that authorization also works
// while AWS is not reachable.
func clusterFiles(n *node.Node) ([]File, error) {
	ca := bytes.TrimRight(n.Cluster.CA, "\n")
	kubeconfig := file(Kubeconfig, kubeconfig(n), "the kubelet's connection to the API server", Kubelet)
	if n.Cluster.Outpost {
		kubeconfig.Path = BootstrapKubeconfig
	}
	return []File{
		file(ClusterCA, append(ca[:len(ca):len(ca)], '\n'), "the cluster's certificate authority", Kubelet),
		kubeconfig,
	}, nil
}

// kubeconfig returns the kubeconfig. eksnode itself signs the tokens; the AWS CLI is
// not needed, and takes seconds to load from a cold disk.
func kubeconfig(n *node.Node) []byte {
	cluster := n.Cluster.Name
	if n.Cluster.Outpost {
		cluster = n.Cluster.ID
	}
	return fmt.Appendf(nil, `%s
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: %s
    server: %s
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubelet
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: %s
      args:
      - token
      - --cluster-name
      - %q
      - --region
      - %q
`, Mark, ClusterCA, n.Cluster.Endpoint, n.Machine.Command, cluster, n.Instance.Region)
}
