//go:build linux

package snapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// served returns a double and the real SDK that calls it.
func served(t *testing.T) (*ebsdirect.Double, *awsapi.AWS) {
	t.Helper()
	d := aws.EBS(t, t.TempDir())
	return d, servedBy(t, d, 20*time.Second)
}

// servedBy returns the real SDK that calls a handler.
func servedBy(t *testing.T, by http.Handler, stall time.Duration) *awsapi.AWS {
	t.Helper()
	server := httptest.NewServer(by)
	t.Cleanup(server.Close)
	endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL": server.URL})
	a, err := awsapi.Open(t.Context(), awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond, Stall: stall})
	require.NoError(t, err)
	return a
}

func content(index int32, version byte) []byte {
	text := []byte(fmt.Sprintf("block %d, version %d;", index, version))
	return bytes.Repeat(text, snapshot.BlockSize/len(text)+1)[:snapshot.BlockSize]
}

// disk is a disk of 1 GiB with the given blocks and their versions. Version 0 is a
// block of zeros.
type disk map[int32]byte

func (d disk) source() snapshot.Source {
	s := snapshot.Source{Identity: fmt.Sprint(map[int32]byte(d)), Size: 1, Check: func() error { return nil }}
	for index := range int32(2048) {
		if _, used := d[index]; used {
			s.Blocks = append(s.Blocks, index)
		}
	}
	s.Read = func(index int32, into []byte) error {
		if d[index] == 0 {
			clear(into)
		} else {
			copy(into, content(index, d[index]))
		}
		return nil
	}
	return s
}

func (d disk) sums() map[int32]snapshot.Sum {
	all := map[int32]snapshot.Sum{}
	block := make([]byte, snapshot.BlockSize)
	for index := range d {
		_ = d.source().Read(index, block)
		all[index] = sha256.Sum256(block)
	}
	return all
}

func upload(t *testing.T) snapshot.Upload {
	return snapshot.Upload{Journal: filepath.Join(t.TempDir(), "journal")}
}

func TestAnUploadSendsAllUsedBlocks(t *testing.T) {
	double, a := served(t)
	double.NotFoundYet, double.Completing, double.Quotas.Start = 3, 3, 0
	d := disk{0: 1, 1: 0, 7: 3, 2047: 4}
	u := upload(t)
	r, err := u.Run(t.Context(), a, d.source())
	require.NoError(t, err)
	require.Equal(t, 4, r.Sent, "a block of zeros is sent too")
	require.Equal(t, awsapi.SnapshotCompleted, r.Snapshot.State)
	require.Len(t, r.Sums, 4)
	require.Equal(t, d.sums(), double.Blocks(r.Snapshot.ID))
	require.NoFileExists(t, u.Journal)
}

func TestWithAParentOnlyChangedBlocksAreSent(t *testing.T) {
	double, a := served(t)
	first := disk{0: 1, 1: 1, 2: 1, 3: 1, 9: 1}
	old, err := upload(t).Run(t.Context(), a, first.source())
	require.NoError(t, err)

	path := filepath.Join(t.TempDir(), "sums")
	require.NoError(t, old.Sums.Save(path, old.Snapshot.ID, ""))
	sums, err := snapshot.LoadSums(path, old.Snapshot.ID)
	require.NoError(t, err)
	second := disk{0: 1, 1: 2, 2: 0, 3: 1, 8: 1} // 1 changed, 2 became zeros, 8 is new, 9 is free
	u := upload(t)
	u.Parent, u.ParentSums = old.Snapshot.ID, sums
	r, err := u.Run(t.Context(), a, second.source())
	require.NoError(t, err)
	require.Equal(t, 4, r.Sent)
	require.Equal(t, 2, r.Inherited)
	want := second.sums()
	want[9] = disk{9: 0}.sums()[9] // nothing of the parent is left where the disk is free
	require.Equal(t, want, double.Blocks(r.Snapshot.ID))
	require.Equal(t, want, map[int32]snapshot.Sum(r.Sums))

	// Checksums of an older eksnode lack the free blocks: EBS's list decides. Zeros of
	// the parent need not be sent again.
	for name, sums := range map[string]snapshot.Sums{"complete": r.Sums, "without 8 and 9": {0: r.Sums[0], 1: r.Sums[1], 2: r.Sums[2], 3: r.Sums[3], 77: disk{77: 1}.sums()[77]}} {
		u = upload(t)
		u.Parent, u.ParentSums = r.Snapshot.ID, sums
		third, err := u.Run(t.Context(), a, disk{0: 1, 2: 0, 77: 1}.source())
		require.NoError(t, err, name)
		require.Equal(t, disk{0: 1, 1: 0, 2: 0, 3: 0, 8: 0, 9: 0, 77: 1}.sums(), double.Blocks(third.Snapshot.ID), name)
		require.Equal(t, map[string]int{"complete": 4, "without 8 and 9": 5}[name], third.Sent, name)
	}
}

