//go:build e2e

package join_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

// node has the fields of a node in the API server that the tests use.
type node struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		ProviderID string
		Taints     []taint
	}
	Status struct {
		Conditions []struct {
			Type, Status, Reason, Message string
			LastHeartbeatTime             time.Time
		}
		Capacity map[string]string
		NodeInfo struct{ MachineID string }
	}
}

// taint keeps pods off a node.
type taint struct{ Key string }

// ready returns an error when a node has not reported since then, to the
// second, that it is ready.
func (n node) ready(since time.Time) error {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != "Ready":
		case c.LastHeartbeatTime.Before(since.Truncate(time.Second)):
			return fmt.Errorf("the node's last report is of %s", c.LastHeartbeatTime)
		case c.Status != "True":
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		default:
			return nil
		}
	}
	return errors.New("the node has not reported yet")
}

func (c *cluster) node(ctx context.Context, name string) (n node, err error) {
	out, err := c.kubectl(ctx, "", "get", "node", name, "--output=json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &n)
	}
	return n, err
}

// joined waits until a node reports, after a point in time, that it is ready.
func (c *cluster) joined(ctx context.Context, name string, since time.Time, within time.Duration) (n node, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s is no ready node of %s within %s", name, c.name, within))
	defer cancel()
	err = machine.PollEvery(ctx, time.Second, func() (err error) {
		if n, err = c.node(ctx, name); err == nil {
			err = n.ready(since)
		}
		return err
	})
	return n, err
}

// hasNo requires that the cluster has no such object.
func (c *cluster) hasNo(t *testing.T, kind, name string) {
	t.Helper()
	_, err := c.kubectl(c.lab.Ctx, "", "get", kind, name)
	assert.ErrorContains(t, err, "(NotFound)")
}

//go:embed testdata/app.yaml
var app string

// runs makes a node run a pod with everything that a kubelet writes to the disk
// for a pod, and a word in each file.
func (c *cluster) runs(ctx context.Context, pod string, on node, word string) error {
	text := strings.NewReplacer("{name}", pod, "{host}", on.Metadata.Labels["kubernetes.io/hostname"], "{word}", word, "{busybox}", busyboxImage).Replace(app)
	_, err := c.kubectl(ctx, text, "apply", "--filename=-")
	if err == nil {
		_, err = c.kubectl(ctx, "", "wait", "--for=condition=Ready", "pod/"+pod, "--timeout="+patience.String())
	}
	if err != nil {
		events, _ := c.kubectl(ctx, "", "events", "--for=pod/"+pod) // the error is reported without events if this fails
		err = fmt.Errorf("%s\n%w", events, err)
	}
	return err
}

// works waits until an instance is a ready node, and makes it run a pod. It
// reads the pod's log and runs a command in it, over a serving certificate that
// the cluster has approved.
func (w *world) works(c *cluster, i *instance, pod, word string) {
	w.t.Helper()
	begin := w.ready(c, i, time.Time{})
	if *w.machineID == "" {
		*w.machineID = begin.Status.NodeInfo.MachineID
	}
	if err := c.runs(w.Ctx, pod, begin, word); err != nil {
		w.diagnose(i)
		require.NoError(w.t, err)
	}
	assert.Equal(w.t, word+" from "+word, c.await(w.t, "logs", pod))
	assert.Equal(w.t, word+word, c.await(w.t, "exec", pod, "--", "cat", "/secret/word", "/scratch/word"))
	w.step("%s runs a pod; its log and exec answer", i.InstanceID())
	// Failures during the start are over.
	assert.Contains(w.t, i.Sh(w.t, "eksnode diagnose"), "no known cause was found")
}

// runsBare makes an instance without the images of pods a ready node that runs one. Until it
// has the images, pods fail for them, and a diagnosis would say so.
func (w *world) runsBare(i *instance, pod string) {
	w.t.Helper()
	i.Await(w.t, "containerd runs", patience, "systemctl is-active containerd")
	i.Import(w.t, "", podImages(w.t))
	require.NoError(w.t, w.b.runs(w.Ctx, pod, w.ready(w.b, i, time.Time{}), "word-of-b"))
}

// ready waits until an instance reports, after a point in time, that it is a
// ready node.
func (w *world) ready(c *cluster, i *instance, since time.Time) node {
	w.t.Helper()
	n, err := c.joined(w.Ctx, i.PrivateDNSName, since, patience)
	if err != nil {
		w.diagnose(i)
	}
	require.NoError(w.t, err)
	w.step("%s is Ready in %s", i.InstanceID(), c.name)
	return n
}

// reboot turns a node off and on again and waits until it is ready again.
func (w *world) reboot(c *cluster, i *instance) {
	w.t.Helper()
	require.NoError(w.t, i.PowerOff(w.Ctx))
	begin := time.Now()
	require.NoError(w.t, i.Boot(w.Ctx))
	w.ready(c, i, begin)
}

