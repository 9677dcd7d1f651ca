package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// prove audits the image and starts two machines from it.
func (j *job) prove(ctx context.Context) error {
	verdict, err := j.audit(ctx)
	if err != nil {
		return err
	}
	if err := j.launch(ctx); err != nil {
		return err
	}
	st, err := os.Stat(j.image)
	if err != nil {
		return err
	}
	j.step("done")
	fmt.Fprintf(j.log, "\naudit    %s\nimage    %s (%d MiB)\nreports  %s\n", verdict, j.image, st.Size()>>20, j.reports)
	return nil
}

// partitionOffset is where the captured disk's file system starts, in bytes.
const partitionOffset = 1 << 20

// auditScript mounts the file system at offset $1 of the image $2 at $3, runs
// the command $4 on it and looks for the builder's name $6 in every file.
const auditScript = `
mount -o "ro,loop,offset=$1" "$2" "$3"
"$4" audit --root "$3" --report "$5"
if grep -rlF -e "$6" "$3"; then echo "the files above name the builder" >&2; exit 1; fi`

// audit runs eksnode audit on the image's file system, mounted read-only in a
// mount namespace of its own, and answers its verdict.
func (j *job) audit(ctx context.Context) (string, error) {
	j.step("auditing the image")
	raw := j.image
	if filepath.Ext(raw) != ".raw" {
		raw = filepath.Join(j.temporary, "image.raw")
		if out, err := exec.CommandContext(ctx, "qemu-img", "convert", "-O", "raw", j.image, raw).CombinedOutput(); err != nil {
			return "", fmt.Errorf("unpacking the image: %w: %s", err, out)
		}
	}
	mountPoint := filepath.Join(j.temporary, "mnt")
	if err := os.Mkdir(mountPoint, 0o700); err != nil {
		return "", fmt.Errorf("auditing the image: %w", err)
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "sh", "-ec", auditScript, "audit",
		fmt.Sprint(partitionOffset), raw, mountPoint, j.eksnode, filepath.Join(j.reports, "audit.json"), builderName)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, j.log), j.log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("auditing the image: it is not clean: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return lines[len(lines)-1], nil
}

// launch starts two machines from the image, one after the other boots.
func (j *job) launch(ctx context.Context) (err error) {
	j.step("starting two machines from the image")
	lab, _, err := machine.Open(ctx, j.log, j.kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	var facts []map[string]string
	for _, id := range []string{"i-one", "i-two"} {
		key, err := machine.NewKey(id + "@eksnode.test")
		if err != nil {
			return err
		}
		m, err := lab.Start(ctx, machine.Config{
			Kind: j.kind, Image: j.image, InstanceID: id, AuthorizedKeys: []string{key.Authorized}, Signer: key.Signer,
		})
		if err != nil {
			return err
		}
		f, err := j.inspect(ctx, m)
		if err != nil {
			return err
		}
		f["own key"] = id + "@eksnode.test"
		facts = append(facts, f)
		j.step("%s is up: machine id %s, host key %s", id, f["machine id"], f["host key"])
	}
	if err := check(facts[0], facts[1]); err != nil {
		return err
	}
	if j.kind == machine.QEMU {
		j.step("both have a boot loader, their modules and their sysctls: %v", kernelAnswers)
	}
	return nil
}

// questions are what is asked of each machine, as commands.
var questions = map[string]string{
	"machine id":      "cat /etc/machine-id",
	"host key":        "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2",
	"hostname":        "hostname",
	"authorized keys": "sudo sh -c 'cat /root/.ssh/authorized_keys* /home/*/.ssh/authorized_keys* 2>/dev/null'",
	"kubelet":         "kubelet --version",
	"kubelet enabled": "systemctl is-enabled kubelet.service || true",
	"kubelet active":  "systemctl is-active kubelet.service || true",
	"containerd":      "containerd --version | cut -d' ' -f3",
	"eksnode":         "eksnode --version",
	"kubeconfig":      "sudo cat /var/lib/kubelet/kubeconfig",
	"leftovers":       "ls -d /tmp/eksnode* /var/tmp/eksnode* 2>/dev/null || true",
	// A container has no kernel module for run-rpc_pipefs.mount of nfs-common.
	"failed units": "systemctl is-system-running --wait >/dev/null; systemctl --failed --plain --no-legend | grep -v '^run-rpc_pipefs.mount ' || true",
}

// kernelQuestions are what only a machine with a kernel of its own can answer:
// a container has the host's. The kubelet does not start where one is wrong.
var kernelQuestions = map[string]string{
	"vm.overcommit_memory": "cat /proc/sys/vm/overcommit_memory",
	"kernel.panic":         "cat /proc/sys/kernel/panic",
	"kernel.panic_on_oops": "cat /proc/sys/kernel/panic_on_oops",
	"module overlay":       "grep -c '^overlay ' /proc/modules || true",
	"module br_netfilter":  "grep -c '^br_netfilter ' /proc/modules || true",
	"module nf_conntrack":  "grep -c '^nf_conntrack ' /proc/modules || true",
}

// kernelAnswers are the right ones.
var kernelAnswers = map[string]string{
	"vm.overcommit_memory": "1", "kernel.panic": "10", "kernel.panic_on_oops": "1", "module overlay": "1", "module br_netfilter": "1", "module nf_conntrack": "1",
}

func (j *job) inspect(ctx context.Context, m *machine.Machine) (map[string]string, error) {
	facts := map[string]string{}
	all := maps.Clone(questions)
	if j.kind == machine.QEMU {
		maps.Copy(all, kernelQuestions)
	}
	for name, command := range all {
		r, err := m.Run(ctx, command, nil)
		if err != nil {
			return nil, fmt.Errorf("asking %s for its %s: %w", m.InstanceID(), name, err)
		}
		if r.Code != 0 {
			return nil, fmt.Errorf("asking %s for its %s: %s exited with %d: %s", m.InstanceID(), name, command, r.Code, r.Stderr)
		}
		facts[name] = strings.TrimSpace(r.Stdout)
	}
	return facts, nil
}

// check says what is wrong with the two machines; everything at once.
func check(one, two map[string]string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []string{"machine id", "host key", "hostname"} {
		if one[name] == "" || one[name] == two[name] {
			wrong("both machines have the %s %q", name, one[name])
		}
	}
	for i, f := range []map[string]string{one, two} {
		for _, line := range strings.Split(f["authorized keys"], "\n") {
			if line != "" && !strings.HasSuffix(line, f["own key"]) {
				wrong("machine %d lets somebody else in: %s", i+1, line)
			}
		}
		for name, want := range map[string]string{"leftovers": "", "kubelet enabled": "disabled", "kubelet active": "inactive", "failed units": ""} {
			if f[name] != want {
				wrong("machine %d: %s is %q, not %q", i+1, name, f[name], want)
			}
		}
		for name, want := range kernelAnswers {
			if got, asked := f[name]; asked && got != want {
				wrong("machine %d: %s is %q, not %q", i+1, name, got, want)
			}
		}
		for _, placeholder := range []string{"MASTER_ENDPOINT", "CLUSTER_NAME", "AWS_REGION"} {
			if !strings.Contains(f["kubeconfig"], placeholder) {
				wrong("machine %d: the kubeconfig has no %s", i+1, placeholder)
			}
		}
	}
	return errors.Join(errs...)
}
