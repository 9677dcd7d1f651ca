// Package provisioner turns a plain machine into an EKS node. A Spec becomes a list
// of steps, and each step plans the remaining work on a host.
package provisioner

import (
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// Spec describes a node image. The zero value is not valid: KubernetesVersion is
// required.
//
// Each field is the option on every surface: its tag is the name in HCL and JSON
// and, with dashes, the flag of `eksnode provision`. Its comment becomes the
// documentation, and the first sentence the flag's help. The flag tag "file" marks
// values that are text in HCL and files for the command.
type Spec struct {
	// Distribution to treat the machine as, whatever its `/etc/os-release`
	// says. For derivatives that behave like a known one.
	Distro string `json:"distro,omitempty" mapstructure:"distro"`
	// Kubelet version, complete, such as `1.34.4`. Nothing is resolved to
	// "latest".
	KubernetesVersion string `json:"kubernetes_version" mapstructure:"kubernetes_version" required:"true"`
	Sources           `mapstructure:",squash"`
	// Mirror or folder that has each asset at `URL/<publisher's
	// host>/<publisher's path>`, the publisher's checksum file beside it. A
	// folder of the machine is written `file:///media/mirror`. Defaults to the
	// publishers' own sites.
	SourceURL  string `json:"source_url,omitempty" mapstructure:"source_url"`
	Containers `mapstructure:",squash"`
	// Versions of assets other than those that go with `kubernetes_version`, by
	// the asset's name. For example `{ "cni-plugins" = "1.9.1" }`.
	Versions map[string]string `json:"versions,omitempty" mapstructure:"versions"`
	// SHA-256 that assets must have, in hexadecimal, by the asset's name. The
	// checksum file of a pinned asset is not read.
	Checksums map[string]string `json:"checksums,omitempty" mapstructure:"checksums"`
	// Additional packages, by the distribution's own names. Those with which no
	// node works, such as firewalld or a second kubelet, are refused.
	Packages []string `json:"packages,omitempty" mapstructure:"packages"`
	// Additional kernel parameters, by names with dots. For example
	// `{ "net.core.somaxconn" = "4096" }`. They hold from the next boot on; the
	// builder machine keeps the values that it has. Values that a parameter cannot have, and
	// those with which no node works, are refused.
	Sysctls map[string]string `json:"sysctls,omitempty" mapstructure:"sysctls"`
	// Packages to install in one version and hold there, by name. Versions are
	// written as the distribution does, such as
	// `{ "containerd" = "1.7.24~ds1-6" }`; updates do not change these packages.
	// Arch has no other versions than the newest.
	PackageVersions map[string]string `json:"package_versions,omitempty" mapstructure:"package_versions"`
	// Certificate authorities to trust, by a name of your choice. Each is one
	// certificate in PEM, such as `{ "example" = file("ca.pem") }`.
	CACertificates map[string]string `json:"ca_certificates,omitempty" mapstructure:"ca_certificates" flag:"file"`
	// Arguments for the kernel's command line, such as
	// `nvme_core.io_timeout=4294967295`. They hold from the next boot on. Those
	// with which no node works, such as `root=`, are refused.
	KernelArguments []string `json:"kernel_arguments,omitempty" mapstructure:"kernel_arguments"`
	// How containers name their GPUs, `envvar` or `volume-mounts`; installs
	// NVIDIA's container toolkit. With `volume-mounts` a container without
	// privileges gets at no GPU that it was not given; the device plugin's
	// `deviceListStrategy` must be the same. The toolkit comes from a repository
	// that the machine knows. Drivers are the base image's business.
	NVIDIAContainerToolkit string `json:"nvidia_container_toolkit,omitempty" mapstructure:"nvidia_container_toolkit"`
	// Prepare the node for Elastic Fabric Adapter. This adds rdma-core, modules,
	// lockable memory, and 5128 huge pages, which take 10 GiB from the next boot
	// on and which `sysctls` may change.
	EFA bool `json:"efa,omitempty" mapstructure:"efa"`
	// Stop unless the machine runs in FIPS mode. Turning it on belongs to the
	// base image; the error says how.
	FIPS bool `json:"fips,omitempty" mapstructure:"fips"`
	// What configures the node at its first boot, `eksnode` or `none`. With
	// `eksnode` the node joins by a NodeConfig in user data and by
	// `/etc/eks/bootstrap.sh`; `none` is for images with a first boot of their
	// own. Defaults to `eksnode`.
	Bootstrap string `json:"bootstrap,omitempty" mapstructure:"bootstrap"`
	// Settings of the CIS benchmarks: `tmp-noexec`, `umask`, `audit`. With
	// `tmp-noexec` nothing runs from `/tmp`, from the next boot on; a later build
	// then needs another `remote_folder`. `umask` is 027 for people. `audit` is
	// auditd, and rules for what a node is made of.
	Hardening []string `json:"hardening,omitempty" mapstructure:"hardening"`
}

// Local is what a provision uses on the Packer host or workstation. No machine
// hears of these paths. Comments and tags mean the same as in Spec.
type Local struct {
	// Lock file, which `eksnode lock` makes. Anything that is not what the file
	// says is refused. The file lies on the Packer host.
	LockFile string `mapstructure:"lock_file"`
	// OCI archives to search for images before any registry. They are files on
	// the Packer host that `docker save`, `skopeo` or `ctr images export` wrote.
	ImageArchives []string `mapstructure:"image_archives"`
	// Folder that keeps downloads. It lies on the Packer host and has the images
	// and, with `download_on = "packer-host"`, everything. Defaults to
	// `eksnode/assets` in the user's cache folder.
	CacheFolder string `mapstructure:"cache_folder"`
}

// Cache is the folder that keeps downloads.
func (l Local) Cache() (string, error) {
	if l.CacheFolder != "" {
		return l.CacheFolder, nil
	}
	return asset.DefaultCache()
}

// Check refuses paths that would have no effect with a spec.
func (l Local) Check(s Spec) error {
	// A list that is not known yet is empty, and not nil.
	if len(l.ImageArchives) > 0 && s.Images == nil && s.PauseImage == "" {
		return surface.Errorf("%s has no effect without %s or %s: name those that the node shall have", fieldImageArchives, fieldImages, fieldPauseImage)
	}
	return nil
}
