// Package provisioner makes a plain machine an EKS node: a Spec becomes a list
// of steps, and each step knows what is left to do on a host.
package provisioner

// Spec is what a node image shall be. It is the same in HCL, in JSON and as
// flags. Its zero value is not valid: KubernetesVersion is required.
type Spec struct {
	// Distro overrides what os-release(5) says, for derivatives that behave
	// like a known distribution. One of the IDs that package distros knows.
	Distro string `json:"distro,omitempty"`
	// KubernetesVersion is the kubelet's version, such as "1.34.4". It must be
	// complete; nothing is resolved to "latest".
	KubernetesVersion string `json:"kubernetes_version"`
	// SourceURL is a mirror that serves each asset at
	// SOURCE/<publisher's host>/<publisher's path>, with the publisher's
	// checksum file beside it, or a folder that holds them so (file://). Empty
	// means the publishers' own sites.
	SourceURL string `json:"source_url,omitempty"`
	Sources
	Containers
	// Versions pins assets by their ID to another version than the one that
	// goes with KubernetesVersion, such as {"cni-plugins": "1.9.1"}.
	Versions map[string]string `json:"versions,omitempty"`
	// Checksums pins assets by their ID to a SHA-256 in hexadecimal. A pinned
	// asset's checksum file is not asked for.
	Checksums map[string]string `json:"checksums,omitempty"`
	// Packages are installed besides those of the distribution's roles.
	Packages []string `json:"packages,omitempty"`
	// Sysctls are set besides those every node needs; names with dots.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// PackageVersions are packages by their version, as the distribution writes
	// it: installed in just that and held, so that no update changes them.
	PackageVersions map[string]string `json:"package_versions,omitempty"`
	// CACertificates are certificate authorities that the machine shall trust,
	// in PEM, by a name of their own.
	CACertificates map[string]string `json:"ca_certificates,omitempty"`
	// KernelArguments are put on the kernel's command line, each once, and hold
	// from the next boot on.
	KernelArguments []string `json:"kernel_arguments,omitempty"`
	// NVIDIAContainerToolkit installs the toolkit and says how containers name
	// their GPUs: one of DeviceLists. Empty leaves it out.
	NVIDIAContainerToolkit string `json:"nvidia_container_toolkit,omitempty"`
	// EFA prepares the node for Elastic Fabric Adapter.
	EFA bool `json:"efa,omitempty"`
	// FIPS requires that the machine runs in FIPS mode.
	FIPS bool `json:"fips,omitempty"`
	// Bootstrap is who configures the node at its first boot: one of Bootstraps.
	// Empty means the first of them.
	Bootstrap string `json:"bootstrap,omitempty"`
	// Hardening are settings of the CIS benchmarks; see Hardenings.
	Hardening []string `json:"hardening,omitempty"`
}
