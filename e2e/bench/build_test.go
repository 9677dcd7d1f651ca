//go:build e2e

package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// BenchmarkBuild turns a base image into an audited disk of a node: without a machine, and
// with the same commands on a booted machine, by SSH and with a capture of its disk. All
// packages and programs are in the lab.
func BenchmarkBuild(b *testing.B) {
	l := openLab(b)
	program, folder := lab.Eksnode(b), b.TempDir()
	from, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(b, machine.MakeDisk(l.Ctx, l.Root, from))
	options := []string{"--kubernetes-version", lab.Kubelet, "--source-url", l.mirror(), "--allow-http"}
	build := l.Resolving(append([]string{program, "build", "--base", from, "-o", made, "--cache-folder", folder}, options...))
	ready := func() { sh(b, `rm -f "$1"; sync`, made) }
	audited := func() figures {
		sh(b, `"$1" audit --disk "$2"`, program, made)
		return figures{"changed": (&imported{raw: from}).changed(b, made)}
	}
	our, _ := race(b, 1, "SSH", 0.6, way{ready, func() figures {
		return measured(b, folder, os.Environ(), build.Args...)
	}, audited}, way{ready, func() figures {
		n := l.Start(b, machine.Config{Image: from, InstanceID: "i-bench"})
		n.Upload(b, program, "/var/tmp/eksnode")
		n.Sh(b, "/var/tmp/eksnode provision %s && /var/tmp/eksnode scrub --yes", strings.Join(options, " "))
		n.CaptureTo(b, made)
		return nil
	}, audited})
	goal(b, "MiB", our["MiB"], 200)
	copied, err := strconv.ParseFloat(sh(b, `du --block-size=1 "$1" | cut -f1`, from), 64)
	require.NoError(b, err)
	goal(b, "written/changed", (our["written"]-copied)/our["changed"], 1.1)
}
