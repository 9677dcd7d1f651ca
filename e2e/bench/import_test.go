//go:build e2e

package bench

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	diskimage "github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// uploads is the environment variable that makes this program upload a disk: a job in
// JSON.
const uploads = "EKSNODE_BENCH_UPLOADS"

// job is an upload of a disk.
type job struct {
	// Method is eksnode, all or nonzero. The last two are those of coldsnap 0.6.1: by
	// default it sends all blocks, and with --omit-zero-blocks those with other bytes
	// than zero, with 64 workers (https://github.com/awslabs/coldsnap).
	Method, Disk, Folder string
	// Parent is the ID of the parent. Its checksums are in the folder.
	Parent string
}

// BenchmarkImport uploads a disk with real files to a snapshot: with the code of
// `eksnode ami import`, and with the methods of coldsnap. The network has a delay and
// a rate, for all connections together.
func BenchmarkImport(b *testing.B) {
	install(b, "e2fsprogs", "xfsprogs", "fdisk", "qemu-utils")
	for _, c := range []struct {
		kind, format string
		method       string // of coldsnap
		line         ebsdirect.Line
		most         float64 // of coldsnap's time
	}{
		{"ext4", "raw", "all", ebsdirect.Line{Delay: 20 * time.Millisecond, Rate: 100e6}, 0.4},
		{"ext4", "qcow2", "nonzero", ebsdirect.Line{Delay: 20 * time.Millisecond, Rate: 100e6}, 1.1},
		{"xfs", "raw", "nonzero", ebsdirect.Line{Delay: 20 * time.Millisecond, Rate: 100e6}, 1.1},
		{"ext4", "raw", "nonzero", ebsdirect.Line{Delay: 80 * time.Millisecond, Rate: 125e6}, 1.1},
	} {
		b.Run(fmt.Sprintf("%s-%s/%s/%s", c.kind, c.format, c.method, c.line.Delay), func(b *testing.B) {
			d := newImported(b, c.kind, 2, 520, c.line)
			with := d.raw
			if c.format == "qcow2" {
				with = filepath.Join(d.folder, "disk.qcow2")
				sh(b, `qemu-img convert -O qcow2 "$1" "$2"`, d.raw, with)
			}
			ours, _ := race(b, 1, "coldsnap", c.most, d.way(b, job{Method: "eksnode", Disk: with}), d.way(b, job{Method: c.method, Disk: d.raw}))
			goal(b, "sent/used", ours["sent"]/d.used, 1.05)
			goal(b, "s/line-s", ours["s"]/(ours["sent"]/float64(c.line.Rate)), 1/0.9)
			goal(b, "MiB", ours["MiB"], 150)
			goal(b, "CPU-s/GiB", ours["CPU-s"]/(ours["sent"]/(1<<30)), 1.5)
		})
	}
}

// BenchmarkImportChild uploads a disk with a few changed files: with the snapshot of
// the disk before as its parent, and without a parent.
func BenchmarkImportChild(b *testing.B) {
	install(b, "e2fsprogs", "xfsprogs", "fdisk")
	for _, kind := range []string{"ext4", "xfs"} {
		b.Run(kind, func(b *testing.B) {
			d := newImported(b, kind, 2, 520, ebsdirect.Line{Delay: 20 * time.Millisecond, Rate: 100e6})
			child := filepath.Join(d.folder, "child.raw")
			sh(b, `cp --sparse=always "$1" "$2"`, d.raw, child)
			d.change(b, child, `echo changed >"$1/etc-motd"; rm "$(find "$1" -type f -size +2M | head -n 1)"; head -c 3M /dev/urandom >"$1/new"`)
			way := d.way(b, job{Method: "eksnode", Disk: child, Parent: "yes"})
			ours, _ := race(b, 1, "whole", 0.3, way, d.way(b, job{Method: "eksnode", Disk: child}))
			goal(b, "sent/changed", ours["sent"]/d.changed(b, child), 1.05)
		})
	}
}