// says waits until the kubelet's journal has a message with that pattern, and
// returns the first one.
func (w *world) says(i *instance, pattern string) string {
	w.t.Helper()
	return i.Await(w.t, "the kubelet says "+pattern, patience, "journalctl --no-pager --output=cat --boot --unit=kubelet --grep='%s' | head -1 | grep .", pattern)
}

// blamed is the cause that a diagnosis of an instance's whole journal names first, or empty.
func (w *world) blamed(i *instance) string {
	w.t.Helper()
	out := i.Sh(w.t, "eksnode diagnose --output json || [ $? = 1 ]")
	report := testkit.JSON[struct{ Findings []struct{ ID string } }](w.t, out)
	if len(report.Findings) == 0 {
		return ""
	}
	return report.Findings[0].ID
}

func (w *world) diagnose(i *instance) {
	w.t.Logf("%s:\n%s", i.PrivateDNSName, i.Try(w.t, "systemctl --failed --no-pager --no-legend; journalctl --no-pager --boot --output=cat -u kubelet -u containerd -u 'eksnode-*' | grep -v -e csi_plugin -e level=info | cut -c1-500 | tail -25").Stdout)
}

// TestMain is also the child process that mounts a disk to audit.
func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// account is an AWS account with snapshots and images, and without instances.
type account struct {
	*aws.World
	ebs *ebsdirect.Double
}

func (w *world) openAccount() *account {
	w.t.Helper()
	a := &account{World: aws.New(w.t).Prompt("the test is about the machines of the AMI")}
	a.Folder = filepath.Join(w.Folder(), "aws")
	require.NoError(w.t, os.Mkdir(a.Folder, 0o755))
	a.Serve()
	a.ebs = a.ServeEBS()
	return a
}

// serveIn serves the account in the lab's network, and returns the environment for
// programs there.
func (a *account) serveIn(w *world) []string {
	w.t.Helper()
	var environment []string
	for variable, handler := range map[string]http.Handler{"AWS_ENDPOINT_URL": a.World, "AWS_ENDPOINT_URL_EBS": a.ebs} {
		listener, err := w.Listen(w.Ctx, "tcp", "127.0.0.1:0")
		require.NoError(w.t, err)
		server := &http.Server{Handler: handler}
		w.t.Cleanup(func() { assert.NoError(w.t, server.Close()) })
		go func() { _ = server.Serve(listener) }() // ErrServerClosed
		environment = append(environment, variable+"=http://"+listener.Addr().String())
	}
	return environment
}

// imports makes an AMI of a disk, as `eksnode ami import` does. parent is a snapshot, or
// empty.
func (w *world) imports(disk, name, parent string) amiimport.Result {
	w.t.Helper()
	made, err := amiimport.Import{
		Spec: amiimport.Spec{Name: name, ParentSnapshot: parent}, Disk: disk, Folder: w.t.TempDir(),
		Say: func(format string, args ...any) { w.step(format, args...) },
		Open: func(ctx context.Context) (*awsapi.AWS, error) {
			return awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
		},
	}.Run(w.Ctx)
	require.NoError(w.t, err)
	w.step("%s has %s, boot mode %s; %d blocks were sent", made.Image.ID, made.Upload.Snapshot.ID, made.Image.BootMode, made.Upload.Sent)
	return made
}

// row is one line of a report: the image, the first boot, and the result.
type row struct {
	Image    string  `json:"image"`
	Contract string  `json:"contract"`
	Result   string  `json:"result"`
	Message  string  `json:"message,omitempty"`
	Seconds  float64 `json:"seconds"` // since the start of the test
}

// moment is a completed step, with its time in seconds since the start of the
// test.
type moment struct {
	Seconds float64 `json:"seconds"`
	Step    string  `json:"step"`
}

// phase is a part of the test, with its duration in seconds. Some phases run in
// parallel.
type phase struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// journal is the record of a test run.
type journal struct {
	Rows   []row    `json:"rows"`
	Phases []phase  `json:"phases"`
	Steps  []moment `json:"steps"`
	// Seconds is the duration of the whole run.
	Seconds float64 `json:"seconds"`
}

func (w *world) elapsed() float64 { return seconds(w.started) }

func seconds(since time.Time) float64 { return math.Round(10*time.Since(since).Seconds()) / 10 }

// phase measures a part of the test.
func (w *world) phase(name string, do func()) {
	begin := time.Now()
	do()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.journal.Phases = append(w.journal.Phases, phase{name, seconds(begin)})
}

// step logs the progress of the test, with the time.
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

// report writes the journal as JSON, and as the tables at the end of `make
// e2e`.
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
