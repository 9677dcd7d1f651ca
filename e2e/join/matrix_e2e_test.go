//go:build e2e && full

package join_test

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

var (
	update = flag.Bool("update", false, "keep the results for docs/design/why-scrub.md")
	only   = flag.String("leftover", "", "try only what these rules, separated by commas, would have taken away")
)

// leftover is one kind of leftover state in an image.
type leftover struct {
	Rule, Name string
	Paths      []string
	// Script applies more changes to the disk mounted at $R.
	Script string
}

// leftoversByHand is testdata/leftovers.yaml.
type leftoversByHand struct {
	Made   []leftover
	Blamed map[string]string
}

// stateGroups are the groups of rules for the state of the kubelet, containerd,
// the network and first boots.
var stateGroups = []string{"kubelet", "containerd", "network", "cni", "bootstrap", "identity"}

// Each test case copies one leftover of cluster A's node into a clean image,
// and starts an instance of the image for cluster B: by the steps of Amazon's
// own script, and by a NodeConfig.
func TestEachLeftoverOnACleanImage(t *testing.T) {
	w := openWorld(t, lab.System{}, time.Hour)
	dirty, clean := filepath.Join(w.Folder(), "dirty.raw"), filepath.Join(w.Folder(), "clean.raw")
	w.makeBoth(dirty, clean)
	var byHand leftoversByHand
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/leftovers.yaml")), &byHand))
	all := append(leftovers(lab.Disk(dirty).Plan(t)), byHand.Made...)
	if *only != "" {
		all = slices.DeleteFunc(all, func(l leftover) bool { return !slices.Contains(strings.Split(*only, ","), l.Rule) })
	}
	w.step("%d leftovers to try", len(all))
	trials := make([]trial, 2*len(all))
	t.Run("trials", func(t *testing.T) {
		slots := make(chan struct{}, 3) // more parallel instances are only slower
		for i := range trials {
			t.Run(fmt.Sprintf("%s_%s_%d", all[i/2].Rule, all[i/2].Name, i%2), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				trials[i] = w.in(t).try(fmt.Sprintf("i-try-%d", i), lab.Disk(dirty), clean, all[i/2], []string{byAmazon, byNodeConfig}[i%2])
			})
		}
	})
	for _, trial := range trials {
		t.Logf("%-28s %-30s %-12s %s: %.200s %q", trial.Rule, trial.Case, trial.FirstBoot, trial.Result, trial.Message, trial.Leaks)
		want := []string{byHand.Blamed[trial.Rule+" "+trial.Case]}
		if trial.Result == joins {
			want = []string{"", "captured-node"} // init says what it removed
		}
		assert.Contains(t, want, trial.Blamed, trial.Message)
		switch trial.Rule + " " + trial.FirstBoot {
		case "nothing " + byAmazon, "nothing " + byNodeConfig:
			assert.Equal(t, joins, trial.Result, trial.FirstBoot)
		case "everything " + byAmazon:
			assert.Equal(t, fails, trial.Result, trial.FirstBoot)
		}
	}
	w.keep(trials)
}

// makeBoth makes an unscrubbed and a scrubbed image of a node of cluster A.
func (w *world) makeBoth(dirty, clean string) {
	w.t.Helper()
	first := w.launch(firstID, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a --cpu-manager-policy=static --reserved-cpus=0"))
	w.works(w.a, first, "first", wordOfA)
	require.NoError(w.t, first.PowerOff(w.Ctx))
	require.NoError(w.t, first.Capture(w.Ctx, dirty))
	require.NoError(w.t, first.Boot(w.Ctx))
	w.scrubbed(first, clean)
	w.step("both images are made")
}

// leftovers returns one leftover for each rule, with the paths that it found.
func leftovers(found map[string][]string) []leftover {
	all := []leftover{{Rule: "nothing"}, {Rule: "everything"}}
	for _, r := range scrub.Table() {
		if r.Phase == scrub.Inspect || len(r.Paths) == 0 || r.ID == "containers-metadata" ||
			!slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(stateGroups, g) }) {
			continue
		}
		if paths := slices.DeleteFunc(slices.Clone(found[r.ID]), func(p string) bool { return !filepath.IsAbs(p) }); len(paths) > 0 {
			all = append(all, leftover{Rule: r.ID, Paths: paths})
		}
	}
	return append(all, leftover{Rule: "containers", Paths: []string{"/var/lib/containerd"}})
}

const (
	byAmazon     = "Amazon's bootstrap.sh"
	byNodeConfig = "NodeConfig"
)

const (
	// within is how long an instance of the matrix may take for each step. grace is
	// how long a kubelet may log a fatal message: at its start, a healthy kubelet
	// may contact a cluster that does not have the node yet.
	within = 2 * time.Minute
	grace  = 20 * time.Second
)

// plantScript copies paths from the dirty disk to the disk $1, whose file
// system it mounts at $R. A path that the dirty disk lacks is removed. The
// script $2 may change more.
//
//go:embed testdata/copy-leftover.sh
var plantScript string

