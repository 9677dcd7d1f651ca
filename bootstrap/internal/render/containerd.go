package render

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

const sandboxPlaceholder = "SANDBOX_IMAGE"

// ContainerdImports matches the files that Amazon Linux 2's template imports.
const ContainerdImports = "/etc/containerd/config.d/*.toml"

//go:embed assets/base-runtime-spec.json
var baseRuntimeSpec []byte

func containerdFiles(n *node.Node) ([]File, error) {
	config, err := containerdConfig(n)
	if err != nil {
		return nil, fmt.Errorf("writing containerd's configuration: %w", err)
	}
	var spec nodeconfig.Document
	if err := json.Unmarshal(baseRuntimeSpec, &spec); err != nil {
		return nil, fmt.Errorf("reading the built-in OCI specification: %w", err)
	}
	content, err := encode(nodeconfig.MergeDocuments(spec, n.Containerd.BaseRuntimeSpec))
	if err != nil {
		return nil, fmt.Errorf("writing spec.containerd.baseRuntimeSpec: %w", err)
	}
	return []File{
		file(BaseRuntimeSpec, content, "the default OCI specification of containers", Containerd),
		secret(ContainerdConfig, config, "containerd's configuration", Containerd),
	}, nil
}

func containerdConfig(n *node.Node) ([]byte, error) {
	if t := n.Containerd.Template; t != nil {
		return bytes.ReplaceAll(t, []byte(sandboxPlaceholder), []byte(n.Containerd.PauseImage)), nil
	}
	user, err := n.Containerd.Config.Table()
	if err != nil {
		return nil, fmt.Errorf("spec.containerd.config: %w", err)
	}
	// The newest version that containerd supports, unless the user's part has an older one:
	// containerd 2 supports both, but does not merge them (its docs/containerd-2.0.md).
	config, old := version2(n), n.Machine.Containerd.Less(2, 0)
	switch version, err := nodeconfig.ContainerdVersion(user); {
	case err != nil:
		return nil, fmt.Errorf("spec.containerd.config: %w", err)
	case old && version > 2:
		return nil, fmt.Errorf("spec.containerd.config has version %d, which containerd %s does not support; write "+
			"the configuration in version 2, with plugins.%q", version, n.Machine.Containerd, nodeconfig.CRIv2)
	case !old && version != 2:
		config = version3(n)
	}
	if n.Form == node.BootstrapScript {
		config["imports"] = []string{ContainerdImports}
	}
	if n.Containerd.SOCI {
		config["proxy_plugins"] = map[string]any{"soci": map[string]any{
			"type": "snapshot", "address": strings.TrimPrefix(sociSocket, "unix://"),
			"exports": map[string]any{"root": machine.SOCIFolder},
		}}
	}
	text, err := toml.Marshal(map[string]any(nodeconfig.MergeDocuments(config, user)))
	return append([]byte(Mark+"\n"), text...), err
}

// daemon returns the settings outside of plugins.
func daemon(version int) nodeconfig.Document {
	return nodeconfig.Document{
		"version": version, "root": "/var/lib/containerd", "state": "/run/containerd",
		"grpc": map[string]any{"address": strings.TrimPrefix(containerdSocket, "unix://")},
	}
}

func version2(n *node.Node) nodeconfig.Document {
	runtime := runtimes(n)
	runtime["discard_unpacked_layers"] = !n.Containerd.KeepUnpackedLayers
	snapshotter(n, runtime)
	config := daemon(2)
	cri := map[string]any{
		"sandbox_image": n.Containerd.PauseImage,
		"enable_cdi":    cdi(n),
		"registry":      registries(),
		"containerd":    runtime,
		"cni":           map[string]any{"bin_dir": "/opt/cni/bin", "conf_dir": "/etc/cni/net.d"},
	}
	downloads(n, cri)
	if n.Machine.Containerd.Less(1, 7) {
		delete(cri, "enable_cdi") // new in 1.7
	}
	config["plugins"] = map[string]any{nodeconfig.CRIv2: cri}
	return config
}

func version3(n *node.Node) nodeconfig.Document {
	cni := map[string]any{"bin_dir": "/opt/cni/bin", "conf_dir": "/etc/cni/net.d"}
	if !n.Machine.Containerd.Less(2, 3) {
		delete(cni, "bin_dir")
		cni["bin_dirs"] = []string{"/opt/cni/bin"}
	}
	images := map[string]any{
		"discard_unpacked_layers": !n.Containerd.KeepUnpackedLayers,
		"pinned_images":           map[string]any{"sandbox": n.Containerd.PauseImage},
		"registry":                registries(),
	}
	snapshotter(n, images)
	downloads(n, images)
	config := daemon(3)
	config["plugins"] = map[string]any{
		nodeconfig.ImagesV3:  images,
		nodeconfig.RuntimeV3: map[string]any{"enable_cdi": cdi(n), "containerd": runtimes(n), "cni": cni},
	}
	return config
}

