//go:build e2e && full

package offline_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

var (
	images  = flag.String("images", "debian-13,arch", "names of cloud images, or all")
	from    = flag.String("from", "lab", "where the images are: at their publishers, or in the lab, which serves its own disks")
	results = flag.String("results", "", "file for the table of results (default: none)")
)

// TestImages builds a node's disk of each cloud image as a user does, starts a machine from it
// and looks at the kubelet. A failure does not keep the others from being tried. The disks of
// the lab have the publishers' names and another address.
func TestImages(t *testing.T) {
	names := strings.Split(*images, ",")
	if *images == "all" {
		names = distros.CloudImages()
	}
	table := "| image | result | build | boot | system | kernel |\n|---|---|---|---|---|---|\n"
	for _, name := range names {
		row := "failed | | | |"
		t.Run(name, func(t *testing.T) { row = image(t, name) })
		table += "| " + name + " | " + row + "\n"
	}
	t.Log("\n" + table)
	if *results != "" {
		require.NoError(t, os.WriteFile(*results, []byte(table), 0o644))
	}
}

// image returns the row of an image that was built and started.
func image(t *testing.T, name string) string {
	var system lab.System
	kind := machine.QEMU
	if s, known := shape.All()[name]; known && *from == "lab" {
		system.Shape, kind = &s, machine.Nspawn // a shape has no kernel
	}
	b := openOn(t, system)
	require.NoError(t, base.Install(b.Ctx, t.Output(), machine.Packages(machine.QEMU)...))
	folder := t.TempDir()
	made := filepath.Join(folder, "node.raw")
	argv := []string{lab.Eksnode(t), "build", "--disk-size", "8", "-o", made}
	var build *exec.Cmd
	switch *from {
	case "publishers":
		build = exec.CommandContext(b.Ctx, argv[0], append(argv[1:], "--base", name, "--kubernetes-version", lab.Kubelet)...)
	case "lab":
		disk := filepath.Join(folder, name+".raw")
		require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, disk))
		require.NoError(t, b.Serve(b.Ctx, b.Port("8090"), http.FileServer(http.Dir(folder))))
		build = b.inNetwork(append(append(argv, "--cache-folder", filepath.Join(folder, "cache"), "--base",
			"http://"+b.Port("8090")+"/"+name+".raw",
			"--base-checksum", fmt.Sprintf("%x", sum(t, disk))), b.options...))
	default:
		t.Fatalf("-from %s: must be publishers or lab", *from)
	}
	began := time.Now()
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	built := time.Since(began)
	began = time.Now()
	n := b.Start(t, machine.Config{Kind: kind, Image: made, InstanceID: "i-image", User: "admin", UserData: []byte(
		"#cloud-config\nusers: [{name: admin, sudo: 'ALL=(ALL) NOPASSWD:ALL', shell: /bin/bash, ssh_authorized_keys: ['" + b.Key.Authorized + "']}]\n")})
	booted := time.Since(began)
	assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
	said := strings.Split(n.Sh(t, ". /etc/os-release; echo \"$PRETTY_NAME\"; uname -r"), "\n")
	require.Len(t, said, 2)
	return fmt.Sprintf("built and booted with %s | %.0f s | %.0f s | %s | %s |", kind, built.Seconds(), booted.Seconds(),
		said[0], said[1])
}
