package render

import (
	"bytes"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// clusterFiles are the certificate authority and the way to the API server. On
// an Outpost the kubelet gets a certificate through the second kubeconfig and
// writes the first itself, so that it is authorized when AWS is out of reach.
func clusterFiles(n *node.Node) ([]File, error) {
	ca := bytes.TrimRight(n.Cluster.CA, "\n")
	kubeconfig := File{Path: Kubeconfig, Mode: 0o644, Content: kubeconfig(n), Why: "the way to the API server", Of: []Service{Kubelet}}
	if n.Cluster.Outpost {
		kubeconfig.Path = BootstrapKubeconfig
	}
	return []File{
		{Path: ClusterCA, Mode: 0o644, Content: append(ca[:len(ca):len(ca)], '\n'), Why: "the cluster's certificate authority", Of: []Service{Kubelet}},
		kubeconfig,
	}, nil
}

// kubeconfig gets its tokens from this program, which signs them itself: the
// AWS CLI is not needed, and takes seconds to load from a cold disk.
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