// BenchmarkAuditDisk audits a disk of 8 GiB with 1.5 GiB of real files, which also computes
// its digest, and reads the same file with sha256sum.
func BenchmarkAuditDisk(b *testing.B) {
	install(b, "e2fsprogs", "fdisk")
	d := newImported(b, "ext4", 8, 1536, ebsdirect.Line{})
	d.change(b, d.raw, `mkdir -p "$1/etc" "$1/bin"; echo ID=any >"$1/etc/os-release"; cp /bin/true "$1/bin/sh"`)
	command := func(script string) way {
		run := func() figures {
			return measured(b, ".", os.Environ(), "sh", "-uc", script, "sh", d.raw)
		}
		return way{ready: func() {}, run: run, check: noFigures}
	}
	audit := command(`../../bin/eksnode audit --disk "$1" --node no; test $? = 1`) // files of /usr have findings
	ours, _ := race(b, 1, "sha256sum", 1, audit, command(`sha256sum "$1"`))
	goal(b, "MiB", ours["MiB"], 150)
}

// imported is a disk with real files, and a double of EBS.
type imported struct {
	folder, raw string
	// used are the bytes that the file system does not call free, with those before it.
	used   float64
	line   ebsdirect.Line
	double *ebsdirect.Double
	server *httptest.Server
}

// partition is where the file system begins.
const partition = 1 << 20

// newImported has a disk of some GiB, with at most so many MiB of files.
func newImported(b *testing.B, kind string, gib, mib int, line ebsdirect.Line) *imported {
	b.Helper()
	ownMounts(b)
	folder := b.TempDir()
	d := &imported{folder: folder, raw: filepath.Join(folder, "disk.raw"), line: line}
	sectors := strconv.Itoa(gib<<21 - 6144)
	sh(b, `truncate -s "$3G" "$1"
printf 'label: gpt\nstart=2048, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' "$2" | sfdisk -q "$1"`,
		d.raw, sectors, strconv.Itoa(gib))
	sh(b, `loop=$(losetup --show -f -o "$3" --sizelimit $(($4 * 512)) "$1"); "mkfs.$2" -q "$loop"; losetup -d "$loop"`,
		d.raw, kind, strconv.Itoa(partition), sectors)
	d.change(b, d.raw, `cd /usr; find lib share bin -xdev -type f -size -20M 2>/dev/null | head -n 60000 | tar -c -T - |
head -c `+strconv.Itoa(mib)+`M | tar -x -C "$1" 2>/dev/null || true; rm -rf "$1"/share/doc`)
	script := map[string]string{
		"ext4": `dumpe2fs -h "$1" 2>/dev/null | awk '/^Block count/{n=$3} /^Free blocks/{f=$3} /^Block size/{s=$3} END{printf "%d", (n-f)*s}'`,
		"xfs":  `xfs_db -r -c 'sb 0' -c 'p dblocks fdblocks blocksize' "$1" | awk '{v[$1]=$3} END{printf "%d", (v["dblocks"]-v["fdblocks"])*v["blocksize"]}'`,
	}[kind]
	used, err := strconv.ParseFloat(sh(b, `loop=$(losetup --show -r -f -o "$2" "$1"); set -- "$loop"; `+script+`; losetup -d "$loop"`, d.raw, strconv.Itoa(partition)), 64)
	require.NoError(b, err)
	d.used = used + partition
	return d
}

// change runs a script with the mounted file system of a disk.
func (d *imported) change(b *testing.B, raw, script string) {
	b.Helper()
	sh(b, `mkdir -p "$2/mnt"; mount -o "loop,offset=$3" "$1" "$2/mnt"; (set -- "$2/mnt"; `+script+`); umount "$2/mnt"`,
		raw, d.folder, strconv.Itoa(partition))
}

// changed are the bytes of the blocks in which a disk differs. What the file system calls
// free counts as zeros: a deleted file must not stay in the snapshot.
func (d *imported) changed(b *testing.B, child string) float64 {
	b.Helper()
	var sums [2][]snapshot.Sum
	for i, path := range []string{d.raw, child} {
		image, err := diskimage.Open(path)
		require.NoError(b, err)
		block := make([]byte, snapshot.BlockSize)
		for off := int64(0); off < image.SizeGiB()<<30; off += snapshot.BlockSize {
			_, err := image.ReadAt(block, off)
			require.NoError(b, err)
			image.Layout.ZeroFree(block, off)
			sums[i] = append(sums[i], sha256.Sum256(block))
		}
		require.NoError(b, image.Close())
	}
	changed := 0.0
	for i := range sums[0] {
		if sums[0][i] != sums[1][i] {
			changed += snapshot.BlockSize
		}
	}
	require.NotZero(b, changed)
	return changed
}

