//go:build e2e

package bench

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// BenchmarkScrub removes the state of pods: with a scrub of their rules (start,
// plan, removal and verification), and with rm of the same paths. Both start
// with the same file system in memory, and with its inodes in the cache.
func BenchmarkScrub(b *testing.B) {
	install(b, "e2fsprogs", "xfsprogs")
	program := lab.Agent(b)
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
// removed entry. A file needs two, because the report says its bytes, and a directory
// needs four.
func BenchmarkScrubCalls(b *testing.B) {
	install(b, "e2fsprogs", "strace")
	program := lab.Agent(b)
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
		goal(b, "calls/entry", count(d.scrub(program)...), 2.75)
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
	kernels := testkit.Glob(b, filepath.Join(system, "lib/modules/*"))
	require.Len(b, kernels, 1)
	version := filepath.Base(kernels[0])
	// supermin lists this folder even when another folder is set.
	require.NoError(b, os.MkdirAll("/lib/modules", 0o755))
	program := lab.Agent(b)
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

//go:embed testdata/pod.sh
var podScript string

// fill writes the state of pods with the given number of files, and keeps the
// disk as the master copy for ready. A pod leaves about 100 files: the
// kubelet's files, a service account's token, a ConfigMap, an emptyDir for
// scratch space, logs, and a network lease. fill returns the rm command for all
// of them.
func (d disk) fill(b *testing.B, files int) []string {
	b.Helper()
	sh(b, podScript, d.point)
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
		names := testkit.Glob(b, filepath.Join(d.point, pattern))
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

//go:embed bootstrap.sh
var bootstrap []byte

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: my-cluster, apiServerEndpoint: "https://a.example", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet: {config: {maxPods: 29}, flags: ["--node-labels=a=b"]}
`

// programs are instant doubles of the machine's programs. They keep other times
// out of the comparison, such as the seconds that the real AWS CLI needs to
// start.
//
//go:embed testdata/programs.sh
var programs string

// nodeRoot is the root of a node with doubles of its programs and one program for
// first boot.
type nodeRoot struct{ folder, doubles string }

func newNodeRoot(b *testing.B) nodeRoot {
	b.Helper()
	folder := b.TempDir()
	r := nodeRoot{filepath.Join(folder, "root"), filepath.Join(folder, "bin")}
	// Before the folder's own cleanup, which would remove the host's /sys below it.
	b.Cleanup(func() { sh(b, `[ ! -d "$1" ] || umount -l "$1/proc" "$1/sys" "$1/dev/null"`, r.folder) })
	write(b, filepath.Join(r.doubles, "systemctl"), []byte(programs))
	sh(b, `cd "$1"; for name in kubelet containerd ctr aws; do ln -s systemctl $name; done`, r.doubles)
	return r
}

// prepare makes the root anew, with the shell for the doubles and what the kernel
// gives every machine.
func (r nodeRoot) prepare(b *testing.B, program string) {
	b.Helper()
	m := manifest.Manifest{Assets: []manifest.Asset{
		{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{{Path: "/usr/bin/kubelet", Size: int64(len(programs))}}},
		{ID: "containerd", Version: "2.1.4", Files: []manifest.File{{Path: "/usr/bin/containerd", Size: int64(len(programs))}}},
	}}
	image, err := m.Encode()
	require.NoError(b, err)
	write(b, filepath.Join(r.folder, manifest.Path), image)
	write(b, filepath.Join(r.folder, "etc/eks/image-credential-provider/ecr-credential-provider"), nil)
	sh(b, `cd "$1"; mkdir -p dev proc sys run/systemd/system tmp usr/bin; : >dev/null; echo 127.0.0.1 localhost >etc/hosts
cp -a "$2/." usr/bin; ln "$3" usr/bin
cp -L --parents $(ldd /bin/sh | grep -o '/[^ ]*') .; mkdir -p bin; cp /bin/sh bin
mount --bind /proc proc; mount --bind -o ro /sys sys; mount --bind /dev/null dev/null`, r.folder, r.doubles, program)
}

// configured fails unless the files are there that first boot writes, and more files.
// It removes the root.
func (r nodeRoot) configured(b *testing.B, more ...string) figures {
	b.Helper()
	sh(b, `cd "$1"; root=$1; shift
ls etc/kubernetes/kubelet/config.json var/lib/kubelet/kubeconfig etc/eks/kubelet/environment etc/containerd/config.toml "$@"
umount -l proc sys dev/null; rm -r --one-file-system "$root"`, append([]string{r.folder}, more...)...)
	return nil
}

func (r nodeRoot) run(b *testing.B, environment []string, command ...string) figures {
	b.Helper()
	environment = append(environment, "PATH=/usr/bin:/usr/sbin:/bin:/sbin")
	return measured(b, r.folder, environment, append([]string{"chroot", r.folder}, command...)...)
}

// BenchmarkFirstBoot measures the time from user data to the start of the
// kubelet: with eksnode init in a fresh root, and with the programs that Amazon
// Linux 2's bootstrap.sh starts. Both use the same metadata service.
func BenchmarkFirstBoot(b *testing.B) {
	install(b, "bash", "jq")
	ownMounts(b)
	instance := imdstest.Typical()
	instance.UserData = []byte(nodeConfig)
	service := imdstest.Serve(instance)
	b.Cleanup(service.Close)
	program, node, work := lab.Agent(b), newNodeRoot(b), b.TempDir()

	ours, theirs := race(b, 3, "bootstrap.sh", 0.10,
		way{func() { node.prepare(b, program) }, func() figures {
			return node.run(b, []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + service.URL}, "/usr/bin/eksnode", "init")
		}, func() figures {
			return node.configured(b, "run/started-containerd.service", "run/started-kubelet.service")
		}},
		way{func() {
			require.NoError(b, os.RemoveAll(work))
			for _, t := range templates.All() {
				write(b, filepath.Join(work, filepath.Base(t.Path)), t.Content)
			}
			write(b, filepath.Join(work, "bootstrap.sh"), bootstrap)
		}, func() figures {
			return measured(b, work, []string{"PATH=" + node.doubles + ":/usr/bin:/usr/sbin:/bin:/sbin"}, "bash", "bootstrap.sh", service.URL)
		}, noFigures})
	goal(b, "CPU-x-of-bootstrap.sh", ours["CPU-s"]/theirs["CPU-s"], 0.10)
	goal(b, "CPU-s", ours["CPU-s"], 0.150)
}

// BenchmarkConfigPhase measures the configuration phase of first boot, with eksnode
// and with Amazon's nodeadm. NODEADM_SOURCE is the folder nodeadm/ of a copy of
// github.com/awslabs/amazon-eks-ami, without its folder vendor/.
func BenchmarkConfigPhase(b *testing.B) {
	source := os.Getenv("NODEADM_SOURCE")
	if source == "" {
		b.Log("not measured: NODEADM_SOURCE names no folder with the source of Amazon's nodeadm")
		return
	}
	install(b, "dbus")
	ownMounts(b)
	instance := imdstest.Typical()
	instance.UserData = []byte(nodeConfig)
	metadata := imdstest.Serve(instance)
	b.Cleanup(metadata.Close)
	// nodeadm requests its private DNS name from EC2 at every boot, and connects to
	// D-Bus even if no service starts.
	ec2 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><privateDnsName>%s</privateDnsName>"+
			"</item></instancesSet></item></reservationSet></DescribeInstancesResponse>", instance.Entries()["meta-data/local-hostname"])
	}))
	b.Cleanup(ec2.Close)
	bus := strings.Fields(sh(b, `dbus-daemon --session --fork --address=unix:abstract="$1" --print-address=1 --print-pid=1`, b.TempDir()))
	b.Cleanup(func() { sh(b, `kill "$1"`, bus[1]) })
	nodeadm := filepath.Join(b.TempDir(), "nodeadm")
	sh(b, `cd "$1"; CGO_ENABLED=0 go build -mod=mod -o "$2" ./cmd/nodeadm`, source, nodeadm)
	environment := []string{
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata.URL, "AWS_ENDPOINT_URL=" + ec2.URL, "DBUS_SYSTEM_BUS_ADDRESS=" + bus[0],
		"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=a", "AWS_REGION=eu-west-1", "HOME=/root", "USER=root",
	}
	program, node := lab.Agent(b), newNodeRoot(b)
	phase := func(name string) way {
		return way{
			func() { node.prepare(b, name) },
			func() figures {
				return node.run(b, environment, "/usr/bin/"+filepath.Base(name), "init", "--skip", "run")
			},
			func() figures { return node.configured(b) },
		}
	}
	ours, theirs := race(b, 10, "nodeadm", 0.8, phase(program), phase(nodeadm))
	goal(b, "CPU-x-of-nodeadm", ours["CPU-s"]/theirs["CPU-s"], 0.8)
	goal(b, "MiB-x-of-nodeadm", ours["MiB"]/theirs["MiB"], 0.8)
	b.ReportMetric(ours["MiB"], "MiB")
}
