//go:build linux

package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// interrupted is an upload that stopped after some blocks, with its pending snapshot.
type interrupted struct {
	double *ebsdirect.Double
	aws    *awsapi.AWS
	upload snapshot.Upload
	id     string
	disk   disk
	said   string
}

func interrupt(t *testing.T, with func(*interrupted)) *interrupted {
	t.Helper()
	i := &interrupted{disk: disk{0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, upload: upload(t)}
	i.double, i.aws = served(t)
	i.double.Quotas.Start = 0
	if with != nil {
		with(i)
	}
	i.upload.Keep, i.upload.Connections = true, 1
	ctx, cancel := context.WithCancel(t.Context())
	i.upload.Progress = func(p snapshot.Progress) {
		if p.Sent == 3 {
			cancel()
		}
	}
	_, err := i.upload.Run(ctx, i.aws, i.source("identity"))
	require.ErrorIs(t, err, context.Canceled)
	ids := i.double.IDs()
	i.id = ids[len(ids)-1]
	i.upload.Progress, i.upload.Keep = nil, false
	i.upload.Say = func(format string, args ...any) { i.said += fmt.Sprintf(format, args...) + "\n" }
	return i
}

// source is the disk with an identity that does not depend on its content, like that of
// a block device.
func (i *interrupted) source(identity string) snapshot.Source {
	s := i.disk.source()
	s.Identity = identity
	return s
}

func TestAnUploadStartsOverWhenItsSnapshotIsLost(t *testing.T) {
	for name, one := range map[string]struct {
		happens func(*interrupted)
		says    string
		left    int // additional snapshots
	}{
		"timeout": {func(i *interrupted) {
			i.double.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		}, "the snapshot ID of an interrupted upload has the state error: its timeout of 1h0m0s may be over; the upload starts over\n", 0},
		"timeout in the middle": {func(i *interrupted) {
			i.double.Before("PutSnapshotBlock", func() {
				i.double.Before("PutSnapshotBlock", nil)
				i.double.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
			})
		}, "the snapshot ID of an interrupted upload cannot be completed (writing the block", 0},
		"deleted": {func(i *interrupted) { i.double.Delete(i.id) }, "the snapshot ID of an interrupted upload was deleted; the upload starts over\n", 0},
		"deleted in the middle": {func(i *interrupted) {
			i.aged()
			i.double.Before("PutSnapshotBlock", func() { i.double.Delete(i.id) })
		}, "the snapshot ID of an interrupted upload cannot be completed (writing the block", 0},
		"block no longer used": {func(i *interrupted) { delete(i.disk, 0) },
			"the snapshot ID of an interrupted upload has the block 0, which the disk no longer uses; the upload starts over\n", 0},
		"other disk": {func(i *interrupted) { i.disk[0] = 9 }, "", 0},
		"completed with other content": {func(i *interrupted) {
			complete(t, i)
			i.disk[5] = 9
		}, "the snapshot ID of the interrupted upload is complete and stays; delete it if nothing uses it\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := interrupt(t, nil)
			one.happens(i)
			identity := "identity"
			if name == "other disk" {
				identity = "another"
			}
			r, err := i.upload.Run(t.Context(), i.aws, i.source(identity))
			require.NoError(t, err)
			require.NotEqual(t, i.id, r.Snapshot.ID)
			require.Equal(t, len(i.disk), r.Sent)
			require.Equal(t, i.disk.sums(), i.double.Blocks(r.Snapshot.ID))
			require.Len(t, i.double.IDs(), 1+one.left)
			require.Contains(t, strings.ReplaceAll(i.said, i.id, "ID"), one.says)
			require.NoFileExists(t, i.upload.Journal)
		})
	}
}

