//go:build e2e

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// BenchmarkScrub removes the state of pods: with a scrub of their rules (start,
// plan, removal and verification), and with rm of the same paths. Both start
// with the same file system in memory, and with its inodes in the cache.
func BenchmarkScrub(b *testing.B) {
	install(b, "e2fsprogs", "xfsprogs")
	program := agent(b)
	for _, c := range []struct {
		kind         string
		files, times int
		most         float64
	}{
		{"ext4", 1_000, 5, 1.2}, // sizes at which a process's start matters
		{"ext4", 100_000, 1, 0.75},
		{"xfs", 1_000, 5, 1.2},
		{"xfs", 100_000, 1, 1.1},
	} {
		b.Run(fmt.Sprintf("%s/%d", c.kind, c.files), func(b *testing.B) {
			d := newDisk(b, c.kind, c.files)
			rm := d.fill(b, c.files)
			ours, _ := race(b, c.times, "rm", c.most,
				way{d.ready(b), func() figures { return measured(b, d.point, nil, d.scrub(program)...) }, d.check(b)},
				way{d.ready(b), func() figures { return measured(b, d.point, nil, rm...) }, d.check(b)})
			goal(b, "MiB", ours["MiB"], 64)
		})
	}
}

// BenchmarkScrubCalls counts the system calls on files and descriptors for each
// removed entry.
func BenchmarkScrubCalls(b *testing.B) {
	install(b, "e2fsprogs", "strace")
	program := agent(b)
	d := newDisk(b, "ext4", 10_000)
	rm := d.fill(b, 10_000)
	count := func(args ...string) float64 {
		d.ready(b)()
		entries := strings.Count(sh(b, `cd "$1"; find `+strings.Join(rm[3:], " "), d.point), "\n") + 1
		total := sh(b, `cd "$1"; shift; strace -f -c -U calls,name -e trace=%file,%desc -o ../calls "$@" >../said 2>&1; tail -n 1 ../calls`, append([]string{d.point}, args...)...)
		d.check(b)()
		calls, err := strconv.Atoi(strings.TrimSuffix(total, " total"))
		require.NoError(b, err)
		return float64(calls) / float64(entries)
	}
	for b.Loop() {
		goal(b, "calls/entry", count(d.scrub(program)...), 2.0)
		b.ReportMetric(count(rm...), "calls/entry-of-rm")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkScrubDisk cleans a disk with a whole system and the state of pods:
// with a scrub and its audit, and with virt-sysprep, which boots an appliance.
// The appliance is emulated where virtual machines cannot run natively.
func BenchmarkScrubDisk(b *testing.B) {
	install(b, "e2fsprogs", "guestfs-tools", "qemu-system-x86", "qemu-utils")
	system, err := base.Debian{}.Prepare(b.Context(), os.Stderr)
	require.NoError(b, err)
	kernels, err := filepath.Glob(filepath.Join(system, "lib/modules/*"))
	require.NoError(b, err)
	require.Len(b, kernels, 1)
	version := filepath.Base(kernels[0])
	// supermin lists this folder even when another folder is set.
	require.NoError(b, os.MkdirAll("/lib/modules", 0o755))
	program := agent(b)
	d := newDisk(b, "ext4", 200_000)
	sh(b, `cp -a "$1/." "$2"`, system, d.point)
	d.fill(b, 10_000)
	ready := func() { sh(b, `cp --sparse=always "$1.master" "$1"`, d.file) }
	const scrub = `mount -o loop "$2" "$3"
"$1" scrub --yes --audit off --root "$3"
"$1" audit --skip-rules assets --root "$3"
umount "$3"`
	race(b, 1, "virt-sysprep", 0.05,
		way{ready, func() figures {
			sh(b, scrub, program, d.file, d.point)
			return nil
		}, noFigures},
		way{ready, func() figures {
			sh(b, `LIBGUESTFS_BACKEND=direct LIBGUESTFS_BACKEND_SETTINGS=force_tcg LIBGUESTFS_CACHEDIR=$2 SUPERMIN_KERNEL=$3/boot/vmlinuz-$4 \
SUPERMIN_KERNEL_VERSION=$4 SUPERMIN_MODULES=$3/lib/modules/$4 virt-sysprep --format raw -a "$1"`, d.file, filepath.Dir(d.file), system, version)
			return nil
		}, noFigures})
}

// disk is a file system in a file in memory, and its mount point.
type disk struct{ file, point string }

// newDisk makes and mounts a file system with room for the given number of
// files.
func newDisk(b *testing.B, kind string, files int) disk {
	b.Helper()
	ownMounts(b)
	folder, err := os.MkdirTemp("/dev/shm", "eksnode-bench-")
	require.NoError(b, err)
	d := disk{filepath.Join(folder, "disk"), filepath.Join(folder, "root")}
	b.Cleanup(func() {
		sh(b, `if mountpoint -q "$1"; then umount "$1"; fi`, d.point)
		require.NoError(b, os.RemoveAll(folder))
	})
	mib := 384 + files*7/1000 // a block and an inode for each file, folders, the journal
	make := fmt.Sprintf(`mke2fs -q -F -t ext4 -N %d "$1"`, files*2+10_000)
	if kind == "xfs" {
		make = `mkfs.xfs -q -f "$1"`
	}
	sh(b, fmt.Sprintf(`truncate -s %dM "$1"; %s; mkdir "$2"; mount -o loop "$1" "$2"`, mib, make), d.file, d.point)
	return d
}

// fill writes the state of pods with the given number of files, and keeps the
// disk as the master copy for ready. A pod leaves about 100 files: the
// kubelet's files, a service account's token, a ConfigMap, an emptyDir for
// scratch space, logs, and a network lease. fill returns the rm command for all
// of them.
func (d disk) fill(b *testing.B, files int) []string {
	b.Helper()
	sh(b, `cd "$1"
mkdir -p etc var/lib/kubelet/pods var/log/pods var/lib/cni/results
[ -e etc/os-release ] || printf 'ID=debian\nVERSION_ID="12"\n' >etc/os-release
[ -e etc/passwd ] || echo root:x:0:0:root:/root:/bin/bash >etc/passwd
put() { mkdir -p "${1%/*}"; echo state of the old cluster >"$1"; }
pod=var/lib/kubelet/pods/0
volumes=$pod/volumes/kubernetes.io~
for f in etc-hosts containers/app/5f3c1d2a containers/sidecar/0a9b8c7d plugins/kubernetes.io~empty-dir/wrapped_token/ready; do put $pod/$f; done
for f in token ca.crt namespace; do put ${volumes}projected/token/..2024/$f; ln -s ..data/$f ${volumes}projected/token/$f; done
for f in a.yaml b.yaml; do put ${volumes}configmap/config/..2024/$f; done
for v in projected/token configmap/config; do ln -s ..2024 $volumes$v/..data; done
for f in $(seq -w 80); do put ${volumes}empty-dir/scratch/${f%?}/part-$f.tmp; done
for f in app/0.log app/1.log sidecar/0.log; do put var/log/pods/0/$f; done
put var/lib/cni/results/0`, d.point)
	for pod := 1; pod < files/100; pod++ {
		for _, folder := range []string{"var/lib/kubelet/pods/", "var/log/pods/"} {
			from := filepath.Join(d.point, folder, "0")
			require.NoError(b, os.CopyFS(filepath.Join(d.point, folder, strconv.Itoa(pod)), os.DirFS(from)))
		}
		require.NoError(b, os.WriteFile(filepath.Join(d.point, "var/lib/cni/results", strconv.Itoa(pod)), []byte("state\n"), 0o600))
	}
	rm := append([]string{"rm", "-rf", "--"}, d.targets(b)...)
	sh(b, `umount "$2"; mv "$1" "$1.master"`, d.file, d.point)
	return rm
}

// ready mounts a new copy and reads its inodes. It uses a new file, because
// mount would reuse the loop device of an old file with its cached state. It
// flushes other programs' writes first, because a scrub ends with sync(2).
func (d disk) ready(b *testing.B) func() {
	return func() {
		sh(b, `if mountpoint -q "$2"; then umount "$2"; fi; rm -f "$1"; cp --sparse=always "$1.master" "$1"
mount -o loop "$1" "$2"; find "$2" -printf %s >/dev/null; sync`, d.file, d.point)
	}
}

func (d disk) check(b *testing.B) func() figures {
	return func() figures {
		require.Empty(b, d.targets(b))
		return nil
	}
}

// targets are the paths to remove, relative to the root so that all fit on a
// command line.
func (d disk) targets(b *testing.B) (all []string) {
	b.Helper()
	for _, pattern := range []string{"var/lib/kubelet/pods/*", "var/log/pods/*", "var/lib/cni/*"} {
		names, err := filepath.Glob(filepath.Join(d.point, pattern))
		require.NoError(b, err)
		for _, name := range names {
			all = append(all, strings.TrimPrefix(name, d.point+"/"))
		}
	}
	return all
}

func (d disk) scrub(program string) []string {
	return []string{program, "scrub", "--yes", "--audit", "off", "--root", d.point,
		"--rules", "kubelet-pods", "--rules", "pod-logs", "--rules", "cni-state"}
}
