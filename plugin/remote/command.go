package remote

import (
	"fmt"
	"strings"
)

// The lines that the remote commands print around what they have to say: a
// login banner or a shell's start-up file may print before and after them.
const (
	probeBegin = "eksnode-probe-begin"
	probeEnd   = "eksnode-probe-end"
	// sessionOver is the last line of the agent's session. Without it the
	// end of a command whose standard input is still open would go unnoticed
	// until the next heartbeat.
	sessionOver = "eksnode-session-over"
)

// What the agent's session exits with when it fails before the agent runs. The
// agent itself uses 0, 1 and 2; shells use 126 and above.
const (
	exitFolder  = 71
	exitUnpack  = 72
	exitChmod   = 73
	exitNoExec  = 126
	exitMissing = 127
)

// tools are the programs the remote commands need besides the shell's own.
var tools = []string{"chmod", "dd", "gzip", "mkdir", "od", "rm", "uname"}

// sh makes one command of lines for /bin/sh, whatever the user's login shell
// is. The lines must not hold a single quote, '$', '`', '\' or '!': with the
// amazon-chroot communicator they pass through double quotes in a shell on the
// Packer host, which would expand them there.
func sh(lines ...string) string {
	return "sh -c 'LC_ALL=C; export LC_ALL; " + strings.Join(lines, "; ") + "'"
}

// probeCommand looks at the machine and changes nothing.
func probeCommand(folder, sudo string) string {
	lines := []string{
		"echo " + probeBegin,
		"printf arch=; uname -m",
		// What the shell itself was built for. A program of another machine must
		// not even be tried: sudo and most shells take one that the kernel
		// refuses for a script, and run its bytes as commands.
		"printf elf=; od -An -tx1 -j18 -N2 /bin/sh || echo",
		"printf uid=; id -u",
		"printf user=; id -un",
		"printf home=; pwd",
		"test -t 0 && echo tty=yes",
		// Without links: the agent finds out where it runs from and compares.
		"printf folder=; cd " + folder + " && pwd -P || echo",
		"test -w . && echo writable=yes",
		// Not asked of root: sudo would write to the machine's log for nothing.
		"{ id -u | grep -qx 0 || " + sudo + " true; } && echo root=yes",
	}
	for _, tool := range tools {
		lines = append(lines, "command -v "+tool+" >/dev/null || echo missing="+tool)
	}
	return sh(append(lines,
		"echo os-release",
		"cat /etc/os-release || cat /usr/lib/os-release",
		"echo "+probeEnd,
	)...)
}

// agentCommand unpacks the first size bytes of its standard input as the agent
// and runs it, on the rest of the standard input. The folder goes when the
// shell ends, however it ends; the exit status is the agent's.
func agentCommand(folder string, size int, sudo string) string {
	file := folder + "/eksnode"
	over := "echo " + sessionOver
	return sh(
		`trap "`+over+`" EXIT`,
		"umask 077",
		fmt.Sprintf("mkdir %s || exit %d", folder, exitFolder),
		`trap "rm -rf `+folder+`; `+over+`" EXIT`,
		// dd reads exactly this much. head -c of busybox and uutils reads
		// ahead and would swallow the request.
		fmt.Sprintf("dd bs=%d count=1 iflag=fullblock status=none | gzip -dc > %s || exit %d", size, file, exitUnpack),
		fmt.Sprintf("chmod 700 %s || exit %d", file, exitChmod),
		fmt.Sprintf("test -x %s || exit %d", file, exitNoExec), // false on a noexec mount
		"umask 022", // sudo passes it on, and packages would be laid out with it
		"cd /",
		strings.TrimSpace(sudo+" "+file+" agent"),
	)
}

// cleanCommand removes what agentCommand left when its shell could not.
func cleanCommand(folder string) string { return sh("rm -rf " + folder) }
