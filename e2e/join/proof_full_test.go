//go:build e2e && full

package join_test

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// The program of `make aws` runs its steps that launch instances. Machines are in the place of
// instances: their disk is built offline, and they boot from the blocks that `eksnode ami import`
// sent. The cluster is a real control plane that admits the roles with an access entry, and the
// console is what a machine wrote to /dev/ttyS0. Not real are:
//   - AWS, which cannot run here. Its VPC and the cluster's service network have no part in the
//     lab's network.
//   - The kernel and the boot loader, because a virtual machine takes minutes without KVM.
//   - The VPC CNI, which needs EC2's network interfaces, and registries, which need the Internet:
//     the image names a mirror in the lab for all of them, and has the pause image.
//
// The karpenter and nodegroup steps need controllers that only run in AWS.
func TestProofOnMachines(t *testing.T) {
	const run, cluster = "machines", "eksnode-proof-machines"
	var disk string
	w := openClusters(t, lab.System{}, 15*time.Minute, []string{cluster}, func(w *world) {
		w.phase("a node disk, built offline", func() { disk = w.buildOffline() })
	})
	a := w.openAccount()
	before := a.Inventory(aws.Region, "us-east-1")
	a.Machines = &launcher{world: w}
	a.APIServer, a.Authority = w.b.endpoint(), w.b.authority()
	environment := a.serveIn(w)
	for _, variable := range environment {
		if of, url, _ := strings.Cut(variable, "="); of == "AWS_ENDPOINT_URL" {
			w.b.authenticator.STS = url + "/"
		}
	}
	w.b.authenticator.Admits = a.Admits
	pulling := strings.NewReplacer("{busybox}", busyboxImage, "Never", "IfNotPresent")
	w.b.must(t, pulling.Replace(network), "apply", "--filename=-")
	w.identities.Add(join.Identity{ID: "make aws", Admin: true, AccessKeyID: aws.AccessKey, SecretKey: "secret"})

	proof, folder := filepath.Join(t.TempDir(), "proof"), t.TempDir()
	testkit.Run(t, "go", "build", "-o", proof, "../proof")
	cmd := w.Command(w.Ctx, proof, "-yes", "-region", aws.Region, "-run", run, "-only", "bootstrap,unscrubbed",
		"-disk", disk, "-kubernetes", lab.Kubelet, "-eksnode", lab.Eksnode(t), "-folder", folder,
		"-settle", "0", "-console", "0", "-pause", "500ms", "-patience", "120")
	cmd.Env = append(append(os.Environ(), environment...),
		"PATH="+filepath.Dir(w.b.programs[tools.NameKubectl])+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	w.phase("the proof", func() {
		process, err := machine.Spawn(cmd)
		require.NoError(t, err)
		require.NoError(t, process.Wait(w.Ctx))
	})

	report := testkit.JSON[struct {
		Result, Error string
		Left          []string
		Steps         []struct{ Step, Evidence string }
	}](t, testkit.Content(t, filepath.Join(folder, "report.json")))
	assert.Equal(t, "ok", report.Result, "%s", report.Error)
	assert.Empty(t, report.Left)
	joined := `^seconds since RunInstances: running \d+, registered \d+, Ready \d+$`
	refused := `^i-.*Unauthorized[^$]*\n *remedy: .*captured from a joined node`
	want := map[string]string{"launch": joined, "bootstrap": joined, "unscrubbed": refused}
	for _, s := range report.Steps {
		assert.Regexp(t, want[s.Step], s.Evidence, s.Step)
		if want[s.Step] != "" {
			w.record("make aws: "+s.Step, "", report.Result, s.Evidence)
		}
	}
	assert.Len(t, w.journal.Rows, len(want))
	refusals := strings.Join(w.b.authenticator.Refusals(), "\n")
	assert.Regexp(t, `^the role `+cluster+`-stranger of i-\w+ is not mapped in the cluster `+cluster+`$`, refusals)
	assert.Equal(t, before, a.Inventory(aws.Region, "us-east-1"))
	w.report("proof")
}

// buildOffline builds a node disk of the base system, without a machine, and writes the pause
// image to it.
func (w *world) buildOffline() string {
	w.t.Helper()
	w.serveImages(map[string]v1.Image{
		busyboxImage: lab.Image(w.t, idle, lab.Busybox(w.t, "sh", "cp", "sleep")...),
		"public.ecr.aws/docker/library/busybox:stable": lab.Image(w.t, idle, lab.Busybox(w.t, "sh", "echo", "sleep")...),
	})
	folder := w.t.TempDir()
	base, disk := filepath.Join(folder, "base.raw"), filepath.Join(w.Folder(), "node.raw")
	require.NoError(w.t, machine.MakeDisk(w.Ctx, w.Root, base))
	pause := filepath.Join(folder, "pause.tar")
	tag, err := name.NewTag("localhost/kubernetes/pause:latest")
	require.NoError(w.t, err)
	require.NoError(w.t, tarball.WriteToFile(pause, tag, lab.Image(w.t, idle, lab.Busybox(w.t, "tail")...)))
	server := w.ServeMirror(w.t, w.Port("8080"), lab.Assets(w.t).Folder, mirror.Options{})
	testkit.Output(w.t, w.Resolving([]string{lab.Eksnode(w.t), "build", "--base", base, "--disk-size", "8",
		"--image", disk, "--kubernetes-version", lab.Kubelet, "--source-url", server.URL(), "--allow-http",
		"--cache-folder", filepath.Join(folder, "cache"), "--registry-mirrors", "*=http://" + w.Port("5000")}))
	said, code := lab.Disk(disk).Sh(w.t, true, concede, string(w.b.fill(concessions)), pause)
	require.Zero(w.t, code, said)
	lab.Disk(disk).Scrub(w.t) // the audit refuses what changed after a scrub
	return disk
}

// concede writes the pause image, and settings with which pods run on hosts that have cgroup v1,
// and may neither lower the OOM score of processes nor raise the number of their open files.
const concede = `cp "$2" "$ROOT/etc/eks/pause.tar"
printf %s "$1" > "$ROOT/etc/eks/eksnode/defaults.json"
sed -i 's/^\[plugins."io.containerd.grpc.v1.cri"\]$/&\nrestrict_oom_score_adj = true/' \
  "$ROOT/etc/eks/containerd/containerd-config.toml"`

//go:embed testdata/concessions.json
var concessions string

// serveImages serves images in the lab, in the place of all registries.
func (w *world) serveImages(images map[string]v1.Image) {
	w.t.Helper()
	require.NoError(w.t, w.Serve(w.Ctx, w.Port("5000"), lab.Registry()))
	for of, image := range images {
		_, path, _ := strings.Cut(of, "/")
		w.Push(w.t, w.Port("5000")+"/"+path, image)
	}
}
