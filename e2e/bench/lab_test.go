//go:build e2e

package bench

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/hashicorp/packer-plugin-sdk/rpc"
	sdkssh "github.com/hashicorp/packer-plugin-sdk/sdk-internals/communicator/ssh"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// oneWay is half a round trip, in milliseconds: typical between two
// neighbouring regions of a cloud, or between a workstation and a near region.
const oneWay = 10

// limit bounds a benchmark with machines.
const limit = 3 * time.Hour

// network is a lab of machines. Toxiproxy runs in it and adds the round trip to
// connections: it delays each byte by a fixed time and does not limit the
// bandwidth. Opening a connection has no delay, because the local kernel accepts
// it.
type network struct {
	*lab.Lab
	b       *testing.B
	proxies int
}

func openLab(b *testing.B) *network {
	b.Helper()
	log.SetOutput(io.Discard) // Packer's libraries log every command
	install(b)
	l := &network{Lab: lab.Open(b, limit, machine.Nspawn), b: b}
	program, err := tools.Build(l.Ctx, tools.NameToxiproxy, "", runtime.GOARCH, os.Stderr)
	require.NoError(b, err)
	server := l.Command(b.Context(), program) // b.Context() ends before cleanup
	require.NoError(b, server.Start())
	b.Cleanup(func() { _ = server.Wait() }) // Wait reports that the process was killed
	return l
}

// mirror serves a node's programs in the lab, and returns its address.
func (l *network) mirror() string {
	l.b.Helper()
	return l.ServeMirror(l.b, l.Port("0"), lab.Assets(l.b).Folder, mirror.Options{}).URL()
}

// delayed returns an address in the lab that is one round trip from target.
func (l *network) delayed(target string) string {
	l.b.Helper()
	l.proxies++
	name := strconv.Itoa(l.proxies)
	near := net.JoinHostPort(l.HostAddress(), strconv.Itoa(20000+l.proxies))
	l.ask("proxies", fmt.Sprintf(`{"name": %q, "listen": %q, "upstream": %q}`, name, near, target))
	for _, stream := range []string{"upstream", "downstream"} {
		l.ask("proxies/"+name+"/toxics", fmt.Sprintf(`{"type": "latency", "stream": %q, "attributes": {"latency": %d}}`, stream, oneWay))
	}
	return near
}

// ask posts to toxiproxy, which may still be starting.
func (l *network) ask(path, body string) {
	l.b.Helper()
	testkit.Output(l.b, l.Command(l.Ctx, "curl", "-fsS", "--retry", "9", "--retry-connrefused",
		"-d", body, "http://127.0.0.1:8474/"+path))
}

// node is a machine with a Packer communicator over a delayed line.
type node struct {
	*lab.Node
	net    *network
	comm   packersdk.Communicator
	report string // report of the last block
	before int    // sessions
}

func (l *network) boot() *node {
	l.b.Helper()
	n := &node{Node: l.Start(l.b, machine.Config{Root: l.Root, InstanceID: "i-bench"}), net: l}
	// Boot ends with cloud-init, which would compete with the measured programs. At
	// VERBOSE, sshd logs each session.
	n.sh(`cloud-init status --wait >/dev/null
systemctl is-system-running --wait >/dev/null || true
echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/eksnode-bench.conf
systemctl reload ssh.service`)
	address, port, user := n.SSH()
	near := l.delayed(net.JoinHostPort(address, strconv.Itoa(port)))
	comm, err := sdkssh.New(near, &sdkssh.Config{
		Connection: func() (net.Conn, error) { return l.Dial(l.Ctx, "tcp", near) },
		SSHConfig: &ssh.ClientConfig{
			User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(l.Key.Signer)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a new machine on a line of its own
		},
	})
	require.NoError(l.b, err)
	n.comm = l.overRPC(comm)
	return n
}

// overRPC wraps a communicator in RPC. Packer does the same for provisioners,
// which are other processes.
func (l *network) overRPC(comm packersdk.Communicator) packersdk.Communicator {
	l.b.Helper()
	core, plugin := net.Pipe()
	server, err := rpc.NewServer(core)
	require.NoError(l.b, err)
	require.NoError(l.b, server.RegisterCommunicator(comm))
	go server.Serve()
	client, err := rpc.NewClient(plugin)
	require.NoError(l.b, err)
	return client.Communicator()
}

// sh runs a script as root on the machine, over a connection without delay.
func (n *node) sh(script string) string {
	n.net.b.Helper()
	return n.Sh(n.net.b, script)
}

// sessions returns the number of sessions of the machine's SSH server so far,
// including its own session.
func (n *node) sessions() int {
	n.net.b.Helper()
	return strings.Count(n.sh("journalctl --sync\njournalctl --unit=ssh.service --output=cat --no-pager"), "Starting session: ")
}

// ready runs a script before a way is timed.
func (n *node) ready(script string) {
	n.sh(script)
	n.before = n.sessions()
}

// check counts the way's sessions, and runs a script that fails when the
// machine's state is wrong.
func (n *node) check(script string) figures {
	count := n.sessions() - n.before - 1
	n.sh(script)
	return figures{"sessions": float64(count)}
}

// block runs a provisioner of the plugin as Packer does. Its report has a file
// of its own, because the provisioner's process keeps the report.
func (n *node) block(p packersdk.Provisioner, fields map[string]any) {
	n.net.b.Helper()
	n.report = filepath.Join(n.net.b.TempDir(), "report.json")
	fields["report"] = n.report
	require.NoError(n.net.b, p.Prepare(fields))
	said, ui := screen()
	require.NoError(n.net.b, p.Provision(n.net.Ctx, ui, n.comm, nil), "%s", said)
}

// did returns the last block's report.
func (n *node) did() plan.Report {
	n.net.b.Helper()
	return testkit.JSON[plan.Report](n.net.b, testkit.Content(n.net.b, n.report))
}

// command runs one command as a provisioner does.
func (n *node) command(line string) {
	n.net.b.Helper()
	said, ui := screen()
	cmd := &packersdk.RemoteCmd{Command: line}
	require.NoError(n.net.b, cmd.RunWithUi(n.net.Ctx, n.comm, ui))
	require.Zero(n.net.b, cmd.ExitStatus(), "%s: %s", line, said)
}

// shell does the same as a `provisioner "shell"` block of Packer for one script
// with sudo in its execute_command: upload, chmod, run, remove, each in a
// session of its own (packer 1.15.0, provisioner/shell/provisioner.go,
// Provision and cleanupRemoteFile).
func (n *node) shell(lines string) {
	n.net.b.Helper()
	const script = "/tmp/script_4711.sh"
	require.NoError(n.net.b, n.comm.Upload(script, strings.NewReader("#!/bin/sh -eu\n"+lines), nil))
	n.command("chmod 0755 " + script)
	n.command("chmod +x " + script + "; PACKER_BUILDER_TYPE='null' PACKER_BUILD_NAME='machine'  sudo -n -- " + script)
	n.command("rm -f " + script)
}

// screen is a Packer UI that keeps its output.
func screen() (*bytes.Buffer, packersdk.Ui) {
	said := new(bytes.Buffer)
	return said, &packersdk.BasicUi{Reader: strings.NewReader(""), Writer: said, ErrorWriter: said}
}
