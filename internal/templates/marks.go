package templates

// What `eksnode init` leaves in files that have comments, so that it and the
// scrub know its own from a user's.
const (
	// InitMark is the whole first line of a file that it wrote.
	InitMark = "# Written by eksnode init from this node's user data."
	// HostsMark ends each line that it put into /etc/hosts.
	HostsMark = "# eksnode init"
)
