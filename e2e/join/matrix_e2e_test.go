//go:build e2e && full

package join_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

var (
	update = flag.Bool("update", false, "keep the results for docs/why-scrub.md")
	only   = flag.String("leftover", "", "try only what these rules, separated by commas, would have taken away")
)

// leftover is one way in which an image may be dirty.
type leftover struct {
	rule, name string
	paths      []string
	// script changes the disk mounted at $R further.
	script string
}

// stateGroups are the rules' groups whose state the kubelet, containerd, the
// network and first boots write.
var stateGroups = []string{"kubelet", "containerd", "network", "cni", "bootstrap", "identity"}

// made are states that other settings or accidents leave than those of the first
// instance.
var made = []leftover{
	{rule: "kubelet-kubeconfig", name: "deleted instead of restored", script: `rm "$R/var/lib/kubelet/kubeconfig"`},
	{rule: "kubelet-manager-state", name: "empty", script: `: > "$R/var/lib/kubelet/cpu_manager_state"`},
	{rule: "kubelet-manager-state", name: "with a wrong checksum",
		script: `echo '{"policyName":"none","defaultCpuSet":"0-63","checksum":1}' > "$R/var/lib/kubelet/cpu_manager_state"`},
	{rule: "kubelet-checkpoints", name: "cut short", script: `echo '{"data":' > "$R/var/lib/kubelet/allocated_pods_state"`},
	{rule: "kubelet-checkpoints", name: "a device plugin's, with a wrong checksum",
		script: `mkdir -p "$R/var/lib/kubelet/device-plugins"; echo '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/phantom":["one","two"]}},"Checksum":1}' > "$R/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"`},
	{rule: "cni-state", name: "every address taken",
		script: `mkdir -p "$R/var/lib/cni/networks/lab"; for n in $(seq 2 254); do echo old > "$R/var/lib/cni/networks/lab/10.200.0.$n"; done`},
	{rule: "cni-config", name: "of a plugin that is not there",
		script: `mkdir -p "$R/etc/cni/net.d"; echo '{"cniVersion":"1.0.0","name":"old","plugins":[{"type":"gone"}]}' > "$R/etc/cni/net.d/05-old.conflist"`},
}

// Each single leftover of cluster A's node is put on a clean image, and an
// instance of that image is started for cluster B: by the steps of Amazon's own
// script, and by a NodeConfig.
func TestMatrix(t *testing.T) {
	w := openWorld(t, "", time.Hour)
	dirty, clean := filepath.Join(w.lab.Folder(), "dirty.raw"), filepath.Join(w.lab.Folder(), "clean.raw")
	w.makeBoth(dirty, clean)
	disks := w.disks()
	found, err := disks.Find(w.ctx, dirty)
	require.NoError(t, err)
	all := leftovers(found)
	if *only != "" {
		all = slices.DeleteFunc(all, func(l leftover) bool { return !slices.Contains(strings.Split(*only, ","), l.rule) })
	}
	w.step("%d leftovers to try", len(all))

	trials := make([]join.Trial, 2*len(all))
	var workers sync.WaitGroup
	next := make(chan int)
	for n := range 3 {
		workers.Go(func() {
			for i := range next {
				trials[i] = w.try(disks, fmt.Sprintf("i-try-%d-%d", n, i), dirty, clean, all[i/2], []string{byAmazon, byNodeConfig}[i%2])
			}
		})
	}
	for i := range trials {
		next <- i
	}
	close(next)
	workers.Wait()
	for _, trial := range trials {
		t.Logf("%-28s %-30s %-12s %s: %.200s %q", trial.Rule, trial.Case, trial.FirstBoot, trial.Result, trial.Message, trial.Leaks)
	}
	w.keep(trials)
	by := map[string]join.Result{}
	for _, trial := range trials {
		by[trial.Rule+"/"+trial.Case+"/"+trial.FirstBoot] = trial.Result
	}
	for trial, want := range map[string]join.Result{
		"nothing//" + byAmazon: join.Joins, "nothing//" + byNodeConfig: join.Joins, "everything//" + byAmazon: join.Fails,
	} {
		if result, tried := by[trial]; tried {
			assert.Equal(t, want, result, trial)
		}
	}
}

