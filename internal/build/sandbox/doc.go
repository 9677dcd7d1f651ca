// Package sandbox runs this program again with an image root as its root.
//
// The second process is the first of new PID, mount, IPC and UTS namespaces. Its root is
// the folder, with a /proc of its own, a small /dev, a /sys that cannot be written, and
// empty folders in memory for /run and /tmp. The programs that it starts lack the
// capabilities with which they could mount, load modules, make device nodes or change the
// network. The network is the host's, because package managers need it. Its abstract
// sockets, root's keys, and the kernel's lists of disks are hidden, and programs cannot make
// user namespaces.
//
// All of that ends with the second process, and that process ends with the first, also
// when the first is killed. Only in a root without /etc/resolv.conf a kill leaves a file
// there, over which the host's resolver was shown: the next sandbox or a scrub removes it.
package sandbox

// mark is the environment variable with the root, in the process inside. That of Script
// has scriptMark.
const (
	mark       = "EKSNODE_SANDBOX"
	scriptMark = "EKSNODE_SANDBOX_SCRIPT"
)
