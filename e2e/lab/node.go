package lab

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Node is a machine on which scripts run as root.
type Node struct {
	*machine.Machine
	ctx  context.Context
	root *ssh.Client
}

// KeepRoot opens a root session that all later scripts use. They then depend
// neither on sudo nor on accounts, keys and new logins. The session ends with
// the machine, and can be opened again after a boot.
func (n *Node) KeepRoot(t testing.TB, key machine.Key) {
	t.Helper()
	n.root = nil
	// cloud-init adds the key for root too, with a command that refuses the login.
	n.Sh(t, "echo '%s' > /root/.ssh/authorized_keys", key.Authorized)
	client, err := n.Login(n.ctx, "root")
	require.NoError(t, err)
	n.root = client
}

func (n *Node) run(script string, args ...any) (machine.Result, error) {
	if len(args) > 0 {
		script = fmt.Sprintf(script, args...)
	}
	if n.root != nil {
		return machine.RunOver(n.ctx, n.root, "exec sh -seu", strings.NewReader(script))
	}
	return n.Run(n.ctx, "sudo sh -seu", strings.NewReader(script))
}

// Try runs a shell script as root, and also returns its exit code. The script
// is passed on standard input, so that a script that looks for processes does
// not find itself.
func (n *Node) Try(t testing.TB, script string, args ...any) machine.Result {
	t.Helper()
	result, err := n.run(script, args...)
	require.NoError(t, err, script)
	return result
}

// Sh runs a shell script as root that must succeed, and returns its output.
func (n *Node) Sh(t testing.TB, script string, args ...any) string {
	t.Helper()
	result := n.Try(t, script, args...)
	require.Zero(t, result.Code, "%s\n%s%s", script, result.Stdout, result.Stderr)
	return strings.TrimSpace(result.Stdout)
}

// Lines runs a script like Sh and returns the lines of its output.
func (n *Node) Lines(t testing.TB, script string, args ...any) []string {
	t.Helper()
	text := n.Sh(t, script, args...)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Await runs a script until it succeeds, and returns its output. On failure the
// test's log has the machine's journal.
func (n *Node) Await(t testing.TB, what string, within time.Duration, script string, args ...any) string {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(n.ctx, within, fmt.Errorf("not within %s: %s", within, what))
	defer cancel()
	var result machine.Result
	err := machine.PollEvery(ctx, 500*time.Millisecond, func() (err error) {
		if result, err = n.run(script, args...); err == nil && result.Code != 0 {
			err = fmt.Errorf("exit code %d: %s%s", result.Code, result.Stdout, result.Stderr)
		}
		return err
	})
	if err != nil {
		said, _ := n.run("systemctl list-jobs; systemctl --failed; journalctl --no-pager -b -u 'eksnode-*' -u kubelet -u containerd | tail -60; cat /var/log/cloud-init-output.log")
		t.Log(said.Stdout)
	}
	require.NoError(t, err)
	t.Logf("%s: %s, after %s", n.InstanceID(), what, time.Since(begin).Round(10*time.Millisecond))
	return strings.TrimSpace(result.Stdout)
}

// Upload copies a program or another file to the machine.
func (n *Node) Upload(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	result, err := n.Run(n.ctx, "sudo sh -c 'cat > "+to+" && chmod 755 "+to+"'", in)
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
}

// CaptureTo powers the machine off, captures its disk and ends it.
func (n *Node) CaptureTo(t testing.TB, image string) {
	t.Helper()
	require.NoError(t, n.PowerOff(n.ctx))
	require.NoError(t, n.Capture(n.ctx, image))
	assert.NoError(t, n.Close())
}

// Metadata is the instance metadata service of a lab. It identifies each
// instance by its address.
type Metadata struct {
	mutex    sync.Mutex
	services map[netip.Addr]http.Handler
}

// ServeMetadata starts the service at its address, which exists in the lab
// only.
func (l *Lab) ServeMetadata(t testing.TB) *Metadata {
	t.Helper()
	m := &Metadata{services: map[netip.Addr]http.Handler{}}
	address := netip.MustParseAddr("169.254.169.254")
	require.NoError(t, l.AddAddress(l.Ctx, address))
	require.NoError(t, l.Serve(l.Ctx, netip.AddrPortFrom(address, 80).String(), m))
	return m
}

// ServeHTTP implements http.Handler.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	m.mutex.Lock()
	service := m.services[from.Addr()]
	m.mutex.Unlock()
	if err != nil || service == nil {
		http.Error(w, "no instance has the address "+r.RemoteAddr, http.StatusForbidden)
		return
	}
	service.ServeHTTP(w, r)
}

// Answer sets the handler for the instance at an address.
func (m *Metadata) Answer(address netip.Addr, by http.Handler) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.services[address] = by
}

// NodeName returns EC2's private DNS name for an address.
func NodeName(address netip.Addr) string {
	return "ip-" + strings.ReplaceAll(address.String(), ".", "-") + ".eu-west-1.compute.internal"
}

// Instance describes the instance with that address, in eu-west-1.
func Instance(id string, address netip.Addr, userData []byte) imdstest.Instance {
	i := imdstest.Typical()
	i.ID, i.MAC, i.IPv4, i.Hostname, i.UserData = id, machine.MAC(address).String(), address.String(), NodeName(address), userData
	return i
}

// PauseImage is the pause image that a node in eu-west-1 pulls from EKS's registry.
func PauseImage() string {
	return "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:" + arguments.New().PauseVersion
}

// System is a base system. The zero value is the harness's usual Debian.
type System struct {
	// Suite is another Debian release.
	Suite string
	// Shape is a system of another distribution's shape.
	Shape *shape.Shape
}

func (s System) kubelet(t testing.TB) string {
	t.Helper()
	tool, version, err := tools.Find(tools.NameKubelet, "")
	require.NoError(t, err)
	if s.Shape == nil {
		return version
	}
	d, err := distros.ByID(s.Shape.ID)
	require.NoError(t, err)
	for _, version := range tool.Versions {
		if d.NewestKubernetes == 0 || strings.HasPrefix(version, fmt.Sprintf("1.%d.", d.NewestKubernetes)) {
			return version
		}
	}
	require.FailNow(t, "the table of versions has no kubelet for "+d.Name)
	return ""
}

// Use makes the lab's machines start from a system, and serves its packages.
func (l *Lab) Use(t testing.TB, s System) {
	t.Helper()
	var err error
	switch {
	case s.Shape != nil:
		var repository string
		l.Root, repository, err = s.Shape.Prepare(l.Ctx, t.Output())
		require.NoError(t, err)
		l.User = s.Shape.User
		require.NoError(t, l.Serve(l.Ctx, l.Port(shape.Port), http.FileServer(http.Dir(repository))))
	case s.Suite != "":
		l.Root, err = (base.Debian{Suite: s.Suite}).Prepare(l.Ctx, t.Output())
		require.NoError(t, err)
	}
}
