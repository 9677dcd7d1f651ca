//go:build e2e

package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRefusals gives a bare machine every fault that keeps it from becoming a
// node. Each error must name the fault and the remedy, and the machine must
// stay unchanged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-refuse")
	dry := "dry_run = true"
	for _, c := range []struct {
		name  string
		fault string // a script
		undo  string
		as    account
		field string
		words []string
	}{
		{name: "an unknown distribution",
			fault: "echo 'ID=plan9\nPRETTY_NAME=\"Plan 9\"' > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`Plan 9 (ID="plan9" VERSION_ID="") is not known; known are `, ", debian", "set distro to that name"}},
		{name: "a distribution without systemd",
			fault: "echo ID=alpine > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`ID="alpine"`, "Alpine starts with OpenRC, and the kubelet needs systemd"}},
		{name: "a version that is not supported",
			fault: "sed 's/13/8/' /usr/lib/os-release > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{`VERSION_ID="8") is not supported; supported are the versions 12, 13`, `(distro "debian")`}},
		{name: "no os-release", fault: "echo > /run/os; mount --bind /run/os /usr/lib/os-release", undo: "umount /usr/lib/os-release",
			words: []string{"the machine has no /etc/os-release (or it is empty)"}},
		{name: "an unsupported architecture",
			fault: "printf '#!/bin/sh\\necho riscv64\\n' > /usr/local/bin/uname; chmod +x /usr/local/bin/uname", undo: "rm /usr/local/bin/uname",
			words: []string{`the machine's architecture is "riscv64"; supported are x86_64 (amd64) and aarch64 (arm64)`}},
		{name: "an architecture that differs from uname's",
			fault: "printf '#!/bin/sh\\necho aarch64\\n' > /usr/local/bin/uname; chmod +x /usr/local/bin/uname", undo: "rm /usr/local/bin/uname",
			words: []string{"uname -m on the machine says aarch64, but its /bin/sh is a program for another architecture", "the agent for linux/arm64 would not run there"}},
		{name: "no sudo", fault: "mv /usr/bin/sudo /usr/bin/sudo.away", undo: "mv /usr/bin/sudo.away /usr/bin/sudo",
			words: []string{"the user admin (uid 1000) is not root and `sudo -n -- env true` failed", "sudo: not found; install its program, connect as root"}},
		{name: "a user without sudo",
			fault: "useradd -m plain; cp -r /root/.ssh /home/plain; chown -R plain: /home/plain/.ssh", undo: "userdel -r plain 2>/dev/null", as: account{user: "plain"},
			words: []string{"the user plain (uid 1001) is not root and `sudo -n -- env true` failed", "a password is required", "NOPASSWD", "sudo_command"}},
		{name: "a sudo that requires a terminal", fault: "echo 'Defaults requiretty' > /etc/sudoers.d/99-test", undo: "rm /etc/sudoers.d/99-test",
			words: []string{"`sudo -n -- env true` failed", "you must have a tty to run sudo", "`Defaults:admin !requiretty`"}},
		{name: "no communicator", as: account{none: true},
			words: []string{`the communicator answered success without running anything, as communicator = "none" does`, `communicator = "ssh"`}},
		{name: "a temporary folder with noexec", fault: "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"programs in /tmp on the machine may not be run", "mounted noexec", "set remote_folder to another folder, such as /home/admin"}},
		{name: "a temporary folder that is full", fault: "mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"no space left in /tmp on the machine", "set remote_folder to another folder"}},
		{name: "a temporary folder that is read-only", fault: "mount -t tmpfs -o ro,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			words: []string{"/tmp", "read-only", "set remote_folder"}},
		{name: "a remote folder that only root may write", field: `remote_folder = "/opt"`,
			words: []string{"the folder /opt on the machine is not writable for the user admin", "set remote_folder to one that is, such as /home/admin"}},
		{name: "a missing remote folder", field: `remote_folder = "/nowhere"`,
			words: []string{"the folder /nowhere does not exist on the machine", "set remote_folder"}},
		{name: "no systemd", fault: jail + "\nmv /sbin/init /sbin/init.away", undo: "mv /sbin/init.away /sbin/init; systemctl stop jail.service", as: account{user: "root", port: 2222},
			words: []string{"this machine does not start with systemd (/sbin/init is missing or another program), but the kubelet needs systemd"}},
		{name: "a disk that is too small", fault: "mount -t tmpfs -o size=8m tmpfs /opt", undo: "umount /opt",
			words: []string{"/opt has 8.4 MB free and needs 170.0 MB", "give the machine a larger disk"}},
		{name: "a disk that is read-only", fault: "mount --bind /opt /opt; mount -o remount,bind,ro /opt", undo: "umount /opt",
			words: []string{"/opt is on a read-only file system; remount it for writing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			// The dry run reports the same fault that stops the real run before its
			// first change.
			b.provisionAs(t, n, c.as, b.mirror.URL(), c.field, dry).fails(t, c.words...)
			b.provisionAs(t, n, c.as, b.mirror.URL(), c.field).fails(t, c.words...)
			n.unchanged(t, before)
			n.nothingLeft(t)
		})
	}
	testPackages(t, b, n)
}

// testPackages gives the package manager every bad source. Only the downloaded
// package lists may change.
func testPackages(t *testing.T, b *bench, n *node) {
	for _, c := range []struct {
		name        string
		fault, undo string
		field       string
		words       []string
	}{
		{name: "a repository that does not listen",
			fault: "echo 'deb http://10.77.0.1:9/debian trixie main' > /run/sources; mount --bind /run/sources /etc/apt/sources.list", undo: "umount /etc/apt/sources.list",
			words: []string{"the repository http://10.77.0.1:9/debian/dists/trixie/ could not be reached; check the machine's network, proxy and repositories", "apt-get update"}},
		{name: "a package that does not exist", field: `packages = ["no-such-package"]`,
			words: []string{"installing ", "no repository of this machine has the package no-such-package; check its name and the machine's repositories"}},
		{name: "a disk that is full of downloads",
			fault: "mount -t tmpfs -o size=1m,mode=755 tmpfs /var/cache/apt/archives; mkdir /var/cache/apt/archives/partial", undo: "umount /var/cache/apt/archives",
			words: []string{"the disk is full at /var/cache/apt/archives", "free some space or enlarge it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			b.provision(t, n, b.mirror.URL(), c.field).fails(t, c.words...)
			require.Empty(t, except(n.tree(t).Since(before), bookkeeping))
			n.nothingLeft(t)
		})
	}
}

// jail is a container with only sshd in it.
const jail = `systemd-run -q --unit=jail unshare --fork --pid --mount --mount-proc sh -c '
mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -p 2222'
until ss -Htln sport = :2222 | grep -q .; do test -n "$(systemctl is-active jail)"; done`
