// Package distros describes the distributions that can become nodes: one value
// in one file each. docs/porting.md says what else a new distribution needs. No
// other package names a distribution.
package distros

import (
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Distro is everything that differs between distributions.
type Distro struct {
	// ID names the value: its file, the value of the option distro, and its
	// heading in the documentation.
	ID string `json:"id"`
	// Name is the distribution's own spelling.
	Name string `json:"name"`
	// OSRelease are the IDs of os-release(5) that identify the distribution.
	// Two values may share an ID if their Versions differ.
	OSRelease []string `json:"os_release"`
	// Versions are the supported VERSION_IDs of os-release(5). A version
	// without a dot covers its minor releases, so "9" covers "9.4". Empty means
	// a rolling distribution: every version is accepted.
	Versions []string `json:"versions"`
	// NewestKubernetes is the newest minor version of Kubernetes 1 whose
	// kubelet starts on the distribution; 0 means no limit.
	NewestKubernetes int `json:"newest_kubernetes_minor,omitempty"`
	// Releases are the facts of each of Versions, or of "" for a rolling
	// distribution. A minor release such as "15.6" may have an entry of its own.
	// Release is the entry of the detected release.
	Releases map[string]ReleaseFacts `json:"releases"`
	Release  ReleaseFacts            `json:"-"`
	// Tested says how the distribution is known to work.
	Tested Proof `json:"tested"`
	// Differs is a sentence or two for users and porters.
	Differs string `json:"differs"`

	// PackageManager installs Packages, which lists the packages of every role.
	// An empty list means that the role needs no package.
	PackageManager PackageManager    `json:"-"`
	Packages       map[Role][]string `json:"packages"`
	// PackagesOf are additional packages of single Versions.
	PackagesOf map[string]map[Role][]string `json:"packages_of_version,omitempty"`
	// Repositories are commands that add repositories. They run before packages
	// are installed, and must be safe to run twice.
	Repositories [][]string `json:"-"`
	// Upstream are the IDs of assets that come from upstream archives, because
	// no repository of the distribution has them, or because the option
	// containerd demands newer ones.
	Upstream []string `json:"upstream,omitempty"`

	// OptionPackages are the packages of options. An option without an entry is
	// not supported.
	OptionPackages map[Option][]string `json:"-"`
	// NVIDIA is the driver of NVIDIA's GPUs.
	NVIDIA Driver `json:"-"`
	// FIPS describes how to turn on FIPS mode.
	FIPS FIPS `json:"-"`
	// Guide is the content for hardening; empty if there is none.
	Guide Guide `json:"-"`

	// CommandFolder is the folder for commands that no package owns, and
	// UnitFolder the folder for their units. Both are writable when the image
	// is built.
	CommandFolder string `json:"-"`
	UnitFolder    string `json:"-"`
	// CAAnchors is the folder of additional certificate authorities, whose
	// files end in CASuffix. CARefresh is the command that reads them, and
	// CABundle the file with all authorities that the command writes.
	CAAnchors string   `json:"ca_anchors"`
	CASuffix  string   `json:"-"`
	CARefresh []string `json:"-"`
	CABundle  string   `json:"-"`

	// Network configures the interfaces, Security is the security module in
	// force, and Time keeps the clock.
	Network  NetworkStack   `json:"-"`
	Security SecurityModule `json:"-"`
	Time     TimeKeeper     `json:"-"`
	// Kernel describes how arguments reach the kernel's command line.
	Kernel CommandLine `json:"-"`
	// Quirks are other named peculiarities.
	Quirks []Quirk `json:"-"`

	// DefaultUser is the account for SSH logins in the base image.
	DefaultUser string `json:"default_user"`
	// BaseImages describe the base images on AWS.
	BaseImages []BaseImage `json:"-"`
	// CloudImages are the distribution's own disk images, the newest version last.
	CloudImages []CloudImage `json:"-"`
	// Scrub are scrub rules in addition to those of the package manager; see
	// ScrubRules.
	Scrub []scrub.Rule `json:"-"`
}

// Role is a purpose of packages.
type Role string

// The roles. Every distribution lists each.
const (
	ContainerRuntime Role = "container runtime" // containerd and runc
	Confinement      Role = "confinement"       // AppArmor or SELinux for containers
	Networking       Role = "networking"        // kube-proxy, the VPC CNI, port forwarding
	Storage          Role = "storage"           // network file systems of volumes
	Trust            Role = "trust"             // the public certificate authorities
)

// Roles lists the roles in the order of plans.
var Roles = []Role{ContainerRuntime, Confinement, Networking, Storage, Trust}

// Proof says how a distribution is known to work.
type Proof string

// The proofs, from strong to weak.
const (
	Joins       Proof = "built, booted, and joined to a real cluster in this project's tests"
	RunsForReal Proof = "built and booted in this project's tests"
	ShapeTested Proof = "joins on a machine of its shape"
	PlanTested  Proof = "plan tested, not run"
)

// AllPackages lists the packages of all roles, each once, in the roles' order.
func (d Distro) AllPackages() []string {
	var names []string
	seen := map[string]bool{}
	for _, role := range Roles {
		for _, name := range d.Packages[role] {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// ScrubRules are the distribution's rules beside those of scrub.Table: its package
// manager's and its own.
func (d Distro) ScrubRules() []scrub.Rule {
	return slices.Concat(d.PackageManager.ScrubRules(), d.Scrub)
}

// of returns the distribution with the additional packages and the facts of one
// release.
func (d Distro) of(version string) Distro {
	major, _, _ := strings.Cut(version, ".")
	packages := maps.Clone(d.Packages)
	for v, more := range d.PackagesOf {
		if v != version && v != major {
			continue
		}
		for role, names := range more {
			packages[role] = slices.Concat(packages[role], names)
		}
	}
	d.Packages, d.Release = packages, d.facts(version)
	return d
}

// Settings returns the settings of the distribution's network stack, time
// keeper, security module and quirks.
func (d Distro) Settings() []Settings {
	all := []Settings{d.Network.Settings, d.Security.Settings, d.Time.Settings}
	for _, q := range d.Quirks {
		all = append(all, q.Settings)
	}
	return all
}