// try starts one instance and returns the result.
func (w *world) try(id string, dirty lab.Disk, clean string, left leftover, firstBoot string) trial {
	w.t.Helper()
	image := filepath.Join(w.Folder(), id+".raw")
	defer os.Remove(image)
	if left.Rule == "everything" {
		clean = string(dirty)
	}
	copyDisk(w.t, clean, image)
	for _, p := range left.Paths {
		require.True(w.t, filepath.IsAbs(p) && filepath.Clean(p) != "/" && !strings.Contains(p, ".."), "%s is not a path of a leftover", p)
	}
	said, code := dirty.Sh(w.t, false, plantScript, append([]string{image, left.Script}, left.Paths...)...)
	require.Zero(w.t, code, said)
	userData := w.b.nodeConfig()
	if firstBoot == byAmazon {
		userData = w.b.amazonScript("")
	}
	i := w.launch(id, image, w.b.role, userData)
	defer w.end(i)
	result, troubles := w.judge(i, id)
	one := trial{
		Blamed: w.blamed(i),
		Rule:   left.Rule, Case: left.Name, Paths: left.Paths,
		FirstBoot: firstBoot, Result: result, Message: strings.Join(troubles, "; "),
		Leaks: i.Lines(w.t, "grep -rlFs -e "+wordOfA+" -e "+nameOfA+" -e "+firstID+" /etc /var /root /home | head -20 || true"),
	}
	w.step("%s %s by %s: %s %s", left.Rule, left.Name, firstBoot, one.Result, one.Message)
	return one
}

// judge waits until the node works like a healthy one, and returns the
// failures.
func (w *world) judge(i *instance, pod string) (result string, troubles []string) {
	w.t.Helper()
	n, why := w.becomes(i)
	if why != "" {
		return fails, []string{why}
	}
	defer w.b.must(w.t, "", "delete", "node", n.Metadata.Name)
	wrong := func(broken bool, trouble string) {
		if broken {
			troubles = append(troubles, trouble)
		}
	}
	if err := w.b.runs(w.Ctx, pod, n, "word-of-b"); err != nil {
		wrong(true, "its pods do not run: "+telling(err.Error()))
	} else {
		out, err := w.b.kubectl(w.Ctx, "", "logs", pod)
		for begin := time.Now(); err != nil && time.Since(begin) < 15*time.Second; {
			out, err = w.b.kubectl(w.Ctx, "", "logs", pod)
		}
		wrong(err != nil, fmt.Sprintf("logs cannot be read: %s%v", out, err))
	}
	label := n.Metadata.Labels["cluster"]
	wrong(label != "", "it has the old cluster's label cluster="+label)
	for resource := range n.Status.Capacity {
		wrong(strings.HasPrefix(resource, "example.com/"), "it has phantom devices: "+resource)
	}
	wrong(n.Spec.ProviderID != "aws:///eu-west-1a/"+i.InstanceID(), "its provider id is the old instance's, "+n.Spec.ProviderID)
	wrong(n.Status.NodeInfo.MachineID == *w.machineID, "it has the old machine's id")
	restarts := i.Sh(w.t, "systemctl show --property=NRestarts --value kubelet")
	wrong(restarts != "0", "the kubelet started "+restarts+" times again")
	if len(troubles) > 0 {
		return degrades, troubles
	}
	return joins, nil
}

// becomes waits until the instance is a ready node, or returns why it will not
// be one.
func (w *world) becomes(i *instance) (n node, why string) {
	w.t.Helper()
	var since time.Time // when the kubelet first logged a fatal message
	for begin := time.Now(); ; {
		n, err := w.b.joined(w.Ctx, i.PrivateDNSName, time.Time{}, 2*time.Second)
		if err == nil {
			return n, ""
		}
		require.NoError(w.t, w.Ctx.Err())
		now, all := w.sayings(i)
		switch {
		case hopeless(now) == "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > grace:
			return n, hopeless(all)
		}
		if time.Since(begin) > within {
			if n.Metadata.Name == "" {
				return n, telling(all)
			}
			return n, n.ready(time.Time{}).Error()
		}
	}
}

// sayings returns the present messages of the kubelet and the user data, and
// all messages since the boot, also those of the first boot.
func (w *world) sayings(i *instance) (now, all string) {
	now = i.Await(w.t, "the instance's journal can be read", within, "journalctl --no-pager --boot --output=cat --unit=kubelet --since=-15s; cat /var/log/cloud-init-output.log")
	return now, i.Sh(w.t, "cat /var/log/cloud-init-output.log; journalctl --no-pager --boot --output=cat --unit=kubelet --unit='eksnode-*'")
}

// record is what docs/design/why-scrub.md is made of.
const record = "../../docs/generate/leftovers.json"

// keep writes the trials to a file. With -update it adds them to the record,
// and keeps the record's trials of other leftovers.
func (w *world) keep(trials []trial) {
	w.t.Helper()
	write := func(path string, trials []trial) {
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
	all := testkit.JSON[[]trial](w.t, testkit.Content(w.t, record))
	for i, old := range all {
		same := func(t trial) bool { return t.Rule == old.Rule && t.Case == old.Case && t.FirstBoot == old.FirstBoot }
		if n := slices.IndexFunc(trials, same); n >= 0 {
			all[i] = trials[n]
			trials = slices.Delete(trials, n, n+1)
		}
	}
	write(record, append(all, trials...))
}
