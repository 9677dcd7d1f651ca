package distros

import "fmt"

// Unprovisioned is a system that eksnode cannot turn into a node. It is listed
// so that the error names it, with the reason and an alternative.
type Unprovisioned struct {
	// ID and Name are as in Distro. OSRelease are the IDs of os-release(5) that
	// identify the system; empty if it has no such file.
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	OSRelease []string `json:"-"`
	// Reason is why the system is refused, and Instead the alternative.
	Reason  string `json:"reason"`
	Instead string `json:"instead"`
	// DefaultUser is the account of its images; empty if there is none.
	DefaultUser string `json:"-"`
	// BaseImages are images that are nodes already; empty if there are none.
	BaseImages []BaseImage `json:"-"`
}

// Err returns the error for a machine with this system.
func (u Unprovisioned) Err() error {
	return fmt.Errorf("%s cannot be provisioned: %s; %s", u.Name, u.Reason, u.Instead)
}
