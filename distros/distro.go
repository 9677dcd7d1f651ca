// Package distros knows the distributions that can become nodes: one value in
// one file each. Adding one touches that file, the list in table.go, its
// os-release fixture and its golden plan; nothing else in the project names a
// distribution.
package distros

import (
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Distro is everything that differs between distributions.
type Distro struct {
	// ID is the value's name: its file, its flag (distro = "…") and its anchor
	// in the documentation.
	ID string
	// Name is the distribution's own spelling.
	Name string
	// OSRelease are the IDs of os-release(5) that it answers to. Two values may
	// share one when their Versions differ.
	OSRelease []string
	// Versions are the supported VERSION_IDs of os-release(5). One without a
	// dot covers its minor releases, so "9" covers "9.4". Empty means a rolling
	// distribution, whose releases are not told apart.
	Versions []string
	// NewestKubernetes is the newest minor of Kubernetes 1 whose kubelet starts
	// here; 0 sets no bound of its own.
	NewestKubernetes int
	// Tested says how it is known to work.
	Tested Proof
	// Differs says in a sentence or two what a porter or user must know.
	Differs string

	// PackageManager installs Packages, which lists the packages of every role;
	// an empty list says that the role needs none here.
	PackageManager PackageManager
	Packages       map[Role][]string
	// PackagesOf are what single ones of the Versions need besides.
	PackagesOf map[string]map[Role][]string
	// Repositories are commands that make further repositories known. They run
	// before packages are installed, and must be safe to run twice.
	Repositories [][]string
	// Upstream are the IDs of the assets that come from upstream's archives
	// here, because no repository of the distribution has them.
	Upstream []string

	// OptionPackages are the packages of options. One that is not listed cannot
	// be had here.
	OptionPackages map[Option][]string
	// FIPS says how FIPS mode is turned on.
	FIPS FIPS

	// CommandFolder is where commands go that no package owns, and UnitFolder
	// where their units go. Both are writable when the image is built.
	CommandFolder string
	UnitFolder    string
	// CAAnchors is the folder of additional certificate authorities, which are
	// files ending in CASuffix, and CARefresh the command that takes them up.
	// CABundle is the file that it makes of all of them.
	CAAnchors, CASuffix string
	CARefresh           []string
	CABundle            string

	// Network says who configures the interfaces, Security which security
	// module is on, Time who keeps the clock.
	Network  NetworkStack
	Security SecurityModule
	Time     TimeKeeper
	// Kernel says how arguments reach the kernel's command line.
	Kernel CommandLine
	// Quirks are further named peculiarities.
	Quirks []Quirk

	// DefaultUser is the account that the base image lets in over SSH.
	DefaultUser string
	// BaseImages say where base images are found on AWS.
	BaseImages []BaseImage
	// Scrub are the rows that a scrub of this distribution runs besides those
	// that every machine needs.
	Scrub []scrub.Rule
}

// Role is what packages are for.
type Role string

// The roles. Every distribution lists each.
const (
	ContainerRuntime Role = "container runtime" // containerd and runc
	Confinement      Role = "confinement"       // what confines containers
	Networking       Role = "networking"        // kube-proxy, the VPC CNI, port forwarding
	Storage          Role = "storage"           // network file systems of volumes
	Trust            Role = "trust"             // the public certificate authorities
)

// Roles lists them in the order plans print them.
var Roles = []Role{ContainerRuntime, Confinement, Networking, Storage, Trust}

// Proof says how a distribution is known to work.
type Proof string

// The proofs, from strong to weak.
const (
	Joins       Proof = "built, booted, and joined to a real cluster in this project's tests"
	RunsForReal Proof = "built and booted in this project's tests"
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

// of is the distribution in one release, with the packages that only that one
// needs.
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
	d.Packages = packages
	return d
}

// Settings are everything that the distribution's network stack, time keeper,
// security module and quirks ask of an image, each with its own name.
func (d Distro) Settings() []Settings {
	all := []Settings{d.Network.Settings, d.Security.Settings, d.Time.Settings}
	for _, q := range d.Quirks {
		all = append(all, q.Settings)
	}
	return all
}