func TestFailuresLeaveNothingBehind(t *testing.T) {
	stopped := errors.New("stopped by the test")
	for name, one := range map[string]struct {
		happens func(*ebsdirect.Double, *snapshot.Source, context.CancelCauseFunc)
		says    string
	}{
		"permission": {func(d *ebsdirect.Double, _ *snapshot.Source, _ context.CancelCauseFunc) {
			d.Fail("PutSnapshotBlock", 100, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
		}, "the permission ebs:PutSnapshotBlock is missing"},
		"quota": {func(d *ebsdirect.Double, _ *snapshot.Source, _ context.CancelCauseFunc) {
			d.Quotas.Pending = -1
			d.Fail("StartSnapshot", 100, ebsdirect.Failure{Status: 402, Code: "ServiceQuotaExceededException", Message: "too many"})
		}, "starting a snapshot: ServiceQuotaExceededException: too many"},
		"changed disk": {func(_ *ebsdirect.Double, s *snapshot.Source, _ context.CancelCauseFunc) {
			s.Check = func() error { return errors.New("the disk has changed") }
		}, "the disk has changed"},
		"unreadable disk": {func(_ *ebsdirect.Double, s *snapshot.Source, _ context.CancelCauseFunc) {
			s.Read = func(int32, []byte) error { return io.ErrUnexpectedEOF }
		}, "unexpected EOF"},
		"Ctrl-C": {func(d *ebsdirect.Double, _ *snapshot.Source, cancel context.CancelCauseFunc) {
			d.Before("PutSnapshotBlock", func() { cancel(stopped) })
		}, "stopped by the test"},
		"completion": {func(d *ebsdirect.Double, _ *snapshot.Source, _ context.CancelCauseFunc) {
			d.Fail("CompleteSnapshot", 100, ebsdirect.Failure{Status: 400, Code: "ValidationException", Message: "wrong"})
		}, "completing the snapshot snap-"},
	} {
		t.Run(name, func(t *testing.T) {
			double, a := served(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			source := disk{0: 1, 1: 1, 2: 1, 3: 1}.source()
			one.happens(double, &source, cancel)
			u := upload(t)
			_, err := u.Run(ctx, a, source)
			require.ErrorContains(t, err, one.says)
			require.Empty(t, double.IDs())
			require.NoFileExists(t, u.Journal)
		})
	}
}

func TestTroubleOnTheWay(t *testing.T) {
	for _, failure := range []ebsdirect.Failure{
		{Status: 400, Code: "ConcurrentLimitExceededException"}, {Status: 400, Code: "RequestThrottledException"},
		{Status: 402, Code: "ServiceQuotaExceededException"}, {Status: 500, Code: "InternalServerException"}, {Status: 503, Code: "ServiceUnavailable"}, {},
	} {
		t.Run(fmt.Sprint(failure.Status, failure.Code), func(t *testing.T) {
			double, a := served(t)
			double.Fail("PutSnapshotBlock", 2, failure)
			double.Fail("CompleteSnapshot", 1, failure)
			d := disk{0: 1, 1: 1, 2: 1}
			r, err := upload(t).Run(t.Context(), a, d.source())
			require.NoError(t, err)
			require.Equal(t, d.sums(), double.Blocks(r.Snapshot.ID))
			require.Len(t, double.IDs(), 1)
		})
	}
}
