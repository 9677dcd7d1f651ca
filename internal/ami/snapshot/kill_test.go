//go:build linux

package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

var kills = flag.Int("kills", 20, "how often each test kills a transfer")

// transferring is the environment variable of the process that transfers a disk: a
// task in JSON.
const transferring = "EKSNODE_TEST_TRANSFER"

// task is an upload of a disk, or a download of a snapshot into a file.
type task struct {
	Disk           disk
	Journal        string
	Snapshot, File string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(transferring); text != "" {
		os.Exit(transferInProcess(text))
	}
	os.Exit(m.Run())
}

func transferInProcess(text string) int {
	var one task
	if json.Unmarshal([]byte(text), &one) != nil {
		return 2
	}
	ctx := context.Background()
	a, err := awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
	switch {
	case err != nil:
	case one.Snapshot != "":
		_, err = snapshot.Download{Connections: 4}.Run(ctx, a, one.Snapshot, one.File)
	default:
		_, err = snapshot.Upload{Journal: one.Journal, Connections: 4}.Run(ctx, a, one.Disk.source())
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// killed runs a task in processes that are killed with SIGKILL before random calls,
// until the task is complete. Other calls fail for a moment. It returns the number of
// kills.
func (one task) killed(t *testing.T, double *ebsdirect.Double, actions ...string) (n int) {
	t.Helper()
	text, err := json.Marshal(one)
	require.NoError(t, err)
	for {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), transferring+"="+string(text))
		action := actions[rand.IntN(len(actions))]
		left := 1
		if action == "PutSnapshotBlock" || action == "GetSnapshotBlock" {
			left = 1 + rand.IntN(20)
		}
		var mutex sync.Mutex
		killed := false
		double.Before(action, func() {
			mutex.Lock()
			defer mutex.Unlock()
			if left--; left == 0 {
				killed = true
				_ = cmd.Process.Kill() // the process may have ended
			}
		})
		noise(double)
		said, err := cmd.CombinedOutput()
		double.Before(action, nil)
		double.Heal()
		if err == nil {
			return n
		}
		mutex.Lock()
		require.True(t, killed, "the transfer failed by itself: %s", said)
		mutex.Unlock()
		n++
	}
}

// noise makes some calls fail as AWS does now and then.
func noise(double *ebsdirect.Double) {
	all := []ebsdirect.Failure{
		{}, {Status: 500, Code: "InternalServerException"}, {Status: 503, Code: "ServiceUnavailable"}, {Status: 400, Code: "RequestThrottledException"},
		{Status: 400, Code: "ConcurrentLimitExceededException"}, {Status: 402, Code: "ServiceQuotaExceededException"},
	}
	for _, action := range []string{"PutSnapshotBlock", "GetSnapshotBlock", "CompleteSnapshot", "ListSnapshotBlocks"} {
		if rand.IntN(3) == 0 {
			double.Fail(action, 1+rand.IntN(3), all[rand.IntN(len(all))])
		}
	}
	if rand.IntN(3) == 0 {
		double.Fail("PutSnapshotBlock", 1+rand.IntN(3), ebsdirect.Failure{Status: 404, Code: "ResourceNotFoundException"})
	}
}

func random() disk {
	d := disk{}
	for range 40 {
		d[rand.Int32N(2048)] = byte(rand.IntN(4)) // a quarter is zeros
	}
	return d
}

// Every snapshot must have the disk's content, and no other snapshot may be left.
func TestKilledUploadsGoOn(t *testing.T) {
	double, _ := served(t)
	double.Quotas.Start, double.Quotas.Complete, double.Completing = 0, 0, 1
	for done, uploads := 0, 1; done < *kills; uploads++ {
		one := task{Disk: random(), Journal: filepath.Join(t.TempDir(), "journal")}
		done += one.killed(t, double, "StartSnapshot", "PutSnapshotBlock", "PutSnapshotBlock", "PutSnapshotBlock", "CompleteSnapshot", "DescribeSnapshots")
		require.Len(t, double.IDs(), uploads, "one snapshot for each upload")
		require.Equal(t, one.Disk.sums(), double.Blocks(double.IDs()[uploads-1]))
		one.Disk.volume(t, double, double.IDs()[uploads-1])
		require.NoFileExists(t, one.Journal)
	}
}

