package eksnode

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config

import (
	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Config is the fields of a `provisioner "eksnode"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`

	// Treat the machine as this distribution, whatever its `/etc/os-release`
	// says: for derivatives that behave like a known one.
	Distro string `mapstructure:"distro"`
	// The kubelet's version, complete, such as `1.34.4`. Nothing is resolved to
	// "latest".
	KubernetesVersion string `mapstructure:"kubernetes_version" required:"true"`
	// The publisher of what no package brings: `upstream`, which is the release
	// sites of Kubernetes and of each project, or `eks-bucket`, the public
	// bucket of EKS' own builds. Defaults to the lock file's, or `upstream`.
	Source string `mapstructure:"source"`
	// The day of EKS' build, such as `2025-11-13`. Needed with `source =
	// "eks-bucket"` when there is no lock file.
	EKSBuildDate string `mapstructure:"eks_build_date"`
	// A mirror that serves each asset at `SOURCE/<publisher's host>/<publisher's
	// path>`, with the publisher's checksum file beside it, or a folder of the
	// machine that holds them so, such as `file:///media/mirror`. Defaults to
	// the publishers' own sites.
	SourceURL string `mapstructure:"source_url"`
	// Where downloads are made: `machine`, where the machine itself fetches
	// them, or `packer-host`, where the Packer host does, keeps them, and sends
	// them through the connection that Packer has to the machine, which then
	// needs no network but for its packages. A folder in `source_url` is the
	// Packer host's then. Defaults to `machine`.
	DownloadOn string `mapstructure:"download_on"`
	// Folder on the Packer host that keeps what it fetches: images, and with
	// `download_on = "packer-host"` everything. Defaults to that of `eksnode
	// lock`, in the user's cache folder.
	CacheFolder string `mapstructure:"cache_folder"`
	// Container images that the node has before it starts, so that it need not
	// pull them, such as
	// `["registry.k8s.io/coredns/coredns:v1.12.1@sha256:…"]`: named as pods name
	// them, and with the digest of the manifest or of its list, unless
	// `lock_file` has it. The Packer host gets them, with the credentials it
	// has, and sends them to the machine.
	Images []string `mapstructure:"images"`
	// The pause image, without which no pod starts, written like `images`. The
	// node calls it `localhost/kubernetes/pause:latest`, and keeps an archive
	// of it. Without this field the first boot pulls EKS' own.
	PauseImage string `mapstructure:"pause_image"`
	// OCI archives on the Packer host that are asked for images before any
	// registry: files that `docker save`, `skopeo` or `ctr images export` wrote.
	ImageArchives []string `mapstructure:"image_archives"`
	// Path on the Packer host of a lock file, which `eksnode lock` makes.
	// Anything that is not what it says is refused.
	LockFile string `mapstructure:"lock_file"`
	// Lay a bill of materials in the form of CycloneDX 1.5 into the image, at
	// `/etc/eks/eksnode/sbom.cdx.json`. Defaults to `false`.
	SBOM bool `mapstructure:"sbom"`
	// Other versions of assets than those that go with `kubernetes_version`, by
	// the asset's name, such as `{ "cni-plugins" = "1.9.1" }`.
	Versions map[string]string `mapstructure:"versions"`
	// The SHA-256 that assets must have, in hexadecimal, by the asset's name. A
	// pinned asset's checksum file is not asked for.
	Checksums map[string]string `mapstructure:"checksums"`
	// Additional packages, by the distribution's own names. Those with which no
	// node works, such as firewalld or a second kubelet, are refused.
	Packages []string `mapstructure:"packages"`
	// Additional kernel parameters, with dots, such as
	// `{ "net.core.somaxconn" = "4096" }`. They hold from the next boot on; the
	// builder machine keeps its own. Values that a parameter cannot have, and
	// those with which no node works, are refused.
	Sysctls map[string]string `mapstructure:"sysctls"`
	// Packages by their version, as the distribution writes it, such as
	// `{ "containerd" = "1.7.24~ds1-6" }`: installed in just that, and held, so
	// that no update changes them. Arch has no other versions than the newest.
	PackageVersions map[string]string `mapstructure:"package_versions"`
	// Certificate authorities to trust, in PEM, by a name of your choice, such
	// as `{ "example" = file("ca.pem") }`. Each is one certificate.
	CACertificates map[string]string `mapstructure:"ca_certificates"`
	// Arguments for the kernel's command line, such as
	// `["nvme_core.io_timeout=4294967295"]`. They hold from the next boot on.
	// Those with which no node works, such as `root=`, are refused.
	KernelArguments []string `mapstructure:"kernel_arguments"`
	// Install NVIDIA's container toolkit, from a repository that the machine
	// knows, and say how containers name their GPUs: `envvar`, or
	// `volume-mounts`, with which a container without privileges gets at no GPU
	// that it was not given; the device plugin's `deviceListStrategy` must be
	// the same. Drivers are the base image's business.
	NVIDIAContainerToolkit string `mapstructure:"nvidia_container_toolkit"`
	// Prepare the node for Elastic Fabric Adapter: rdma-core, modules, lockable
	// memory, and 5128 huge pages, which take 10 GiB from the next boot on and
	// which `sysctls` may change.
	EFA bool `mapstructure:"efa"`
	// Stop unless the machine runs in FIPS mode. Turning it on belongs to the
	// base image; the error says how.
	FIPS bool `mapstructure:"fips"`
	// Who configures the node at its first boot: `eksnode`, which joins by a
	// NodeConfig in user data and by `/etc/eks/bootstrap.sh`, or `none` for
	// images that bring a first boot of their own. Defaults to `eksnode`.
	Bootstrap string `mapstructure:"bootstrap"`
	// Settings of the CIS benchmarks: `tmp-noexec` (nothing runs from `/tmp`,
	// from the next boot on; a later build then needs another
	// `remote_folder`), `umask` (027 for people), `audit` (auditd, and rules
	// for what a node is made of).
	Hardening []string `mapstructure:"hardening"`

	lock *asset.Lock
	ctx  interpolate.Context
}

