//go:build e2e

package image

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

var (
	kind    = flag.String("machine", string(machine.Nspawn), "kind of the builder machine: nspawn or qemu")
	packer  = flag.String("packer", "", "version of Packer")
	file    = flag.String("image", "build/eksnode-debian-13.raw", "image to make, relative to the repository; .raw or .qcow2")
	reports = flag.String("reports", "build/reports", "folder for reports, relative to the repository")
	suite   = flag.String("suite", "", "code name of the Debian release (default: the harness's default)")
)

func TestImage(t *testing.T) {
	root := filepath.Dir(filepath.Dir(lab.Eksnode(t)))
	for _, path := range []*string{file, reports} {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(root, *path)
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(*file), 0o755))
	require.NoError(t, os.MkdirAll(*reports, 0o755))
	lab.Build{Kind: machine.Kind(*kind), Disk: true, System: lab.System{Suite: *suite}, Packer: *packer, Image: *file, Reports: *reports}.Run(t)
	verdict := audit(t)
	launch(t)
	st, err := os.Stat(*file)
	require.NoError(t, err)
	t.Logf("\naudit    %s\nimage    %s (%s)\nreports  %s", verdict, *file, show.Size(st.Size()), *reports)
}

// audit audits the image and returns the verdict. EC2 could boot the image by BIOS, and
// no file may contain the builder's key comment.
func audit(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), lab.Eksnode(t), "audit", "--disk", *file, "--report", filepath.Join(*reports, "audit.json")).CombinedOutput()
	said := string(out)
	t.Log(said)
	require.NoError(t, err, "the image is not clean")

	image, err := disk.Open(*file)
	require.NoError(t, err)
	defer image.Close()
	assert.Equal(t, "legacy-bios", image.Layout.Boot.Mode())
	assert.Empty(t, image.Layout.Notes)

	raw := *file
	if filepath.Ext(raw) != ".raw" {
		raw = filepath.Join(t.TempDir(), "image.raw")
		testkit.Run(t, "qemu-img", "convert", "-O", "raw", *file, raw)
	}
	found, code := lab.Disk(raw).Sh(t, false, `! grep -rlF -e "$1" "$ROOT"`, lab.Builder)
	assert.Zero(t, code, "files name the builder's key:\n%s", found)
	return testkit.LastLine(said)
}

// launch starts two machines from the image, and compares them.
func launch(t *testing.T) {
	t.Helper()
	l := lab.Open(t, 30*time.Minute, machine.Kind(*kind))
	var facts []map[string]string
	for _, id := range []string{"i-one", "i-two"} {
		var err error
		l.Key, err = machine.NewKey(id + "@eksnode.test")
		require.NoError(t, err)
		m := l.Start(t, machine.Config{Kind: machine.Kind(*kind), Image: *file, InstanceID: id})
		all := maps.Clone(questions)
		if *kind == string(machine.QEMU) {
			maps.Copy(all, kernelQuestions)
		}
		for name, command := range all {
			all[name] = m.Sh(t, command)
		}
		t.Logf("%s is up: machine id %s, host key %s", id, all["machine id"], all["host key"])
		isNode(t, id, all)
		facts = append(facts, all)
	}
	for _, name := range []string{"machine id", "host key", "hostname"} {
		assert.NotEmpty(t, facts[0][name], name)
		assert.NotEqual(t, facts[0][name], facts[1][name], name)
	}
}

// questions maps each fact about a machine to the command that prints it.
var questions = map[string]string{
	"machine id":      "cat /etc/machine-id",
	"host key":        "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2",
	"hostname":        "hostname",
	"authorized keys": "cat /root/.ssh/authorized_keys* /home/*/.ssh/authorized_keys* 2>/dev/null",
	"programs":        "kubelet --version; containerd --version; eksnode --version",
	"kubelet":         "systemctl is-enabled kubelet.service || true; systemctl is-active kubelet.service || true",
	"kubeconfig":      "cat /var/lib/kubelet/kubeconfig",
	"leftovers":       "ls -d /tmp/eksnode* /var/tmp/eksnode* 2>/dev/null || true",
	// A container has no kernel module for run-rpc_pipefs.mount of nfs-common.
	"failed units": "systemctl is-system-running --wait >/dev/null || true; systemctl --failed --plain --no-legend | grep -v '^run-rpc_pipefs.mount ' || true",
}

// kernelQuestions are the questions for machines with a kernel of their own: a
// container has the host's kernel. The kubelet does not start with a wrong
// setting.
var kernelQuestions = map[string]string{
	"kernel": "cd /proc/sys && cat vm/overcommit_memory kernel/panic kernel/panic_on_oops && cut -d' ' -f1 /proc/modules | grep -xE 'overlay|br_netfilter|nf_conntrack' | sort",
}

// isNode requires a machine with a new identity that accepts only its own key
// and is ready to join a cluster.
func isNode(t *testing.T, id string, facts map[string]string) {
	t.Helper()
	for line := range strings.Lines(facts["authorized keys"]) {
		assert.True(t, strings.HasSuffix(strings.TrimSpace(line), id+"@eksnode.test"), "%s accepts another key: %s", id, line)
	}
	for name, want := range map[string]string{"leftovers": "", "kubelet": "disabled\ninactive", "failed units": ""} {
		assert.Equal(t, want, facts[name], "%s of %s", name, id)
	}
	if kernel, asked := facts["kernel"]; asked {
		assert.Equal(t, "1\n10\n1\nbr_netfilter\nnf_conntrack\noverlay", kernel, id)
	}
	for _, placeholder := range []string{"MASTER_ENDPOINT", "CLUSTER_NAME", "AWS_REGION"} {
		assert.Contains(t, facts["kubeconfig"], placeholder, id)
	}
}
