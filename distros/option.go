package distros

// Option is an option that needs packages, by its name in a spec.
type Option string

// The options that need packages. Every distribution lists the packages of
// each, possibly none, or leaves out an option that it does not support.
const (
	NVIDIA Option = "nvidia_container_toolkit" // containers with GPUs
	EFA    Option = "efa"                      // Elastic Fabric Adapter
	Audit  Option = "hardening: audit"         // auditd and its rules
	NTP    Option = "ntp_servers"              // the time keeper
	Swap   Option = "swap"                     // zram-generator
	SOCI   Option = "soci"                     // the SOCI snapshotter
	Agents Option = "agents"                   // programs of AWS and Kubernetes, with one name everywhere
	Neuron Option = "neuron"                   // AWS Trainium and Inferentia
	// EFAModule is for kernels without the module efa: the driver of Amazon's EFA installer.
	EFAModule Option = "efa: module"
)

// Options lists them.
var Options = []Option{NVIDIA, Neuron, EFA, EFAModule, Audit, NTP, Swap, SOCI, Agents}

// Can reports whether the distribution supports an option.
func (d Distro) Can(o Option) bool {
	_, can := d.OptionPackages[o]
	return can
}

// UsualOptionPackages returns the usual package names; the audit package of Debian
// and Ubuntu is auditd. Without a package of the time keeper, the system has it.
func UsualOptionPackages(audit string, time ...string) map[Option][]string {
	return map[Option][]string{NVIDIA: {"nvidia-container-toolkit"}, EFA: {"rdma-core"}, Audit: {audit}, NTP: time,
		SOCI: {"soci-snapshotter"}, Agents: {}}
}

// FIPS describes how to turn on FIPS mode.
type FIPS struct {
	// Enable describes the steps; empty if the distribution has no validated
	// modules.
	Enable string
	// Setup is the tool that turns it on from the next start on; empty if there is none.
	// Packages are those of the tool, and Policy the file in which it leaves PolicyText.
	Setup, Packages    []string
	Policy, PolicyText string
	// None is the reason why there is no FIPS mode; empty if there is one.
	None string
}

// FIPSModeSetup is the way of Red Hat's family to FIPS mode.
func FIPSModeSetup() FIPS {
	return fipsModeSetup("run fips-mode-setup --enable and restart before provisioning; on release 10, which has no " +
		"fips-mode-setup, " + fipsInstall)
}

// fipsModeSetup: see fips-mode-setup(8) and update-crypto-policies(8).
func fipsModeSetup(enable string) FIPS {
	return FIPS{
		Enable: enable, Setup: []string{"fips-mode-setup", "--enable"}, Packages: []string{"crypto-policies-scripts"},
		Policy: "/etc/crypto-policies/config", PolicyText: "FIPS",
	}
}

// withSwap adds the package of zram-generator, where the repositories have it.
func withSwap(options map[Option][]string, pkg string) map[Option][]string {
	options[Swap] = []string{pkg}
	return options
}

// withDrivers adds the drivers that Amazon publishes for the package manager.
func withDrivers(options map[Option][]string) map[Option][]string {
	options[Neuron] = []string{"aws-neuronx-dkms", "aws-neuronx-tools", aHeaders}
	options[EFAModule] = []string{"efa", aHeaders}
	return options
}

// fipsInstall is the way of releases without fips-mode-setup.
const fipsInstall = "install the base image with fips=1 on the kernel command line"

// NoFIPS is for distributions without validated modules.
func NoFIPS() FIPS { return FIPS{None: "its cryptographic modules are not validated"} }
