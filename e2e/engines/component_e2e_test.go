//go:build e2e

package engines

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// limit bounds the test, so that a hang becomes a failure with a log.
const limit = 15 * time.Minute

// TestImageBuilderComponentBuildsImage runs the phases like Image Builder:
// build and validate on one machine, test on a second machine that is started
// from its image.
func TestImageBuilderComponentBuildsImage(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	folder, archive, digest := release(t)
	require.NoError(t, l.Serve(l.Ctx, l.Port("8081"), http.FileServerFS(os.DirFS(folder))))
	server := l.ServeMirror(t, l.Port("8080"), lab.Assets(t).Folder, mirror.Options{})
	values := map[string]string{
		"Archive": "http://" + l.Port("8081") + "/" + archive, "Checksum": digest, "KubernetesVersion": lab.Kubelet,
		"Options": "--source-url " + server.URL() + " --allow-http",
	}
	component := func(values map[string]string) Component {
		c, err := ParseComponent([]byte(testkit.Content(t, componentFile)), values)
		require.NoError(t, err)
		return c
	}
	wrong := maps.Clone(values)
	wrong["Checksum"] = strings.Repeat("0", 64)

	builder := newExecutor(t, l, machine.Config{Root: l.Root, InstanceID: "i-builder"})
	require.ErrorContains(t, builder.phase(component(wrong), "build"), "step Download: exit code 1: its SHA-256 is ")
	require.ErrorContains(t, builder.bash("test -e /var/lib/eksnode-build"), "exit code 1", "the refused download is on the machine")
	require.NoError(t, builder.phase(component(values), "build"))
	require.NoError(t, builder.bash("mkdir /root/.aws && echo secret > /root/.aws/credentials"))
	require.ErrorContains(t, builder.phase(component(values), "validate"), "step Audit: exit code 1", "a finding of the audit must fail the build")
	require.NoError(t, builder.bash("rm -r /root/.aws"))
	require.NoError(t, builder.phase(component(values), "validate"))
	require.ErrorContains(t, builder.bash("test -e /var/lib/eksnode-build"), "exit code 1", "the component left files of its own in the image")
	image := filepath.Join(t.TempDir(), "image.raw")
	builder.CaptureTo(t, image)

	node := newExecutor(t, l, machine.Config{Image: image, InstanceID: "i-test"})
	require.NoError(t, node.phase(component(values), "test"))
	require.NoError(t, node.bash("rm /usr/bin/kubelet"))
	require.ErrorContains(t, node.phase(component(values), "test"), "step Node: exit code")
}

// executor runs a component's steps on a machine like Image Builder's agent: as
// root and in one connection. It needs no second login.
type executor struct {
	*lab.Node
	t *testing.T
}

func newExecutor(t *testing.T, l *lab.Lab, config machine.Config) executor {
	t.Helper()
	e := executor{l.Start(t, config), t}
	e.KeepRoot(t, l.Key)
	return e
}

// phase runs the steps of a phase until the first failure.
func (e executor) phase(c Component, name string) error {
	for _, p := range c.Phases {
		for _, s := range p.Steps {
			if p.Name != name {
				continue
			}
			if err := e.step(s); err != nil {
				return fmt.Errorf("phase %s, step %s: %w", name, s.Name, err)
			}
		}
	}
	return nil
}

func (e executor) step(s Step) error {
	scripts := []string{strings.Join(s.Bash.Commands, "\n")}
	for _, d := range s.Download {
		scripts = append(scripts, fmt.Sprintf(`set -e
curl -fsSo /run/download '%s'
sum=$(sha256sum /run/download | cut -d' ' -f1)
[ '%s' != SHA256 ] || [ "$sum" = '%s' ] || { echo "its SHA-256 is $sum"; exit 1; }
mkdir -p '%s'
mv /run/download '%s'`, d.Source, d.Algorithm, d.Checksum, path.Dir(d.Destination), d.Destination))
	}
	for _, d := range s.Delete {
		remove := map[bool]string{true: "rm -r", false: "rmdir"}[d.Force]
		scripts = append(scripts, remove+" -- '"+d.Path+"'")
	}
	for _, script := range scripts {
		if err := e.bash(script); err != nil {
			return err
		}
	}
	return nil
}

// bash runs a script like ExecuteBash: from a file.
func (e executor) bash(script string) error {
	result := e.Try(e.t, "cd /\ncat > /run/input.sh <<'END OF INPUT'\n"+script+"\nEND OF INPUT\nbash /run/input.sh < /dev/null 2>&1")
	e.t.Log(result.Stdout)
	if result.Code != 0 {
		return fmt.Errorf("exit code %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	return nil
}
