//go:build e2e

package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// BenchmarkBuild turns a base image into an audited disk of a node: without a machine, and
// with the same commands on a booted machine, by SSH and with a capture of its disk. All
// packages and programs are in the lab.
func BenchmarkBuild(b *testing.B) {
	l := openLab(b)
	program, err := filepath.Abs("../../bin/eksnode")
	require.NoError(b, err)
	assets, err := mirror.Build(l.ctx, "", runtime.GOARCH, os.Stderr)
	require.NoError(b, err)
	address := l.HostAddress() + ":8080"
	listener, err := l.Listen(l.ctx, "tcp", address)
	require.NoError(b, err)
	server, err := mirror.ServeOn(l.ctx, listener, assets.Folder, mirror.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, server.Close()) })

	folder := b.TempDir()
	from, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(b, machine.MakeDisk(l.ctx, l.root, from))
	options := []string{
		"--kubernetes-version", newest(b, tools.NameKubelet), "--source-url", "http://" + address, "--allow-http",
	}
	write(b, filepath.Join(folder, "resolv.conf"), []byte("nameserver "+l.HostAddress()+"\n"))
	build := append([]string{
		"nsenter", "--net=" + l.Namespace(), "unshare", "--mount", "sh", "-ec", `mount --bind resolv.conf /etc/resolv.conf
exec "$@"`, "sh", program, "build", "--base", from, "-o", made, "--cache-folder", folder,
	}, options...)
	ready := func() { sh(b, `rm -f "$1"; sync`, made) }
	audited := func() figures {
		sh(b, `"$1" audit --disk "$2"`, program, made)
		return figures{"changed": (&imported{raw: from}).changed(b, made)}
	}
	commands := "/var/tmp/eksnode provision " + strings.Join(options, " ") + " && /var/tmp/eksnode scrub --yes"
	our, _ := race(b, 1, "SSH", 0.6, way{ready, func() figures {
		return measured(b, folder, os.Environ(), build...)
	}, audited}, way{ready, func() figures {
		key, err := machine.NewKey("bench@eksnode.test")
		require.NoError(b, err)
		m, err := l.Start(l.ctx, machine.Config{Image: from, InstanceID: "i-bench", Signer: key.Signer,
			AuthorizedKeys: []string{key.Authorized}})
		require.NoError(b, err)
		defer m.Close()
		content, err := os.Open(program)
		require.NoError(b, err)
		defer content.Close()
		said, err := m.Run(l.ctx, "sudo sh -c 'cd /var/tmp; cat >eksnode; chmod 755 eksnode; "+commands+"'", content)
		require.NoError(b, err)
		require.Zero(b, said.Code, "%s%s", said.Stdout, said.Stderr)
		require.NoError(b, m.PowerOff(l.ctx))
		require.NoError(b, m.Capture(l.ctx, made))
		return nil
	}, audited})
	goal(b, "MiB", our["MiB"], 200)
	copied, err := strconv.ParseFloat(sh(b, `du --block-size=1 "$1" | cut -f1`, from), 64)
	require.NoError(b, err)
	goal(b, "written/changed", (our["written"]-copied)/our["changed"], 1.1)
}
