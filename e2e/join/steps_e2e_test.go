//go:build e2e

package join_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
)

// in is the world as a subtest sees it.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.t = t
	return &inner
}

func (w *world) launch(id, image string, c *join.Cluster, userData []byte) *join.Instance {
	w.t.Helper()
	i, err := w.Launch(w.ctx, id, image, c.Role, userData)
	require.NoError(w.t, err)
	w.step("%s is up", id)
	return i
}

func (w *world) end(i *join.Instance) { assert.NoError(w.t, i.Close()) }

// do runs a script as root that must succeed.
func (w *world) do(i *join.Instance, script string) string {
	w.t.Helper()
	out, err := i.Do(w.ctx, script)
	require.NoError(w.t, err)
	return out
}

// works waits for the instance to be a ready node, and has it run a pod whose
// log can be read and in which commands run: over a serving certificate that the
// cluster has approved.
func (w *world) works(c *join.Cluster, i *join.Instance, pod, word string) {
	w.t.Helper()
	node := w.ready(c, i)
	if *w.machineID == "" {
		*w.machineID = node.Status.NodeInfo.MachineID
	}
	w.step("%s is Ready in %s", i.InstanceID(), c.Name)
	out, err := c.Kubectl(w.ctx, join.App(pod, node, word), "apply", "-f", "-")
	require.NoError(w.t, err, out)
	if _, err = c.Runs(w.ctx, pod, patience); err != nil {
		w.diagnose(i)
	}
	require.NoError(w.t, err)
	log, err := w.kubectl(c, "logs", pod)
	require.NoError(w.t, err, log)
	assert.Equal(w.t, join.Greeting(word), log)
	said, err := w.kubectl(c, "exec", pod, "--", "cat", "/secret/word", "/scratch/word")
	require.NoError(w.t, err, said)
	assert.Equal(w.t, word+word, said)
	w.step("%s runs a pod; its log and exec answer", i.InstanceID())
	// What failed while it started is over.
	assert.Contains(w.t, w.do(i, "eksnode diagnose"), "no known cause was found")
}

// kubectl asks again until the node serves with a certificate that it has just
// been given.
func (w *world) kubectl(c *join.Cluster, args ...string) (string, error) {
	return w.kubectlWithin(c, patience, args...)
}

func (w *world) kubectlWithin(c *join.Cluster, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(w.ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	var out string
	err := join.Poll(ctx, func() (err error) {
		out, err = c.Kubectl(ctx, "", args...)
		return err
	})
	return strings.TrimSpace(out), err
}

func (w *world) ready(c *join.Cluster, i *join.Instance) join.Node {
	w.t.Helper()
	node, err := c.Joined(w.ctx, i.PrivateDNSName, patience)
	if err != nil {
		w.diagnose(i)
	}
	require.NoError(w.t, err)
	return node
}

// reboot turns a node off and on again and waits until it is ready again.
func (w *world) reboot(c *join.Cluster, i *join.Instance) {
	w.t.Helper()
	require.NoError(w.t, i.PowerOff(w.ctx))
	begin := time.Now()
	require.NoError(w.t, i.Boot(w.ctx))
	_, err := c.Rejoined(w.ctx, i.PrivateDNSName, begin, patience)
	if err != nil {
		w.diagnose(i)
	}
	require.NoError(w.t, err)
	w.step("%s is Ready again after a reboot", i.InstanceID())
}

// says waits until the kubelet's journal has a message of that pattern, and
// returns the first.
func (w *world) says(i *join.Instance, pattern string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.ctx, patience, fmt.Errorf("the kubelet does not say %q within %s", pattern, patience))
	defer cancel()
	var line string
	err := join.Poll(ctx, func() error {
		out, err := i.Do(ctx, "journalctl --no-pager --output=cat --boot --unit=kubelet --grep='"+pattern+"' | head -1")
		if line = strings.TrimSpace(out); err == nil && line == "" {
			err = errors.New("nothing yet")
		}
		return err
	})
	if err != nil {
		w.diagnose(i)
	}
	require.NoError(w.t, err)
	w.step("%s: %s", i.InstanceID(), line)
	return line
}

func (w *world) diagnose(i *join.Instance) {
	said, err := i.Try(w.ctx, "systemctl --failed --no-pager --no-legend; journalctl --no-pager --boot --output=cat -u kubelet -u containerd -u 'eksnode-*' | grep -v -e csi_plugin -e level=info | cut -c1-500 | tail -25")
	w.t.Logf("%s: %v\n%s", i.PrivateDNSName, err, said.Stdout)
}

// row is one line of a report: what was started, how, and what came of it.
type row struct {
	Image    string  `json:"image"`
	Contract string  `json:"contract"`
	Result   string  `json:"result"`
	Message  string  `json:"message,omitempty"`
	Seconds  float64 `json:"seconds"` // since the test's begin
}

// moment says when a step was done, in seconds since the test's begin.
type moment struct {
	Seconds float64 `json:"seconds"`
	Step    string  `json:"step"`
}

// phase says how long a part of the test took, in seconds. Some run beside each
// other.
type phase struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// journal is what a run leaves behind.
type journal struct {
	Rows   []row    `json:"rows"`
	Phases []phase  `json:"phases"`
	Steps  []moment `json:"steps"`
	// Seconds is how long all took.
	Seconds float64 `json:"seconds"`
}

func (w *world) elapsed() float64 { return seconds(w.started) }

// seconds is how long ago a moment was.
func seconds(since time.Time) float64 { return math.Round(10*time.Since(since).Seconds()) / 10 }

// phase measures a part of the test.
func (w *world) phase(name string, do func()) {
	begin := time.Now()
	do()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.journal.Phases = append(w.journal.Phases, phase{name, seconds(begin)})
}

// step says how far the test is, and when.
func (w *world) step(format string, args ...any) {
	m := moment{w.elapsed(), fmt.Sprintf(format, args...)}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.journal.Steps = append(w.journal.Steps, m)
	w.t.Logf("[%5.1f s] %s", m.Seconds, m.Step)
}

func (w *world) record(image, contract, result, message string) {
	w.journal.Rows = append(w.journal.Rows, row{image, contract, result, message, w.elapsed()})
}

// report keeps the journal as JSON, and as the tables that `make e2e` ends with.
func (w *world) report(name string) {
	w.t.Helper()
	w.journal.Seconds = w.elapsed()
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "image\tfirst boot\tresult\tafter\tmessage")
	for _, r := range w.journal.Rows {
		fmt.Fprintf(out, "%s\t%s\t%s\t%.0f s\t%.120s\n", r.Image, r.Contract, r.Result, r.Seconds, r.Message)
	}
	fmt.Fprintln(out, "\nwhere the time went\tseconds")
	for _, p := range w.journal.Phases {
		fmt.Fprintf(out, "%s\t%.1f\n", p.Phase, p.Seconds)
	}
	fmt.Fprintf(out, "in all\t%.1f\n", w.journal.Seconds)
	require.NoError(w.t, out.Flush())
	text, err := json.MarshalIndent(w.journal, "", "  ")
	require.NoError(w.t, err)
	path := filepath.Join(results(w.t), name)
	require.NoError(w.t, os.WriteFile(path+".json", append(text, '\n'), 0o644))
	require.NoError(w.t, os.WriteFile(path+".txt", []byte(table.String()), 0o644))
	w.t.Logf("%s.json\n%s", path, table.String())
}
