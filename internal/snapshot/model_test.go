//go:build linux

package snapshot_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// audit is the scenario of an audit, which reads the disk of a snapshot.
func audit(t *testing.T) aws.Scenario {
	t.Helper()
	aws.Environment(t)
	const id = "snap-00000000000000abc"
	disk := bytes.Repeat([]byte("block"), 2*ebsdirect.BlockSize/5)
	return aws.Scenario{
		Name: "audit", Unsaved: true,
		Begin: func(w *aws.World, _ string) error {
			w.EBS().Forget = false
			return w.EBS().Add(ebsdirect.Snapshot{ID: id, Owner: aws.Account, State: ebsdirect.Completed, Size: 1}, bytes.NewReader(disk))
		},
		Run: func(ctx context.Context, client *http.Client, folder string) error {
			a, err := awsapi.Open(ctx, awsapi.Options{HTTP: client, Settle: 1, Pause: 1})
			if err != nil {
				return err
			}
			d, err := snapshot.Cache{Folder: folder, Say: func(string, ...any) {}}.Get(ctx, a, id)
			if err != nil {
				return err
			}
			f, err := os.Open(d.Path)
			assert.NoError(t, err)
			got := make([]byte, len(disk))
			_, err = io.ReadFull(f, got)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(disk, got), "the disk has other content")
			return d.Close(true)
		},
		State: func(w *aws.World) string { return w.True(w.Snapshot(id)) },
	}
}

// Whatever AWS answers, an audit gets the disk of the snapshot, or none.
func TestAuditsGetTheDiskOrNone(t *testing.T) { audit(t).Sample(t, 40) }
