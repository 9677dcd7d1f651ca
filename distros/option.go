package distros

// Option is something that not every node wants, by its name in a spec.
type Option string

// The options that need packages. Every distribution says which: a list, which
// may be empty, or none at all where the option cannot be had.
const (
	NVIDIA Option = "nvidia_container_toolkit" // containers with GPUs
	EFA    Option = "efa"                      // Elastic Fabric Adapter
	Audit  Option = "hardening: audit"         // auditd and its rules
)

// Options lists them.
var Options = []Option{NVIDIA, EFA, Audit}

// Can says whether the distribution has an option.
func (d Distro) Can(o Option) bool {
	_, can := d.OptionPackages[o]
	return can
}

// optionPackages are the usual names; Debian's and Ubuntu's audit is auditd.
func optionPackages(audit string) map[Option][]string {
	return map[Option][]string{NVIDIA: {"nvidia-container-toolkit"}, EFA: {"rdma-core"}, Audit: {audit}}
}

// FIPS says how FIPS mode is turned on, which no step can do: it belongs to the
// base image.
type FIPS struct {
	// Enable says how; empty where the distribution has no validated modules.
	Enable string
	// None says why there is none; empty where there is one.
	None string
}

func fipsSetup() FIPS {
	return FIPS{Enable: "run fips-mode-setup --enable and restart before provisioning; on release 10 choose fips=1 when the base image is installed"}
}

func noFIPS() FIPS { return FIPS{None: "its cryptographic modules are not validated"} }
