//go:build linux

package snapshot_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// same checks that a file has every block of the disk, and zeros in a sample of the
// others.
func (d disk) same(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), st.Size())
	got := make([]byte, snapshot.BlockSize)
	for index := range int32(2048) {
		if _, used := d[index]; !used && index%100 != 0 {
			continue
		}
		_, err := f.ReadAt(got, int64(index)*snapshot.BlockSize)
		require.NoError(t, err)
		want := make([]byte, snapshot.BlockSize)
		if d[index] > 0 {
			want = content(index, d[index])
		}
		require.True(t, string(want) == string(got), "block %d", index)
	}
}

func TestADownloadIsTheUploadedDisk(t *testing.T) {
	double, a := served(t)
	double.EmptyPages = true
	d := disk{0: 1, 5: 0, 6: 2, 2047: 1}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{})
	path := filepath.Join(t.TempDir(), "disk")
	sums, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	require.Equal(t, r.Sums, sums)
	d.same(t, path)
	require.Equal(t, []string{path}, testkit.Glob(t, path+"*"))
}

func TestAnInterruptedDownloadGoesOn(t *testing.T) {
	_, a := served(t)
	d := disk{}
	for index := range int32(200) {
		d[index] = 1
	}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "disk")
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(p snapshot.Progress) {
		if p.Sent >= 100 {
			cancel()
		}
	}
	_, err = snapshot.Download{Progress: stop}.Run(ctx, a, r.Snapshot.ID, path)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, path)

	part, err := os.OpenFile(path+".part", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = part.WriteAt([]byte("torn"), 0) // a block that was not written completely
	require.NoError(t, err)
	require.NoError(t, part.Close())
	var read int // the double may still count calls of the first run
	progress := func(p snapshot.Progress) { read = p.Sent }
	_, err = snapshot.Download{Progress: progress, Connections: 1}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	require.LessOrEqual(t, read, 101) // and the torn block
	d.same(t, path)
}

func TestOnlyCompletedSnapshotsAreRead(t *testing.T) {
	double, a := served(t)
	ctx, cancel := context.WithCancel(t.Context())
	u := upload(t)
	u.Keep = true
	u.Progress = func(snapshot.Progress) { cancel() }
	_, err := u.Run(ctx, a, disk{0: 1, 1: 1}.source())
	require.Error(t, err)
	id := double.IDs()[0]
	_, err = snapshot.Download{}.Run(t.Context(), a, id, filepath.Join(t.TempDir(), "disk"))
	require.EqualError(t, err, "reading the snapshot "+id+": the snapshot is pending (30%), and only a completed one can be read; wait for it: aws ec2 wait snapshot-completed --region eu-west-1 --snapshot-ids "+id)
}

func stored(t *testing.T, a *awsapi.AWS, blocks int32) (disk, snapshot.Result) {
	t.Helper()
	d := disk{}
	for index := range blocks {
		d[index] = byte(index % 3) // every third block is zeros
	}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	return d, r
}

func TestStaleTokensAreListedAgain(t *testing.T) {
	for name, happens := range map[string]func(*ebsdirect.Double, *awsapi.AWS, string){
		"tokens of blocks expire": func(d *ebsdirect.Double, _ *awsapi.AWS, _ string) {
			d.Now = func() time.Time { return time.Now().Add(8 * 24 * time.Hour) }
		},
		"another program lists the snapshot": func(_ *ebsdirect.Double, a *awsapi.AWS, id string) {
			_, _ = a.Blocks(context.Background(), id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			double, a := served(t)
			double.Quotas = ebsdirect.Quotas{}
			d, r := stored(t, a, 120)
			var gets atomic.Int32
			double.Before("GetSnapshotBlock", func() {
				if gets.Add(1) == 60 {
					happens(double, a, r.Snapshot.ID)
				}
			})
			path := filepath.Join(t.TempDir(), "disk")
			sums, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
			require.NoError(t, err)
			require.Equal(t, r.Sums, sums)
			d.same(t, path)
			read, err := snapshot.ReadSums(t.Context(), a, r.Snapshot.ID, []int32{3, 4, 119, 500})
			require.NoError(t, err)
			require.Equal(t, snapshot.Sums{3: r.Sums[3], 4: r.Sums[4], 119: r.Sums[119]}, read)
		})
	}
}

func TestTokensThatAreAlwaysStaleAreAnError(t *testing.T) {
	double, a := served(t)
	_, r := stored(t, a, 3)
	double.Fail("GetSnapshotBlock", 1000, ebsdirect.Failure{Status: 400, Code: "ValidationException", Message: "the token is not valid", Reason: "INVALID_BLOCK_TOKEN"})
	_, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, filepath.Join(t.TempDir(), "disk"))
	require.ErrorContains(t, err, "ValidationException: the token is not valid")
}

func TestExpiredPageTokensAreListedAgain(t *testing.T) {
	double, a := served(t)
	double.Quotas, double.EmptyPages, double.PageMost = ebsdirect.Quotas{}, true, 100
	d, r := stored(t, a, 320)
	now := time.Now()
	var mutex sync.Mutex
	double.Before("GetSnapshotBlock", func() {
		mutex.Lock()
		defer mutex.Unlock()
		now = now.Add(2 * time.Minute)
	})
	double.Now = func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "disk")
	_, err := snapshot.Download{Connections: 1}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	d.same(t, path)
}