// cdi reports whether to enable the Container Device Interface, as EKS does since
// 1.32.
func cdi(n *node.Node) bool { return !n.Machine.Kubelet.Less(1, 32) }

func registries() map[string]any {
	return map[string]any{"config_path": "/etc/containerd/certs.d:/etc/docker/certs.d"}
}

func downloads(n *node.Node, images map[string]any) {
	if most := n.Containerd.MaxConcurrentDownloads; most > 0 {
		images["max_concurrent_downloads"] = most
	}
}

func snapshotter(n *node.Node, images map[string]any) {
	if n.Containerd.SOCI {
		images["snapshotter"], images["disable_snapshot_annotations"] = "soci", false
	}
}

// runtimes returns the OCI runtime: NVIDIA's if the image has it, otherwise runc. As
// upstream, the instance need not have an NVIDIA device.
func runtimes(n *node.Node) map[string]any {
	name, program := "runc", n.Machine.Runc
	if n.Machine.NVIDIARuntime {
		name, program = "nvidia", machine.NVIDIARuntime
	}
	options := map[string]any{"SystemdCgroup": true}
	if program != "" {
		options["BinaryName"] = program
	}
	return map[string]any{
		"default_runtime_name": name,
		"runtimes": map[string]any{name: map[string]any{
			"runtime_type": "io.containerd.runc.v2", "base_runtime_spec": BaseRuntimeSpec, "options": options,
		}},
	}
}

// ecrImages returns the patterns of ECR's registries in all partitions. Source:
// amazon-eks-ami, July 2026.
func ecrImages() []string {
	return []string{
		"*.dkr.ecr.*.amazonaws.com",
		"*.dkr-ecr.*.on.aws",
		"*.dkr.ecr.*.amazonaws.com.cn",
		"*.dkr-ecr.*.on.amazonwebservices.com.cn",
		"*.dkr.ecr-fips.*.amazonaws.com",
		"*.dkr-ecr-fips.*.on.aws",
		"*.dkr.ecr.*.c2s.ic.gov",
		"*.dkr.ecr.*.sc2s.sgov.gov",
		"*.dkr.ecr.*.cloud.adc-e.uk",
		"*.dkr.ecr.*.csp.hci.ic.gov",
		"*.dkr.ecr.*.amazonaws.eu",
		"public.ecr.aws",
	}
}

// credentialProviderFiles returns the file that lists the images for which the
// kubelet runs the credential provider.
func credentialProviderFiles(n *node.Node) ([]File, error) {
	if !n.Machine.CredentialProvider {
		return nil, nil
	}
	type provider struct {
		Name                 string   `json:"name"`
		APIVersion           string   `json:"apiVersion"`
		DefaultCacheDuration string   `json:"defaultCacheDuration"`
		MatchImages          []string `json:"matchImages"`
	}
	version, images := "v1", ecrImages()
	if n.Machine.Kubelet.Less(1, 27) {
		version = "v1alpha1" // kubernetes/cloud-provider-aws#597
	}
	if !n.Machine.Kubelet.Less(1, 32) {
		images = append(images, "ecr-public.aws.com")
	}
	content, err := encode(struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Providers  []provider `json:"providers"`
	}{
		"kubelet.config.k8s.io/" + version, "CredentialProviderConfig",
		[]provider{{machine.CredentialProviderName, "credentialprovider.kubelet.k8s.io/" + version, "12h0m0s", images}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the credential provider's configuration: %w", err)
	}
	why := "the images for which the kubelet requests credentials"
	return []File{file(CredentialProvider, content, why, Kubelet)}, nil
}

//go:embed assets/soci.toml
var sociConfig []byte

// sociOrder makes containerd wait until the SOCI snapshotter is ready.
const sociOrder = Mark + `
[Unit]
Requires=soci-snapshotter.service
After=soci-snapshotter.service
`

// sociFiles returns the configuration with which the SOCI snapshotter fetches and
// unpacks in parallel, and its order before containerd. The values are upstream's.
func sociFiles(n *node.Node) ([]File, error) {
	if !n.Containerd.SOCI {
		return nil, nil
	}
	return []File{
		file(SOCIConfig, sociConfig, "the SOCI snapshotter's configuration of parallel pulls", SOCI),
		file(SOCIOrder, []byte(sociOrder), "containerd starts after the SOCI snapshotter", Systemd, Containerd),
	}, nil
}
