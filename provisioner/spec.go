// Package provisioner turns a plain machine into an EKS node. A Spec becomes a
// list of steps. Each step plans its remaining actions on a host.
package provisioner

import (
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Spec describes a node image. The zero value is not valid: KubernetesVersion is
// required.
//
// Each field is an option. Its tag is the name in HCL and JSON and, with dashes,
// the flag of `eksnode provision`. Its comment is the text in docs; the first
// sentence is the flag's help, and "Defaults to" the default in the help. The tag
// flag:"file" marks values that are text in HCL and a file's name in flags.
type Spec struct {
	// Distribution ID, instead of the one in `/etc/os-release`. For derivatives
	// that behave like a supported distribution.
	Distro string `json:"distro,omitempty" mapstructure:"distro"`
	// Accept a release of a distribution whose support has ended. Its publisher fixes no
	// security defects any more. Defaults to `false`.
	AcceptEnded bool `json:"accept_ended,omitempty" mapstructure:"accept_ended"`
	// Complete kubelet version, such as `1.36.3`. There is no "latest".
	KubernetesVersion string `json:"kubernetes_version" mapstructure:"kubernetes_version" required:"true"`
	Sources           `mapstructure:",squash"`
	// URL of a mirror or folder with the assets, instead of the publishers' sites.
	// Each asset is at `URL/<publisher's host>/<publisher's path>`, next to the
	// publisher's checksum file. A folder on the machine is
	// `file:///media/mirror`.
	SourceURL string `json:"source_url,omitempty" mapstructure:"source_url"`
	// Accept a `source_url` that begins with `http://` although neither a lock file
	// nor `checksums` pins every asset. Others on the network can then replace
	// files and checksums. Defaults to `false`.
	AllowHTTP bool `json:"allow_http,omitempty" mapstructure:"allow_http"`
	// Proxy for the machine's downloads and its package manager during the build,
	// such as `http://proxy.example:3128`. The image does not have it: see
	// `node_proxy`. Without this field, the machine's environment decides.
	Proxy string `json:"proxy,omitempty" mapstructure:"proxy"`
	// Names, addresses and networks that do not use `proxy`.
	NoProxy    []string `json:"no_proxy,omitempty" mapstructure:"no_proxy"`
	Containers `mapstructure:",squash"`
	// Version of containerd: `2`, a line such as `2.3`, or a complete version. With
	// `2`, containerd and runc come from upstream archives instead of packages where
	// the distribution's own containerd is older. With a line or a complete version,
	// they always do; a line means its newest release that this eksnode knows, or the
	// release in the lock file. Defaults to `2` with Kubernetes 1.36 and newer, and to
	// the containerd of the distribution with older versions.
	Containerd string `json:"containerd,omitempty" mapstructure:"containerd"`
	// Asset versions by asset name, instead of those for `kubernetes_version`. For
	// example `{ "cni-plugins" = "1.10.0" }`.
	Versions map[string]string `json:"versions,omitempty" mapstructure:"versions"`
	// Required SHA-256 of assets in hexadecimal, by asset name. The publisher's
	// checksum file for such an asset is not read.
	Checksums map[string]string `json:"checksums,omitempty" mapstructure:"checksums"`
	// Additional packages, by their names in the distribution. Packages that break
	// a node, such as firewalld or a second kubelet, are refused.
	Packages []string `json:"packages,omitempty" mapstructure:"packages"`
	// Additional kernel parameters (sysctls), by names with dots. For example
	// `{ "net.core.somaxconn" = "4096" }`. New values apply from the next boot;
	// the builder machine keeps its values. Invalid values and values that break a
	// node are refused.
	Sysctls map[string]string `json:"sysctls,omitempty" mapstructure:"sysctls"`
	// Time servers of every node, by name or address, instead of those of the image
	// and of DHCP. Add `169.254.169.123`, Amazon's own, to keep it.
	NTPServers []string `json:"ntp_servers,omitempty" mapstructure:"ntp_servers"`
	// Name servers of every node, by address, instead of those of DHCP. Names of
	// the VPC and of private endpoints must resolve there too. Where
	// systemd-resolved runs, names below the domain of DHCP, such as
	// `ec2.internal`, stay with the VPC's resolver, and servers in user data come
	// first.
	DNSServers   []string `json:"dns_servers,omitempty" mapstructure:"dns_servers"`
	NodeDefaults `mapstructure:",squash"`
	// Packages to install and hold in one version, by package name. Versions have
	// the form of the package manager, such as
	// `{ "containerd" = "1.7.24~ds1-6" }`. Updates do not change these packages.
	// Arch Linux offers only the newest version of a package.
	PackageVersions map[string]string `json:"package_versions,omitempty" mapstructure:"package_versions"`
	// Additional package repositories, by a name of your choice. Each value is the
	// text of a file for the package manager: a deb822 source for apt, a `.repo`
	// file for dnf, yum and zypper, a section of `pacman.conf` for pacman. The
	// repositories are there while packages are installed, and then removed. A
	// text that switches the check of signatures off is a warning in the report.
	Repositories map[string]string `json:"repositories,omitempty" mapstructure:"repositories" flag:"file"`
	// Public keys of `repositories`, by the repository's name, as text of OpenPGP.
	// Without a key, the repository's text must name one that the package manager
	// finds.
	RepositoryKeys map[string]string `json:"repository_keys,omitempty" mapstructure:"repository_keys" flag:"file"`
	// Keep `repositories` and their keys in the image. Defaults to `false`.
	KeepRepositories bool `json:"keep_repositories,omitempty" mapstructure:"keep_repositories"`
	// Agents to install and enable: `ssm` (amazon-ssm-agent), `cloudwatch`
	// (amazon-cloudwatch-agent), `node-problem-detector`. Their packages come from the
	// machine's repositories or from `repositories`. The scrub removes what identifies
	// an agent.
	Agents []string `json:"agents,omitempty" mapstructure:"agents"`
	// Pull images with the SOCI snapshotter, in parallel, on nodes with a NodeConfig and
	// at least 4 CPUs and 7 GiB of memory. The package soci-snapshotter comes from the
	// machine's repositories or from `repositories`; first boot configures and starts it
	// and containerd. `FastImagePull` in user data overrides this field.
	SOCI bool `json:"soci,omitempty" mapstructure:"soci"`
	// Certificate authorities to trust, by a name of your choice. Each value is
	// one certificate in PEM, such as `{ "example" = file("ca.pem") }`.
	CACertificates map[string]string `json:"ca_certificates,omitempty" mapstructure:"ca_certificates" flag:"file"`
	// Package of the only kernel, such as `kernel6.12`, `linux-lts` or
	// `linux-image-cloud-amd64`. It is installed and held, and every other kernel
	// is removed, so the image starts with it; the builder machine itself runs on
	// until it restarts. A kernel that no repository has is refused with those that
	// the repositories have.
	Kernel string `json:"kernel,omitempty" mapstructure:"kernel"`
	// Additional arguments for the kernel command line, such as
	// `nvme_core.io_timeout=4294967295`. The arguments apply from the next boot.
	// Arguments that break a node, such as `root=`, are refused.
	KernelArguments []string `json:"kernel_arguments,omitempty" mapstructure:"kernel_arguments"`
	// Device list strategy of the NVIDIA Container Toolkit, `envvar` or
	// `volume-mounts`; installs the toolkit. With `volume-mounts`, an unprivileged
	// container gets only the GPUs that the device plugin assigns. Set
	// `deviceListStrategy` of the device plugin to the same value. The toolkit
	// comes from the machine's repositories or from `repositories`. Without `nvidia`, the
	// base image must contain the drivers.
	NVIDIAContainerToolkit string `json:"nvidia_container_toolkit,omitempty" mapstructure:"nvidia_container_toolkit"`
	// Line of NVIDIA's driver: `open-580` has the open kernel modules, `580` the
	// proprietary ones. Installs the driver for `kernel`, which must be set, the
	// persistence daemon, and the container toolkit with its default strategy. All
	// packages are held. They come from the machine's repositories or from
	// `repositories`; an unknown line is refused with those that the repositories have.
	// MIG stays as it is.
	NVIDIA string `json:"nvidia,omitempty" mapstructure:"nvidia"`
	// Install the driver and the tools of AWS Neuron, for Trainium and Inferentia, for
	// `kernel`, which must be set. The packages aws-neuronx-dkms and aws-neuronx-tools
	// come from `repositories`. Defaults to `false`.
	Neuron bool `json:"neuron,omitempty" mapstructure:"neuron"`
	// Prepare the node for Elastic Fabric Adapter. This adds rdma-core, kernel
	// modules, lockable memory and 5128 huge pages. The huge pages take 10 GiB
	// from the next boot; `sysctls` can change their number. Where the kernel lacks the
	// module efa, the package efa of Amazon's installer is added from `repositories` and
	// built for `kernel`.
	EFA bool `json:"efa,omitempty" mapstructure:"efa"`
	// Swap of nodes, `zram` or nothing. With `zram`, zram-generator makes swap in
	// memory at each boot, half of the memory and 4 GiB at most. The kubelet then
	// starts with swap, and pods of the class Burstable use it; `kubelet_defaults`
	// can set another `memorySwap`. Needs Kubernetes 1.30 or newer. Without this
	// field, nodes have no swap.
	Swap string `json:"swap,omitempty" mapstructure:"swap"`
	// FIPS mode, `check` or `enable`. With `check`, a machine that does not run in
	// FIPS mode is refused; the error says how to enable it in the base image. With
	// `enable`, the distribution's own tool makes the image start in FIPS mode, where
	// there is one; programs of the build do not run in it.
	FIPS string `json:"fips,omitempty" mapstructure:"fips"`
	// First boot of the image, `eksnode` or `none`. With `eksnode`, nodes join by
	// a NodeConfig in user data or by `/etc/eks/bootstrap.sh`. Use `none` for an
	// image with its own first boot. Defaults to `eksnode`.
	Bootstrap string `json:"bootstrap,omitempty" mapstructure:"bootstrap"`
	// A level of hardening, `cis-l1`, `cis-l2` or `stig`, and single CIS settings,
	// `tmp-noexec`, `umask` and `audit`. A level runs the SCAP Security Guide's own
	// script, without the rules that break nodes. The tailoring with these exceptions is
	// in `/usr/share/doc/eksnode/tailoring.xml` of the image and beside the report. The
	// scanner and its content are removed afterwards. With `tmp-noexec`, no program runs
	// from `/tmp` after the next boot; a later build then needs another
	// `remote_folder`. `umask` sets 027 for users who log in. `audit` installs auditd
	// with rules for the files of a node.
	Hardening []string `json:"hardening,omitempty" mapstructure:"hardening"`
	// More rules that a level of `hardening` leaves out, with the reason for auditors,
	// such as `{ "package_aide_installed" = "a sensor watches files" }`. Rules have the
	// IDs of the SCAP Security Guide. A rule that the level does not have is an error.
	HardeningExceptions map[string]string `json:"hardening_exceptions,omitempty" mapstructure:"hardening_exceptions"`
	// Guide is the content for a level of Hardening, packed; nil means the content of
	// the distribution's package. Local.ReadContent sets it.
	Guide []byte `json:"guide,omitempty" mapstructure:"-"`
}

// Local holds the options for files on the Packer host or workstation. The
// builder machine does not get these paths. Comments and tags mean the same as in
// Spec.
type Local struct {
	// Lock file from `eksnode lock`. Downloads and images that differ from the
	// lock file are refused. The file is on the Packer host.
	LockFile string `mapstructure:"lock_file"`
	// OCI archives to search for images before any registry. The archives are
	// files on the Packer host, from `docker save`, `skopeo` or
	// `ctr images export`.
	ImageArchives []string `mapstructure:"image_archives"`
	// Cache folder for downloads. The folder is on the Packer host and contains
	// the images and, with `download_on = "packer-host"`, all downloads. Defaults
	// to `eksnode/assets` in the user's cache folder.
	CacheFolder string `mapstructure:"cache_folder"`
	// Data stream of the SCAP Security Guide for a level of `hardening`, such as
	// `ssg-debian12-ds.xml`, instead of the one in the distribution's package. The file is
	// on the Packer host. Debian and Ubuntu need it: packages of a stable release are
	// older than the content for that release.
	HardeningContent string `mapstructure:"hardening_content"`
}

// Cache returns the cache folder for downloads.
func (l Local) Cache() (string, error) {
	if l.CacheFolder != "" {
		return l.CacheFolder, nil
	}
	return asset.DefaultCache()
}

// Check returns an error for options that have no effect with a spec.
func (l Local) Check(s Spec) error {
	// A list that HCL does not know yet is empty, not nil.
	if len(l.ImageArchives) > 0 && s.Images == nil && s.PauseImage == "" {
		return surface.Errorf("{image_archives} has no effect without {images} or {pause_image}: " +
			"name those that the node shall have")
	}
	return nil
}
