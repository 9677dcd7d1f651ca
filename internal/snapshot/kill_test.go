package snapshot_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

var kills = flag.Int("kills", 20, "how often TestKilledUploadsGoOn kills an upload")

// uploading is the environment variable of the process that uploads: the disk and the
// path of the journal in JSON.
const uploading = "EKSNODE_TEST_UPLOAD"

type uploadTask struct {
	Disk    disk
	Journal string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(uploading); text != "" {
		os.Exit(uploadInProcess(text))
	}
	os.Exit(m.Run())
}

func uploadInProcess(text string) int {
	var task uploadTask
	if json.Unmarshal([]byte(text), &task) != nil {
		return 2
	}
	ctx := context.Background()
	a, err := awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
	if err == nil {
		_, err = snapshot.Upload{Journal: task.Journal, Connections: 4, Say: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) }}.Run(ctx, a, task.Disk.source())
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

// TestKilledUploadsGoOn kills uploads with SIGKILL before random calls, until they are
// complete. Every snapshot must have the disk's content, and no snapshot may be left.
func TestKilledUploadsGoOn(t *testing.T) {
	double, _ := served(t)
	double.Quotas.Start, double.Quotas.Complete, double.Completing = 0, 0, 1
	for done, uploads := 0, 1; done < *kills; uploads++ {
		d := disk{}
		for range 40 {
			d[rand.Int32N(2048)] = byte(rand.IntN(250))
		}
		journal := filepath.Join(t.TempDir(), "journal")
		task, err := json.Marshal(uploadTask{d, journal})
		require.NoError(t, err)
		for {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), uploading+"="+string(task))
			var said []byte
			action := []string{"StartSnapshot", "PutSnapshotBlock", "PutSnapshotBlock", "PutSnapshotBlock", "CompleteSnapshot", "DescribeSnapshots"}[rand.IntN(6)]
			left := 1 + rand.IntN(20)
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
			if action != "PutSnapshotBlock" {
				left = 1
			}
			said, err = cmd.CombinedOutput()
			double.Before(action, nil)
			if err == nil {
				break
			}
			mutex.Lock()
			require.True(t, killed, "the upload failed by itself: %s", said)
			mutex.Unlock()
			done++
		}
		require.Len(t, double.IDs(), uploads, "one snapshot for each upload")
		require.Equal(t, d.sums(), double.Blocks(double.IDs()[uploads-1]))
		require.NoFileExists(t, journal)
	}
}