func TestDamagedBlocksAreReadAgain(t *testing.T) {
	for name, one := range map[string]struct {
		damage func(http.Header, []byte) []byte
		always string
	}{
		"other content": {func(_ http.Header, b []byte) []byte { b[5]++; return b }, "its SHA-256 is"},
		"too short":     {func(_ http.Header, b []byte) []byte { return b[:1000] }, "unexpected EOF"},
		"other length": {func(h http.Header, b []byte) []byte { h.Set("X-Amz-Data-Length", "1000"); return b },
			`the answer has 1000 bytes with a checksum of the kind "SHA256", but should have 524288 with SHA256`},
		"no checksum": {func(h http.Header, b []byte) []byte { h.Del("X-Amz-Checksum-Algorithm"); return b },
			`the answer has 524288 bytes with a checksum of the kind "", but should have 524288 with SHA256`},
	} {
		t.Run(name, func(t *testing.T) {
			double := aws.EBS(t, t.TempDir())
			h := &damaging{double, one.damage, atomic.Int32{}}
			a := servedBy(t, h, 20*time.Second)
			d, r := stored(t, a, 3)
			h.left.Store(1 << 20)
			path := filepath.Join(t.TempDir(), "disk")
			_, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
			require.ErrorContains(t, err, "downloading the snapshot "+r.Snapshot.ID+": reading the block ")
			require.ErrorContains(t, err, one.always)
			require.NoFileExists(t, path)
			h.left.Store(0)
			if name == "other content" || name == "too short" {
				h.left.Store(3)
			}
			_, err = snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
			require.NoError(t, err)
			d.same(t, path)
		})
	}
}

// damaging changes blocks that the double returns.
type damaging struct {
	next   http.Handler
	damage func(http.Header, []byte) []byte
	left   atomic.Int32
}

func (d *damaging) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	if in.Method != http.MethodGet || !in.URL.Query().Has("blockToken") || d.left.Add(-1) < 0 {
		d.next.ServeHTTP(out, in)
		return
	}
	got := httptest.NewRecorder()
	d.next.ServeHTTP(got, in)
	body := d.damage(got.Header(), got.Body.Bytes())
	for name, values := range got.Header() {
		out.Header()[name] = values
	}
	out.WriteHeader(got.Code)
	_, _ = out.Write(body) // the caller may have closed the connection
}

// A download that ended before its journal began has an older file of another snapshot.
func TestAnOlderPartIsEmptied(t *testing.T) {
	_, a := served(t)
	d, r := stored(t, a, 6)
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(path+".part", bytes.Repeat([]byte("old"), 10<<20), 0o600))
	_, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	d.same(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, int64(4*snapshot.BlockSize), info.Sys().(*syscall.Stat_t).Blocks*512, "blocks of zeros are holes")
}

// The second snapshot comes from the file of the first one and the blocks that changed.
func TestOnlyChangedBlocksAreFetched(t *testing.T) {
	double, a := served(t)
	double.EmptyPages = true
	before := disk{0: 1, 5: 1, 6: 2, 7: 3, 2047: 1}
	first, err := upload(t).Run(t.Context(), a, before.source())
	require.NoError(t, err)
	u := upload(t)
	u.Parent, u.ParentSums = first.Snapshot.ID, first.Sums
	after := disk{0: 1, 5: 2, 6: 0, 7: 3, 9: 1, 2047: 1}
	second, err := u.Run(t.Context(), a, after.source())
	require.NoError(t, err)

	changes, err := snapshot.Compare(t.Context(), a, first.Snapshot.ID, second.Snapshot.ID)
	require.NoError(t, err)
	require.Len(t, changes.Changed, 2)
	require.Len(t, changes.Added, 1)
	require.Empty(t, changes.Removed)
	folder := t.TempDir()
	from, path := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	sums, err := snapshot.Download{}.Run(t.Context(), a, first.Snapshot.ID, from)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	stop := snapshot.Download{Connections: 1, Progress: func(snapshot.Progress) { cancel() }}
	err = stop.Update(ctx, a, changes, from, sums, path)
	require.ErrorIs(t, err, context.Canceled)
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
	err = snapshot.Download{Connections: 1}.Update(t.Context(), a, changes, from, sums, path)
	require.ErrorContains(t, err, "updating the disk of the snapshot "+first.Snapshot.ID+": downloading the snapshot "+second.Snapshot.ID+": ")
	require.Len(t, testkit.Names(t, folder), 1, "a failed update leaves nothing")

	fetched := double.Count().Fetched
	require.NoError(t, snapshot.Download{}.Update(t.Context(), a, changes, from, sums, path))
	require.EqualValues(t, 3*snapshot.BlockSize, double.Count().Fetched-fetched)
	after.same(t, path)
	before.same(t, from)

	// The other direction: a block that the second one lacks is zeros.
	changes, err = snapshot.Compare(t.Context(), a, second.Snapshot.ID, first.Snapshot.ID)
	require.NoError(t, err)
	require.Len(t, changes.Removed, 1)
	sums, err = snapshot.Download{}.Run(t.Context(), a, second.Snapshot.ID, from+"2")
	require.NoError(t, err)
	require.NoError(t, snapshot.Download{}.Update(t.Context(), a, changes, from+"2", sums, path+"2"))
	before.same(t, path+"2")
}

func TestSnapshotsOfDifferentLineagesAreUnrelated(t *testing.T) {
	_, a := served(t)
	var ids []string
	for version := range byte(2) {
		r, err := upload(t).Run(t.Context(), a, disk{0: version + 1}.source())
		require.NoError(t, err)
		ids = append(ids, r.Snapshot.ID)
	}
	_, err := snapshot.Compare(t.Context(), a, ids[0], ids[1])
	require.True(t, awsapi.IsUnrelated(err), "%v", err)
}