// spec is the same in the agent's words.
func (c *Config) spec() provisioner.Spec {
	return provisioner.Spec{
		Distro:            c.Distro,
		KubernetesVersion: c.KubernetesVersion,
		SourceURL:         c.SourceURL,
		Sources:           c.sources(),
		Containers:        provisioner.Containers{Images: c.Images, PauseImage: c.PauseImage},
		Versions:          c.Versions,
		Checksums:         c.Checksums,
		Packages:          c.Packages,
		Sysctls:           c.Sysctls,

		PackageVersions:        c.PackageVersions,
		CACertificates:         c.CACertificates,
		KernelArguments:        c.KernelArguments,
		NVIDIAContainerToolkit: c.NVIDIAContainerToolkit,
		EFA:                    c.EFA,
		FIPS:                   c.FIPS,
		Bootstrap:              c.Bootstrap,
		Hardening:              c.Hardening,
	}
}

// anyKubernetes stands in for a version that is not known yet, so that the
// other fields can be checked: none of them depends on it.
const anyKubernetes = "1.34.4"

// known is the spec without what is not known yet.
func (c *Config) known() provisioner.Spec {
	s := c.spec()
	s.Distro = validate.Known(s.Distro)
	if validate.IsUnknown(s.KubernetesVersion) {
		s.KubernetesVersion = anyKubernetes
	}
	s.Sources = c.knownSources()
	s.Containers = c.knownContainers()
	s.SourceURL = validate.Known(s.SourceURL)
	s.Versions = validate.KnownIn(s.Versions)
	s.Checksums = validate.KnownIn(s.Checksums)
	s.Packages = validate.KnownOf(s.Packages)
	s.Sysctls = validate.KnownIn(s.Sysctls)
	s.PackageVersions = validate.KnownIn(s.PackageVersions)
	s.CACertificates = validate.KnownIn(s.CACertificates)
	s.KernelArguments = validate.KnownOf(s.KernelArguments)
	s.NVIDIAContainerToolkit = validate.Known(s.NVIDIAContainerToolkit)
	s.Bootstrap = validate.Known(s.Bootstrap)
	s.Hardening = validate.KnownOf(s.Hardening)
	return s
}