// makeBoth makes the image of a node of cluster A, and the same scrubbed.
func (w *world) makeBoth(dirty, clean string) {
	w.t.Helper()
	first := w.launch(firstID, w.image, w.a, w.a.AmazonScript("--node-labels=cluster=a --cpu-manager-policy=static --reserved-cpus=0"))
	w.works(w.a, first, "first", wordOfA)
	require.NoError(w.t, first.PowerOff(w.ctx))
	require.NoError(w.t, first.Capture(w.ctx, dirty))
	require.NoError(w.t, first.Boot(w.ctx))
	require.NoError(w.t, w.scrubbed(first, clean))
	w.step("both images are made")
}

// leftovers are one for each rule, with what it found, and those made by hand.
func leftovers(found map[string][]string) []leftover {
	all := []leftover{{rule: "nothing"}, {rule: "everything"}}
	for _, r := range scrub.Table() {
		if r.Phase == scrub.Inspect || len(r.Paths) == 0 || r.ID == "containers-metadata" ||
			!slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(stateGroups, g) }) {
			continue
		}
		if paths := slices.DeleteFunc(slices.Clone(found[r.ID]), func(p string) bool { return !filepath.IsAbs(p) }); len(paths) > 0 {
			all = append(all, leftover{rule: r.ID, paths: paths})
		}
	}
	all = append(all, leftover{rule: "containers", paths: []string{"/var/lib/containerd"}})
	return append(all, made...)
}

const (
	byAmazon     = "Amazon's bootstrap.sh"
	byNodeConfig = "NodeConfig"
)

const (
	// within is how long an instance of the matrix may take for each step, and
	// grace for how long a kubelet may say what it does not recover from: at its
	// start a healthy one may meet a cluster that does not know it yet.
	within = 2 * time.Minute
	grace  = 20 * time.Second
)

// try starts one instance and says what became of it.
func (w *world) try(disks join.Disks, id, dirty, clean string, left leftover, firstBoot string) join.Trial {
	trial := join.Trial{Rule: left.rule, Case: left.name, Paths: left.paths, FirstBoot: firstBoot}
	failed := func(err error) join.Trial {
		w.t.Errorf("%s, %s, %s: %v", left.rule, left.name, firstBoot, err)
		return trial
	}
	image := filepath.Join(w.lab.Folder(), id+".raw")
	defer os.Remove(image)
	from := clean
	if left.rule == "everything" {
		from = dirty
	}
	if err := join.Copy(w.ctx, from, image); err != nil {
		return failed(err)
	}
	if err := disks.Plant(w.ctx, dirty, image, left.paths, left.script); err != nil {
		return failed(err)
	}
	userData := w.b.NodeConfig()
	if firstBoot == byAmazon {
		userData = w.b.AmazonScript("")
	}
	i, err := w.Launch(w.ctx, id, image, w.b.Role, userData)
	if err != nil {
		return failed(err)
	}
	defer w.end(i)
	var troubles []string
	trial.Result, troubles, err = w.judge(i, id)
	if err != nil {
		return failed(err)
	}
	trial.Message = strings.Join(troubles, "; ")
	leaks, err := i.Do(w.ctx, "grep -rlFs -e "+wordOfA+" -e "+nameOfA+" -e "+firstID+" /etc /var /root /home | head -20 || true")
	if err != nil {
		return failed(err)
	}
	trial.Leaks = strings.Fields(leaks)
	w.step("%s %s by %s: %s %s", left.rule, left.name, firstBoot, trial.Result, trial.Message)
	return trial
}

