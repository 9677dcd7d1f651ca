//go:build e2e && full

package join_test

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
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var (
	images = flag.String("images", "debian-13,arch", "names of cloud images, or all")
	from   = flag.String("from", "lab", "where the images are: at their publishers, or in the lab, which serves its own disks")
	table  = flag.String("results", "", "file for the table of results (default: none)")
)

// TestImages builds a node's disk of each cloud image as a user does, starts a machine from it
// and makes it join. A failure does not keep the others from being tried. The disks of the lab
// have the publishers' names and another address.
func TestImages(t *testing.T) {
	names := strings.Split(*images, ",")
	if *images == "all" {
		names = distros.CloudImages()
	}
	text := "| image | result | build | Ready | system | kernel |\n|---|---|---|---|---|---|\n"
	for _, name := range names {
		row := "failed | | | |"
		t.Run(name, func(t *testing.T) { row = image(t, name) })
		text += "| " + name + " | " + row + "\n"
	}
	t.Log("\n" + text)
	if *table != "" {
		require.NoError(t, os.WriteFile(*table, []byte(text), 0o644))
	}
}

// image returns the row of an image that was built and joined.
func image(t *testing.T, name string) string {
	var system lab.System
	kind := machine.QEMU
	if s, known := shape.All()[name]; known && *from == "lab" {
		system.Shape, kind = &s, machine.Node // a shape has no kernel
	}
	var made string
	var built float64
	w := openClusters(t, system, time.Hour, []string{nameOfA, nameOfB}, func(w *world) {
		w.Use(t, system)
		made = filepath.Join(w.Folder(), "node.raw")
		began := time.Now()
		w.buildImage(name, made)
		built = seconds(began)
	})
	began := time.Now()
	i := w.start(machine.Config{Kind: kind, Image: made, Memory: 2048, InstanceID: "i-image", User: "admin",
		UserData: w.withUser(w.b.nodeConfig())}, w.b.role, cut{})
	defer w.end(i)
	w.runsBare(i, "image")
	ready := seconds(began)
	assert.Equal(t, "Kubernetes v"+lab.Kubelet, i.Sh(t, "kubelet --version"))
	said := i.Lines(t, ". /etc/os-release; echo \"$PRETTY_NAME\"; uname -r")
	require.Len(t, said, 2)
	return fmt.Sprintf("built and joined with %s | %.0f s | %.0f s | %s | %s |", kind, built, ready, said[0], said[1])
}

// withUser adds to a NodeConfig the user of the lab's logins.
func (w *world) withUser(nodeConfig []byte) []byte {
	return fmt.Appendf(nil, "%s\nContent-Type: text/cloud-config\n\n#cloud-config\n"+
		"users: [{name: admin, sudo: 'ALL=(ALL) NOPASSWD:ALL', shell: /bin/bash, ssh_authorized_keys: ['%s']}]\n--==NODE==--\n",
		strings.TrimSuffix(strings.TrimSpace(string(nodeConfig)), "--"), w.Key.Authorized)
}

// buildImage builds a node's disk of a cloud image.
func (w *world) buildImage(name, to string) {
	require.NoError(w.t, base.Install(w.Ctx, w.t.Output(), machine.Packages(machine.QEMU)...))
	argv := []string{lab.Eksnode(w.t), "build", "--disk-size", "8", "-o", to, "--kubernetes-version", lab.Kubelet}
	var build *exec.Cmd
	switch *from {
	case "publishers":
		build = exec.CommandContext(w.Ctx, argv[0], append(argv[1:], "--base", name)...)
	case "lab":
		folder := w.t.TempDir()
		disk := filepath.Join(folder, name+".raw")
		require.NoError(w.t, machine.MakeDisk(w.Ctx, w.Root, disk))
		sum, err := exec.CommandContext(w.Ctx, "sha256sum", disk).Output()
		require.NoError(w.t, err)
		require.NoError(w.t, w.Serve(w.Ctx, w.Port("8090"), http.FileServer(http.Dir(folder))))
		server := w.ServeMirror(w.t, w.Port("8080"), lab.Assets(w.t).Folder, mirror.Options{})
		build = w.Resolving(append(argv, "--source-url", server.URL(), "--allow-http", "--cache-folder",
			filepath.Join(folder, "cache"), "--base", "http://"+w.Port("8090")+"/"+name+".raw", "--base-checksum",
			strings.Fields(string(sum))[0]))
	default:
		w.t.Fatalf("-from %s: must be publishers or lab", *from)
	}
	testkit.Output(w.t, build)
}
