//go:build e2e

package engines

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// limit bounds the test, so that a hang becomes a failure with a log.
const limit = 15 * time.Minute

// TestTheComponentBuildsAnImage runs the phases where Image Builder does: build
// and validate on one machine, test on another that is started from its image.
func TestTheComponentBuildsAnImage(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, root, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })
	values := serve(t, ctx, lab)
	text, err := os.ReadFile(componentFile)
	require.NoError(t, err)

	wrong := map[string]string{}
	for name, value := range values {
		wrong[name] = value
	}
	wrong["Checksum"] = strings.Repeat("0", 64)
	builder := login(t, ctx, lab, machine.Config{Root: root, InstanceID: "i-builder"})
	refused, err := ParseComponent(text, wrong)
	require.NoError(t, err)
	require.ErrorContains(t, builder.phase(refused, "build"), "step Download: its SHA-256 is")
	require.ErrorContains(t, builder.bash("test -e /var/lib/eksnode-build"), "exit status 1", "what was refused is there")

	component, err := ParseComponent(text, values)
	require.NoError(t, err)
	require.NoError(t, builder.phase(component, "build"))
	require.NoError(t, builder.bash("mkdir /root/.aws && echo secret > /root/.aws/credentials"))
	require.ErrorContains(t, builder.phase(component, "validate"), "step Audit: exit status 1", "an audit that finds something fails the build")
	require.NoError(t, builder.bash("rm -r /root/.aws"))
	require.NoError(t, builder.phase(component, "validate"))
	require.ErrorContains(t, builder.bash("test -e /var/lib/eksnode-build"), "exit status 1", "the component leaves itself in the image")
	require.NoError(t, builder.machine.PowerOff(ctx))
	image := filepath.Join(t.TempDir(), "image.raw")
	require.NoError(t, builder.machine.Capture(ctx, image))

	node := login(t, ctx, lab, machine.Config{Image: image, InstanceID: "i-test"})
	require.NoError(t, node.phase(component, "test"))
	require.NoError(t, node.bash("rm /usr/bin/kubelet"))
	require.ErrorContains(t, node.phase(component, "test"), "step Node: exit status")
}

// serve serves a release's archive and a mirror of the node's programs, and
// answers the component's parameters for them.
func serve(t *testing.T, ctx context.Context, lab *machine.Lab) map[string]string {
	t.Helper()
	folder := t.TempDir()
	archive, digest, err := packRelease(ctx, folder)
	require.NoError(t, err)
	const port, mirrorPort = "8081", "8080"
	require.NoError(t, lab.Serve(ctx, net.JoinHostPort(lab.HostAddress(), port), http.FileServerFS(os.DirFS(folder))))
	assets, err := mirror.Build(ctx, mirror.Versions{}, "amd64", t.Output())
	require.NoError(t, err)
	listener, err := lab.Listen(ctx, "tcp", net.JoinHostPort(lab.HostAddress(), mirrorPort))
	require.NoError(t, err)
	server, err := mirror.ServeOn(ctx, listener, assets.Folder, mirror.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	_, credentials, err := tools.Find(tools.NameCredentialProvider, "")
	require.NoError(t, err)
	return map[string]string{
		"Archive":  "http://" + net.JoinHostPort(lab.HostAddress(), port) + "/" + archive,
		"Checksum": digest, "KubernetesVersion": "1.34.4",
		"Options": "--source-url " + server.URL() + " --versions ecr-credential-provider=" + credentials,
	}
}

// executor runs a component's steps on a machine, as root and in one session, as
// Image Builder's agent does: it needs nobody to let it in again.
type executor struct {
	t       *testing.T
	ctx     context.Context
	lab     *machine.Lab
	machine *machine.Machine
	in      io.Writer
	out     *bufio.Scanner
}

func login(t *testing.T, ctx context.Context, lab *machine.Lab, config machine.Config) *executor {
	t.Helper()
	key, err := machine.NewKey("agent")
	require.NoError(t, err)
	config.AuthorizedKeys, config.Signer = []string{key.Authorized}, key.Signer
	m, err := lab.Start(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	host, port, user := m.SSH()
	address := net.JoinHostPort(host, fmt.Sprint(port))
	conn, err := lab.Dial(ctx, "tcp", address)
	require.NoError(t, err)
	transport, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key.Signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	require.NoError(t, err)
	client := ssh.NewClient(transport, channels, requests)
	t.Cleanup(func() { client.Close() })
	session, err := client.NewSession()
	require.NoError(t, err)
	e := &executor{t: t, ctx: ctx, lab: lab, machine: m}
	e.in, err = session.StdinPipe()
	require.NoError(t, err)
	out, err := session.StdoutPipe()
	require.NoError(t, err)
	e.out = bufio.NewScanner(out)
	require.NoError(t, session.Start("cd / && exec sudo -H bash"))
	return e
}

// phase runs the steps of a phase until one fails.
func (e *executor) phase(c Component, name string) error {
	phase, err := c.Phase(name)
	if err != nil {
		return err
	}
	for _, s := range phase.Steps {
		if err := e.step(s); err != nil {
			return fmt.Errorf("phase %s, step %s: %w", name, s.Name, err)
		}
	}
	return nil
}

func (e *executor) step(s Step) error {
	for _, d := range s.Download {
		if err := e.download(d); err != nil {
			return err
		}
	}
	for _, d := range s.Delete {
		remove := "rmdir -- "
		if d.Force {
			remove = "rm -r -- "
		}
		if err := e.bash(remove + "'" + d.Path + "'"); err != nil {
			return err
		}
	}
	if s.Action == "ExecuteBash" {
		return e.bash(strings.Join(s.Bash.Commands, "\n"))
	}
	return nil
}

// download fetches a file as WebDownload does, and writes it on the machine.
func (e *executor) download(d Download) error {
	client := http.Client{Transport: &http.Transport{DialContext: e.lab.Dial}}
	request, err := http.NewRequestWithContext(e.ctx, http.MethodGet, d.Source, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("downloading %s: %s: %w", d.Source, response.Status, err)
	}
	if d.Checksum != "" && d.Algorithm == "SHA256" && sum(content) != d.Checksum {
		return fmt.Errorf("its SHA-256 is %s, not %s", sum(content), d.Checksum)
	}
	return e.bash("mkdir -p '" + path.Dir(d.Destination) + "' && base64 -d > '" + d.Destination + "' <<'EOF'\n" + base64.StdEncoding.EncodeToString(content) + "\nEOF")
}

// bash runs a script as ExecuteBash does: from a file.
func (e *executor) bash(script string) error {
	const marker = "\x01end"
	_, err := fmt.Fprintf(e.in, "base64 -d > /run/input.sh <<'EOF'\n%s\nEOF\nbash /run/input.sh < /dev/null 2>&1; printf '\\n\\001end %%d\\n' $?; rm /run/input.sh\n",
		base64.StdEncoding.EncodeToString([]byte(script)))
	if err != nil {
		return err
	}
	for e.out.Scan() {
		line := e.out.Text()
		code, ended := strings.CutPrefix(line, marker+" ")
		switch {
		case ended && code == "0":
			return nil
		case ended:
			return fmt.Errorf("exit status %s", code)
		}
		fmt.Fprintln(e.t.Output(), line)
	}
	return fmt.Errorf("the session ended: %w", io.ErrUnexpectedEOF)
}
