//go:build linux

package scrub

import (
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// findCase is a tree for a rule, and what the rule does with it.
type findCase struct {
	Name     string
	Files    map[string]string
	Recorded map[string]string // templates of the manifest
	Changes  []string
	Leaves   map[string]string
	Finds    *[]string // by an audit, if the test compares that
}

// found has trees for rules, from testdata/cases.yaml.
var found = sync.OnceValue(func() (all map[string][]findCase) {
	decode("testdata/cases.yaml", &all)
	for _, cases := range all {
		for _, c := range cases {
			fillIn(c.Files)
			for file, text := range c.Recorded {
				c.Files[manifest.Path[1:]] = recorded(file, text)
			}
		}
	}
	return all
})

// nodes are the trees of testdata/nodes.yaml.
func nodes() (all struct{ Joined, Kept map[string]string }) {
	decode("testdata/nodes.yaml", &all)
	fillIn(all.Joined)
	return all
}

// joinedNode is a machine that joined a cluster by Amazon Linux 2's bootstrap.sh.
func joinedNode() map[string]string { return nodes().Joined }

// fillIn replaces {{names}} in the files of testdata with their values.
func fillIn(files map[string]string) {
	var names []string
	for what, text := range map[string]string{
		"init": templates.InitMark, "hosts": templates.HostsMark, "schema": manifest.Schema,
		"kubeconfig": templateText(templates.Kubeconfig), "kubelet's config": templateText(templates.KubeletConfig),
		"containerd's config": templateText(templates.ContainerdConfig), "joined kubeconfig": joinedKubeconfig,
		"joined containerd": joinedContainerd, "local containerd": localContainerd,
		"nodeadm's kubeconfig": nodeadmKubeconfig, "passwd": passwd, "key": sshKey,
	} {
		names = append(names, "{{"+what+"}}", text)
	}
	filled := strings.NewReplacer(names...)
	for name, text := range files {
		files[name] = filled.Replace(text)
	}
}

var joinedContainerd = strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE",
	"918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.5", 1)

// localContainerd is the template filled in with a pause image that the image
// contains.
var localContainerd = strings.Replace(templateText(templates.ContainerdConfig), "SANDBOX_IMAGE",
	"localhost/kubernetes/pause:latest", 1)

func recorded(path, content string) string {
	template := manifest.Template{Path: path, Mode: 0o644, Content: content, SHA256: manifest.Sum([]byte(content))}
	m := manifest.Manifest{Templates: []manifest.Template{template}}
	text, err := m.Encode()
	if err != nil {
		panic(err) // a manifest of one text
	}
	return string(text)
}

// Files that rules write or remove, and other facts about them.
const (
	containerMark  = "types.containerd.io/opencontainers/runtime-spec"
	containerdMeta = containerd.MetadataPath
	neutralID      = "ffffffffffffffffffffffffffffffff"
	recordPath     = "/etc/eks/eksnode/scrubbed.json"
	sshdCloudInit  = "/etc/ssh/sshd_config.d/50-cloud-init.conf"
	changedMost    = 20
	hostKeyMakers  = "cloud-init.service, cloud-init-network.service, sshdgenkeys.service, sshd-keygen.target, " +
		"sshd-keygen.service, sshd-keygen@.service, ssh-keygen.service, coreos-sshkeys.service"
)

// fill is a secret's random part.
func fill(n int) string { return strings.Repeat("Zx7Q", n/4+1)[:n] }

func pemKey(kind string) string {
	const dashes = "-----"
	line := fill(64) + "\n"
	return dashes + "BEGIN " + kind + dashes + "\n" + line + line + dashes + "END " + kind + dashes + "\n"
}
