package render

import (
	"bytes"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// clusterFiles returns the certificate authority and the kubeconfig. On an Outpost
// the rendered file is the bootstrap kubeconfig. The kubelet requests a certificate
// with this file and writes the kubeconfig itself, so that authorization also works
// while AWS is not reachable.
func clusterFiles(n *node.Node) ([]File, error) {
	ca := bytes.TrimRight(n.Cluster.CA, "\n")
	kubeconfig := File{Path: Kubeconfig, Mode: 0o644, Content: kubeconfig(n), Why: "the kubelet's connection to the API server", Of: []Service{Kubelet}}
	if n.Cluster.Outpost {
		kubeconfig.Path = BootstrapKubeconfig
	}
	return []File{
		{Path: ClusterCA, Mode: 0o644, Content: append(ca[:len(ca):len(ca)], '\n'), Why: "the cluster's certificate authority", Of: []Service{Kubelet}},
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