// way uploads a disk in a process of its own.
func (d *imported) way(b *testing.B, one job) way {
	env := func() []string {
		text, err := json.Marshal(one)
		require.NoError(b, err)
		return append(os.Environ(), uploads+"="+string(text), "AWS_ENDPOINT_URL="+d.server.URL, "AWS_REGION="+d.double.Region, "AWS_ACCESS_KEY_ID="+d.double.AccessKey,
			"AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null",
			"AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	}
	before := int64(0)
	withParent := one.Parent != ""
	return way{
		ready: func() {
			if d.server != nil {
				d.server.Close()
			}
			one.Folder = b.TempDir()
			d.double = aws.EBS(b, b.TempDir())
			d.double.Forget = true
			d.server = httptest.NewServer(d.double)
			if withParent {
				one.Parent = ""
				parent := one
				parent.Disk = d.raw
				text, err := json.Marshal(parent)
				require.NoError(b, err)
				measured(b, d.folder, append(env(), uploads+"="+string(text)), os.Args[0])
				one.Parent = d.double.IDs()[0]
			}
			before, d.double.Line = d.double.Count().Sent, d.line
		},
		run: func() figures { return measured(b, d.folder, env(), os.Args[0]) },
		check: func() figures {
			ids := d.double.IDs()
			require.Equal(b, ebsdirect.Completed, d.double.Find(ids[len(ids)-1]).State)
			return figures{"sent": float64(d.double.Count().Sent - before)}
		},
	}
}

// uploadDisk carries out a job.
func uploadDisk(ctx context.Context, text string) error {
	var one job
	if err := json.Unmarshal([]byte(text), &one); err != nil {
		return err
	}
	image, err := diskimage.Open(one.Disk)
	if err != nil {
		return err
	}
	defer image.Close()
	a, err := awsapi.Open(ctx, awsapi.Options{})
	if err != nil {
		return err
	}
	u := snapshot.Upload{Journal: filepath.Join(one.Folder, "journal")}
	s := snapshot.Source{Identity: one.Disk, Size: image.SizeGiB(), Check: image.Check}
	s.Read = func(index int32, into []byte) error {
		if _, err := image.ReadAt(into, int64(index)*diskimage.BlockSize); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	if one.Method == "eksnode" {
		if err := one.eksnode(image, &u, &s); err != nil {
			return err
		}
	} else if err := one.coldsnap(&u, &s); err != nil {
		return err
	}
	r, err := u.Run(ctx, a, s)
	if err != nil {
		return err
	}
	return r.Sums.Save(filepath.Join(one.Folder, r.Snapshot.ID), r.Snapshot.ID, "")
}

// eksnode chooses the blocks that the file system does not call free.
func (one job) eksnode(image *diskimage.Image, u *snapshot.Upload, s *snapshot.Source) (err error) {
	read := s.Read
	s.Read = func(index int32, into []byte) error {
		err := read(index, into)
		image.Layout.ZeroFree(into, int64(index)*diskimage.BlockSize)
		return err
	}
	for index := range image.Layout.Blocks() {
		s.Blocks = append(s.Blocks, int32(index))
	}
	if one.Parent != "" {
		u.Parent = one.Parent
		u.ParentSums, err = snapshot.LoadSums(filepath.Join(one.Folder, one.Parent), one.Parent)
	}
	return err
}

// coldsnap chooses all blocks, or those with other bytes than zero.
func (one job) coldsnap(u *snapshot.Upload, s *snapshot.Source) error {
	u.Connections = 64
	block, zeros := make([]byte, diskimage.BlockSize), strings.Repeat("\x00", diskimage.BlockSize)
	for index := range int32(s.Size << 30 / diskimage.BlockSize) {
		if one.Method == "nonzero" {
			if err := s.Read(index, block); err != nil {
				return err
			}
		}
		if one.Method == "all" || string(block) != zeros {
			s.Blocks = append(s.Blocks, index)
		}
	}
	return nil
}