// volume checks that a volume of a snapshot is the disk, bit by bit.
func (d disk) volume(t *testing.T, double *ebsdirect.Double, id string) {
	t.Helper()
	volume, err := double.Volume(id, false)
	require.NoError(t, err)
	got, want := make([]byte, snapshot.BlockSize), make([]byte, snapshot.BlockSize)
	for index := range int32(2048) {
		_, err := io.ReadFull(volume, got)
		require.NoError(t, err)
		require.NoError(t, d.source().Read(index, want))
		require.True(t, bytes.Equal(want, got), "block %d", index)
	}
	_, err = volume.Read(got)
	require.ErrorIs(t, err, io.EOF)
}

// Every file must have the snapshot's content. Before that, no file has the name.
func TestKilledDownloadsGoOn(t *testing.T) {
	double, a := served(t)
	double.Quotas = ebsdirect.Quotas{}
	for done := 0; done < *kills; {
		d := random()
		r, err := upload(t).Run(t.Context(), a, d.source())
		require.NoError(t, err)
		one := task{Snapshot: r.Snapshot.ID, File: filepath.Join(t.TempDir(), "disk")}
		done += one.killed(t, double, "GetSnapshotBlock", "GetSnapshotBlock", "GetSnapshotBlock", "ListSnapshotBlocks", "DescribeSnapshots")
		d.same(t, one.File)
		require.Equal(t, []string{one.File}, testkit.Glob(t, one.File+"*"))
		require.NoError(t, os.Remove(one.File))
	}
}

// stall is how long a server may send nothing in these tests.
const stall = 200 * time.Millisecond

// hanging is a server that stops in the middle of some calls until the test ends.
type hanging struct {
	next http.Handler
	// method is that of the calls that hang, and left is their number.
	method string
	left   atomic.Int32
	// hangs gets the call, and stops at a point of its own.
	hangs func(http.ResponseWriter, *http.Request)
}

func (h *hanging) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	if in.Method == h.method && strings.Contains(in.URL.Path, "/blocks/") && h.left.Add(-1) >= 0 {
		h.hangs(out, in)
		return
	}
	h.next.ServeHTTP(out, in)
}

func TestCallsThatHangAreMadeAgain(t *testing.T) {
	var stop chan struct{}
	for name, one := range map[string]struct {
		method string
		hangs  func(http.ResponseWriter, *http.Request)
	}{
		"put without a response": {"PUT", func(_ http.ResponseWriter, in *http.Request) {
			_, _ = io.Copy(io.Discard, in.Body)
			<-stop
		}},
		"put in the middle of the body": {"PUT", func(_ http.ResponseWriter, in *http.Request) {
			_, _ = io.CopyN(io.Discard, in.Body, 1000)
			<-stop
		}},
		"get without a response": {"GET", func(http.ResponseWriter, *http.Request) { <-stop }},
		"get in the middle of the body": {"GET", func(out http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"Content-Length": "524288", "X-Amz-Data-Length": "524288", "X-Amz-Checksum-Algorithm": "SHA256"} {
				out.Header().Set(name, value)
			}
			_, _ = out.Write(make([]byte, 1000))
			out.(http.Flusher).Flush()
			<-stop
		}},
	} {
		t.Run(name, func(t *testing.T) {
			double := aws.EBS(t, t.TempDir())
			h := &hanging{next: double, method: one.method, hangs: one.hangs}
			h.left.Store(2)
			a := servedBy(t, h, stall)
			stop = make(chan struct{})
			t.Cleanup(func() { close(stop) })
			d := disk{0: 1, 1: 1, 2: 1, 3: 1}
			r, err := upload(t).Run(t.Context(), a, d.source())
			require.NoError(t, err)
			require.Equal(t, d.sums(), double.Blocks(r.Snapshot.ID))
			path := filepath.Join(t.TempDir(), "disk")
			_, err = snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
			require.NoError(t, err)
			d.same(t, path)
			require.Negative(t, h.left.Load(), "no call has hung")
		})
	}
}

func TestACallThatAlwaysHangsIsAnError(t *testing.T) {
	stop := make(chan struct{})
	double := aws.EBS(t, t.TempDir())
	h := &hanging{next: double, method: "PUT", hangs: func(http.ResponseWriter, *http.Request) { <-stop }}
	h.left.Store(1 << 20)
	a := servedBy(t, h, stall)
	t.Cleanup(func() { close(stop) }) // before the server closes
	u := upload(t)
	_, err := u.Run(t.Context(), a, disk{7: 1}.source())
	require.ErrorContains(t, err, "writing the block 7 of the snapshot snap-")
	require.ErrorContains(t, err, "timeout limit, 200ms")
	require.Empty(t, double.IDs())
}