// judge waits for what a healthy node does, and says what it did not.
func (w *world) judge(i *join.Instance, pod string) (join.Result, []string, error) {
	node, why, err := w.joined(i)
	if err != nil {
		return "", nil, err
	}
	if why != "" {
		return join.Fails, []string{why}, nil
	}
	defer w.forget(node.Metadata.Name)
	var troubles []string
	if out, err := w.b.Kubectl(w.ctx, join.App(pod, node, "word-of-b"), "apply", "-f", "-"); err != nil {
		return "", nil, fmt.Errorf("%w: %s", err, out)
	}
	if _, err := w.b.Runs(w.ctx, pod, within); err != nil {
		events, _ := w.b.Events(w.ctx, pod) // the pod's own message stands without them
		troubles = append(troubles, "its pods do not run: "+join.Telling(events+"\n"+err.Error()))
	} else if out, err := w.kubectlWithin(w.b, 15*time.Second, "logs", pod); err != nil {
		troubles = append(troubles, "logs cannot be read: "+strings.TrimSpace(out))
	}
	if label := node.Metadata.Labels["cluster"]; label != "" {
		troubles = append(troubles, "it has the old cluster's label cluster="+label)
	}
	for resource := range node.Status.Capacity {
		if strings.HasPrefix(resource, "example.com/") {
			troubles = append(troubles, "it has phantom devices: "+resource)
		}
	}
	if want := "aws:///eu-west-1a/" + i.InstanceID(); node.Spec.ProviderID != want {
		troubles = append(troubles, "its provider id is the old instance's, "+node.Spec.ProviderID)
	}
	if node.Status.NodeInfo.MachineID == *w.machineID {
		troubles = append(troubles, "it has the old machine's id")
	}
	restarts, err := i.Do(w.ctx, "systemctl show --property=NRestarts --value kubelet")
	if err != nil {
		return "", nil, err
	}
	if restarts != "0" {
		troubles = append(troubles, "the kubelet started "+restarts+" times again")
	}
	if len(troubles) > 0 {
		return join.Degrades, troubles, nil
	}
	return join.Joins, nil, nil
}

// joined waits until the instance is a ready node, or says why it will not be.
func (w *world) joined(i *join.Instance) (node join.Node, why string, err error) {
	begin, said := time.Now(), time.Time{}
	for {
		node, err = w.b.Joined(w.ctx, i.PrivateDNSName, 2*time.Second)
		if err == nil || w.ctx.Err() != nil {
			return node, "", err
		}
		now, out, err := w.sayings(i)
		switch {
		case err != nil && time.Since(begin) < within:
			continue // a busy machine may not let us in for a while
		case err != nil:
			return node, "", err
		}
		switch {
		case join.Hopeless(now) == "":
			said = time.Time{}
		case said.IsZero():
			said = time.Now()
		case time.Since(said) > grace:
			return node, join.Hopeless(out), nil
		}
		if time.Since(begin) < within {
			continue
		}
		if why = node.Ready(); node.Metadata.Name == "" {
			why = join.Telling(out)
		}
		return node, why, nil
	}
}

// sayings are what the kubelet and the user data say now, and what they and the
// first boot have said since the machine is up.
func (w *world) sayings(i *join.Instance) (now, all string, err error) {
	now, err = i.Do(w.ctx, "journalctl --no-pager --boot --output=cat --unit=kubelet --since=-15s; cat /var/log/cloud-init-output.log")
	if err != nil {
		return "", "", err
	}
	all, err = i.Do(w.ctx, "cat /var/log/cloud-init-output.log; journalctl --no-pager --boot --output=cat --unit=kubelet --unit='eksnode-*'")
	return now, all, err
}

// forget takes a node out of cluster B.
func (w *world) forget(name string) {
	if err := w.b.Call(w.ctx, http.MethodDelete, "/api/v1/nodes/"+name, nil, nil); err != nil {
		w.t.Errorf("deleting the node %s: %v", name, err)
	}
}

// record is what docs/why-scrub.md is made of.
const record = "../../docs/generate/leftovers.json"

// keep writes the trials down, and with -update into the record, in which those
// of another leftover stay.
func (w *world) keep(trials []join.Trial) {
	w.t.Helper()
	write := func(path string, trials []join.Trial) {
		text, err := json.MarshalIndent(trials, "", "  ")
		require.NoError(w.t, err)
		require.NoError(w.t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	write(filepath.Join(results(w.t), "matrix.json"), trials)
	if !*update {
		return
	}
	if *only == "" {
		write(record, trials)
		return
	}
	text, err := os.ReadFile(record)
	require.NoError(w.t, err)
	var all []join.Trial
	require.NoError(w.t, json.Unmarshal(text, &all))
	for i, old := range all {
		same := func(t join.Trial) bool {
			return t.Rule == old.Rule && t.Case == old.Case && t.FirstBoot == old.FirstBoot
		}
		if n := slices.IndexFunc(trials, same); n >= 0 {
			all[i] = trials[n]
			trials = slices.Delete(trials, n, n+1)
		}
	}
	write(record, append(all, trials...))
}
