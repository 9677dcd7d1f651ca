//go:build e2e && full

package join_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// foreign turns an image that eksnode provisioned into an image of another
// maker. The image has no record of its templates. The templates have comments
// and settings of the maker, and another form of the token command.
const foreign = `rm -r /etc/eks/eksnode
cat > /var/lib/kubelet/kubeconfig <<'EOF'
# Of the platform team's images; nodes fill it in.
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: MASTER_ENDPOINT
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: kubelet}
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args:
        - token
        - -i
        - 'CLUSTER_NAME'
        - --region
        - AWS_REGION
EOF
sed -i 's|"clusterDomain"|"containerLogMaxFiles": 7,\n  "clusterDomain"|' /etc/kubernetes/kubelet/kubelet-config.json
sed -i '1i # Of the platform team.\n' /etc/eks/containerd/containerd-config.toml
cd / && sha256sum $templates > /root/templates.sum
`

// foreignTemplates are the files that Amazon Linux 2's script edits with sed.
const foreignTemplates = `templates="/var/lib/kubelet/kubeconfig /etc/kubernetes/kubelet/kubelet-config.json /etc/eks/containerd/containerd-config.toml"
`

// An image of another maker, with templates of its own, joins cluster A by
// Amazon's steps, which fill in the templates with sed. The scrub replaces the
// values by placeholders and keeps the rest. New instances then join cluster B:
// by Amazon's steps, by bootstrap.sh and by NodeConfig.
func TestScrubRestoresForeignTemplates(t *testing.T) {
	w := openWorld(t, lab.System{}, 20*time.Minute)
	theirs, clean := filepath.Join(w.Folder(), "theirs.raw"), filepath.Join(w.Folder(), "clean.raw")
	maker := w.launch("i-maker", w.image, w.a.role, nil)
	maker.Sh(w.t, foreignTemplates+foreign)
	maker.CaptureTo(t, theirs)

	first := w.launch(firstID, theirs, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
	w.works(w.a, first, "first", wordOfA)
	assert.Contains(t, first.Sh(w.t, "sha256sum --check /root/templates.sum 2>&1 || true"), "3 computed checksums did NOT match",
		"sed must fill in all templates")
	w.scrubbed(first, clean)

	one := w.launch("i-one", clean, w.b.role, nil)
	assert.NotContains(t, one.Sh(w.t, "sha256sum --check /root/templates.sum 2>&1 || true"), "FAILED", "the scrub did not restore the templates")
	w.end(one)
	for id, userData := range map[string][]byte{
		"i-amazon": w.b.amazonScript(""), "i-arguments": w.b.bootstrapScript(), "i-node-config": w.b.nodeConfig(),
	} {
		w.joinsB(id, clean, userData)
	}
}

// The chain of TestChain on an older release, with its own systemd.
func TestChainOnDebian12(t *testing.T) { chain(t, lab.System{Suite: "bookworm"}, "chain-debian-12") }