// The journal of an upload that started over has only the blocks of the new snapshot.
func TestAnUploadThatStartedOverGoesOn(t *testing.T) {
	i := interrupt(t, nil)
	i.double.Delete(i.id)
	ctx, cancel := context.WithCancel(t.Context())
	again := i.upload
	again.Keep, again.Progress = true, func(snapshot.Progress) { cancel() }
	_, err := again.Run(ctx, i.aws, i.source("identity"))
	require.ErrorIs(t, err, context.Canceled)
	r, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
	require.NoError(t, err)
	require.Equal(t, 1, r.Resumed)
	require.Equal(t, i.disk.sums(), i.double.Blocks(r.Snapshot.ID))
}

// aged makes the journal older than the two minutes in which AWS may not find a new
// snapshot.
func (i *interrupted) aged() {
	text, err := os.ReadFile(i.upload.Journal)
	if err == nil {
		text = regexp.MustCompile(`"started":"[^"]*"`).ReplaceAll(text, []byte(`"started":"2020-01-02T03:04:05Z"`))
		err = os.WriteFile(i.upload.Journal, text, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// complete completes the snapshot as an upload does that is killed afterwards: with all
// its blocks in the journal.
func complete(t *testing.T, i *interrupted) {
	t.Helper()
	u := i.upload
	u.Keep = true
	i.double.Before("CompleteSnapshot", func() {
		i.double.Fail("DescribeSnapshots", 4, ebsdirect.Failure{Status: 403, Code: "UnauthorizedOperation", Message: "no"})
	})
	_, err := u.Run(t.Context(), i.aws, i.source("identity"))
	require.ErrorContains(t, err, "the permission ec2:DescribeSnapshots is missing")
	i.double.Heal()
	i.double.Before("CompleteSnapshot", nil)
	require.Equal(t, ebsdirect.Completed, i.double.Find(i.id).State)
}

func TestAnInterruptedUploadEndsWithTheDisk(t *testing.T) {
	for name, one := range map[string]struct {
		with, happens func(*interrupted)
		sent          int
		another       bool // snapshot
	}{
		"same disk":        {nil, func(*interrupted) {}, 3, false},
		"other content":    {nil, func(i *interrupted) { i.disk[0], i.disk[5] = 9, 9 }, 4, false},
		"completed":        {nil, func(i *interrupted) { complete(t, i) }, 0, false},
		"completed slowly": {func(i *interrupted) { i.double.Completing = 10 }, func(i *interrupted) { complete(t, i) }, 0, false},
		"without the ID": {nil, func(i *interrupted) {
			i.edit(t, func(line string) bool { return !strings.HasPrefix(line, "snapshot ") })
		}, 3, false},
		"token of a deleted snapshot": {nil, func(i *interrupted) {
			i.edit(t, func(line string) bool { return !strings.HasPrefix(line, "snapshot ") })
			i.double.Delete(i.id)
		}, 6, true},
		"token after the timeout": {nil, func(i *interrupted) {
			i.edit(t, func(line string) bool { return !strings.HasPrefix(line, "snapshot ") })
			i.aged()
			i.double.Delete(i.id)
		}, 6, true},
		"without the last line":     {nil, func(i *interrupted) { i.edit(t, func(line string) bool { return !strings.HasPrefix(line, "2 ") }) }, 4, false},
		"parent":                    {child, func(*interrupted) {}, 2, false},
		"block became the parent's": {child, func(i *interrupted) { i.disk[1] = 7 }, 3, false},
		// AWS counts a block that the journal lacks, so the upload starts over.
		"block became the parent's without its line": {child, func(i *interrupted) {
			i.edit(t, func(line string) bool { return !strings.HasPrefix(line, "1 ") })
			i.disk[1] = 7
		}, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			i := interrupt(t, one.with)
			one.happens(i)
			r, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
			require.NoError(t, err)
			require.Equal(t, one.another, i.id != r.Snapshot.ID, i.said)
			require.Equal(t, one.sent, r.Sent)
			require.Equal(t, len(i.disk), r.Sent+r.Resumed+r.Inherited)
			require.Equal(t, i.disk.sums(), i.double.Blocks(r.Snapshot.ID))
			require.NoFileExists(t, i.upload.Journal)
		})
	}
}

// child gives the upload a parent with other content of the blocks 1 and 2, and with
// the disk's block 0.
func child(i *interrupted) {
	u := i.upload
	u.Journal += "-parent"
	r, err := u.Run(context.Background(), i.aws, disk{0: 1, 1: 7, 2: 7}.source())
	if err != nil {
		panic(err)
	}
	i.upload.Parent, i.upload.ParentSums = r.Snapshot.ID, r.Sums
}

func (i *interrupted) edit(t *testing.T, keep func(line string) bool) {
	t.Helper()
	text := testkit.Content(t, i.upload.Journal)
	var left []string
	for line := range strings.Lines(text) {
		if keep(line) {
			left = append(left, line)
		}
	}
	require.NotEqual(t, strings.Join(left, ""), text)
	require.NoError(t, os.WriteFile(i.upload.Journal, []byte(strings.Join(left, "")), 0o600))
}

func TestTwoUploadsOfOneDiskExcludeEachOther(t *testing.T) {
	double, a := served(t)
	u := upload(t)
	var second error
	double.Before("PutSnapshotBlock", sync.OnceFunc(func() { _, second = u.Run(t.Context(), a, disk{0: 1}.source()) }))
	_, err := u.Run(t.Context(), a, disk{0: 1}.source())
	require.NoError(t, err)
	require.EqualError(t, second, "the journal "+u.Journal+" is in use: another eksnode works on the same disk or snapshot; wait until that process ends")
	require.Len(t, double.IDs(), 1)
}

// With expired credentials, the pending snapshot cannot be deleted. The journal stays,
// and the next upload goes on.
func TestExpiredCredentialsKeepTheJournal(t *testing.T) {
	i := interrupt(t, nil)
	expired := ebsdirect.Failure{Status: 403, Code: "ExpiredTokenException", Message: "The security token included in the request is expired"}
	i.double.Fail("PutSnapshotBlock", 1, expired)
	i.double.Before("PutSnapshotBlock", func() { i.double.Fail("DescribeSnapshots", 10, expired) })
	_, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
	require.ErrorContains(t, err, "ExpiredTokenException: The security token included in the request is expired")
	require.ErrorContains(t, err, "the pending snapshot "+i.id+" stays for 1h0m0s: the same upload goes on")
	require.True(t, awsapi.IsUnknownCaller(err))
	i.double.Before("PutSnapshotBlock", nil)
	i.double.Heal()
	r, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
	require.NoError(t, err)
	require.Equal(t, i.id, r.Snapshot.ID)
	require.Equal(t, 3, r.Resumed)
}

// A block that fails for good ends the upload, and not what was sent before.
func TestAFailedBlockKeepsThoseThatWereSent(t *testing.T) {
	for _, failure := range []ebsdirect.Failure{
		{Status: 400, Code: "ValidationException", Message: "Failed to read block data", Reason: "INVALID_PARAMETER_VALUE"},
		{Status: 403, Code: "AccessDeniedException", Message: "no"}, {Status: 500, Code: "InternalServerException"},
	} {
		i := interrupt(t, nil)
		for range 2 { // also when it has gone on before
			i.double.Fail("PutSnapshotBlock", 1000, failure)
			_, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
			require.ErrorContains(t, err, "writing the block ")
			require.ErrorContains(t, err, "the pending snapshot "+i.id+" stays for 1h0m0s: the same upload goes on, if you start it again before")
			require.Equal(t, []string{i.id}, i.double.IDs())
			i.double.Heal()
		}
		i.double.Fail("PutSnapshotBlock", 5, failure)
		if failure.Status == 403 {
			i.double.Heal()
		}
		r, err := i.upload.Run(t.Context(), i.aws, i.source("identity"))
		require.NoError(t, err)
		require.Equal(t, i.id, r.Snapshot.ID)
		require.Equal(t, 3, r.Resumed)
		require.Equal(t, i.disk.sums(), i.double.Blocks(i.id))
		require.Empty(t, i.said)
	}
}
