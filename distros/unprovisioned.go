package distros

import "fmt"

// Unprovisioned is a system that people ask for and that no shell on a running
// machine can make a node. It is known so that it can be refused by its name,
// with the reason and what to do instead.
type Unprovisioned struct {
	// ID and Name are as in Distro; OSRelease are the IDs of os-release(5) that
	// it answers to, none where a system has no such file.
	ID, Name  string
	OSRelease []string
	// Reason says why, Instead what helps.
	Reason, Instead string
	// DefaultUser is the account of its images; empty where there is none.
	DefaultUser string
	// BaseImages are images that are nodes already; none where there are none.
	BaseImages []BaseImage
}

// Err is what is told to one who asks for it.
func (u Unprovisioned) Err() error {
	return fmt.Errorf("%s cannot be provisioned: %s; %s", u.Name, u.Reason, u.Instead)
}
