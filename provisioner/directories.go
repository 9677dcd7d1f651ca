package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// folder is a directory of a node.
type folder struct{ path, why string }

// folders lists the directories, parents first, so that the umask decides no
// parent's mode.
func folders() []folder {
	return []folder{
		{"/etc/kubernetes", "the node's Kubernetes configuration"},
		{"/etc/kubernetes/kubelet", "the kubelet's configuration"},
		{"/etc/kubernetes/manifests", "static pods"},
		{"/etc/kubernetes/pki", "the cluster's CA"},
		{"/etc/eks", "files for first boot"},
		{"/etc/eks/containerd", "containerd's template"},
		{"/etc/eks/eksnode", "the image's manifest"},
		{"/etc/eks/image-credential-provider", "the kubelet runs credential providers from here"},
		{"/etc/eks/kubelet", "the kubelet's arguments, written at first boot"},
		{"/etc/containerd", "containerd's configuration, written at first boot"},
		{"/etc/containerd/config.d", "additions to containerd's configuration"},
		{"/etc/containerd/certs.d", "settings of registries"},
		{"/etc/cni", "pod networks"},
		{"/etc/cni/net.d", "empty until the VPC CNI writes its own"},
		{"/opt/cni", "pod networks"},
		{"/opt/cni/bin", "CNI plugins; the VPC CNI adds its own"},
		{"/var/lib/kubelet", "the kubelet's state"},
		{"/etc/systemd/system/containerd.service.d", "containerd's drop-ins"},
	}
}

// directories makes the folders. Existing folders keep their modes, which their
// package or owner decides.
func (n *node) directories(_ context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	for _, f := range folders() {
		g.add(planFolder(h, f))
	}
	return g.all()
}

func planFolder(h *host.Host, f folder) ([]plan.Action, error) {
	st, err := h.Files.Stat(f.path)
	switch {
	case err == nil && st.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("%s must be a folder but is a file; remove the file", f.path)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return []plan.Action{act(plan.Mkdir, f.path, f.why, func(context.Context) error {
		if err := h.Files.MkdirAll(f.path, 0o755); err != nil {
			return err
		}
		return h.Files.Chmod(f.path, 0o755)
	})}, nil
}
