package boot

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/render"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

//go:embed sequence.sh
var sequence []byte

// Requirements are the Debian packages that the race needs.
func Requirements() []string { return []string{"bash", "curl", "jq", "mount"} }

// CPU is what contestants count besides the time, in milliseconds: their own
// and that of all they waited for.
const CPU = "CPU ms"

// Race is two contestants and a metadata service.
type Race struct {
	folder           string
	eksnode, standIn string
	service          *imdstest.Service
}

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: my-cluster, apiServerEndpoint: "https://a.example", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet: {config: {maxPods: 29}, flags: ["--node-labels=a=b"]}
`

// New prepares a race in a folder. eksnode and standIn are programs. Close it.
func New(folder, eksnode, standIn string) *Race {
	instance := imdstest.Typical()
	instance.UserData = []byte(nodeConfig)
	return &Race{folder: folder, eksnode: eksnode, standIn: standIn, service: imdstest.Serve(instance)}
}

// Close ends the metadata service.
func (r *Race) Close() { r.service.Close() }

// Contestants are eksnode init and bootstrap.sh's tool calls.
func (r *Race) Contestants() []contest.Contestant {
	nothing := func(context.Context) (contest.Counts, error) { return nil, nil }
	return []contest.Contestant{
		{Name: "eksnode init", Prepare: r.layOut, Run: r.runInit, Check: r.check},
		{Name: "bootstrap.sh's way", Prepare: r.prepareSequence, Run: r.runSequence, Check: nothing},
	}
}

func (r *Race) root() string { return filepath.Join(r.folder, "root") }

// layOut makes the root of a fresh machine, with the image's manifest.
func (r *Race) layOut(context.Context) error {
	if err := os.RemoveAll(r.root()); err != nil {
		return err
	}
	standIn, err := os.ReadFile(r.standIn)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(r.eksnode)
	if err != nil {
		return err
	}
	m := manifest.Manifest{Assets: []manifest.Asset{
		{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{{Path: "/usr/bin/kubelet", Size: int64(len(standIn))}}},
		{ID: "containerd", Version: "2.1.4", Files: []manifest.File{{Path: "/usr/bin/containerd", Size: int64(len(standIn))}}},
	}}
	image, err := m.Encode()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"/usr/bin/program": standIn, "/usr/bin/eksnode": program, manifest.Path: image, "/etc/hosts": []byte("127.0.0.1 localhost\n"),
		"/run/systemd/system/.keep": nil, "/proc/.keep": nil, os.DevNull: nil,
	} {
		if err := os.MkdirAll(filepath.Join(r.root(), filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.root(), name), content, 0o755); err != nil {
			return err
		}
	}
	return link("program", filepath.Join(r.root(), "usr/bin"), "systemctl", "kubelet", "containerd", "ctr")
}

func link(to, folder string, names ...string) error {
	for _, name := range names {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// runInit runs a first boot in that root. The shell mounts what the kernel
// gives every machine and becomes eksnode.
func (r *Race) runInit(ctx context.Context) (contest.Counts, error) {
	const script = `mount --rbind /proc "$1/proc" && mount --bind /dev/null "$1/dev/null" && exec env AWS_EC2_METADATA_SERVICE_ENDPOINT="$2" chroot "$1" /usr/bin/eksnode init`
	cmd := exec.CommandContext(ctx, "sh", "-c", script, "sh", r.root(), r.service.URL)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	return measure(cmd, "/usr/bin:/usr/sbin:/bin:/sbin")
}

// check says whether the kubelet has what it needs and was started.
func (r *Race) check(context.Context) (contest.Counts, error) {
	for _, name := range []string{render.KubeletConfig, render.Kubeconfig, render.KubeletEnvironment, render.ContainerdConfig, "/run/started-containerd.service", "/run/started-kubelet.service"} {
		if _, err := os.Stat(filepath.Join(r.root(), name)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (r *Race) work() string { return filepath.Join(r.folder, "sequence") }

func (r *Race) prepareSequence(context.Context) error {
	if err := os.RemoveAll(r.work()); err != nil {
		return err
	}
	commands := filepath.Join(r.work(), "commands")
	if err := os.MkdirAll(commands, 0o755); err != nil {
		return err
	}
	if err := link(r.standIn, commands, "systemctl", "kubelet", "containerd", "aws"); err != nil {
		return err
	}
	for _, t := range templates.All() {
		if err := os.WriteFile(filepath.Join(r.work(), filepath.Base(t.Path)), t.Content, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.work(), "sequence.sh"), sequence, 0o755)
}

// runSequence runs the tool calls of bootstrap.sh in a folder of their own.
func (r *Race) runSequence(ctx context.Context) (contest.Counts, error) {
	cmd := exec.CommandContext(ctx, "bash", "sequence.sh", r.service.URL)
	cmd.Dir = r.work()
	return measure(cmd, filepath.Join(r.work(), "commands")+":/usr/bin:/usr/sbin:/bin:/sbin")
}

func measure(cmd *exec.Cmd, path string) (contest.Counts, error) {
	cmd.Env = []string{"PATH=" + path}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", cmd.Args[0], err, out)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return contest.Counts{CPU: float64(used.Microseconds()) / 1000}, nil
}
