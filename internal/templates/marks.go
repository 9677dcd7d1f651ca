package templates

// The marks of `eksnode init` in files with comments. By the marks, init and the
// scrub distinguish init's lines from a user's.
const (
	// InitMark is the whole first line of a file that init wrote.
	InitMark = "# Written by eksnode init from this node's user data."
	// HostsMark ends each line that init added to /etc/hosts.
	HostsMark = "# eksnode init"
)
