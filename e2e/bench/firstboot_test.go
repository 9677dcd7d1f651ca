//go:build e2e

package bench

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

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
const programs = `#!/bin/sh
case ${0##*/} in
kubelet) echo Kubernetes v1.34.4 ;;
containerd) echo github.com/containerd/containerd v2.1.4 ;;
ctr) for last; do :; done; echo "${last#name==}" ;;
aws) echo ip-10-0-1-2.eu-west-1.compute.internal ;;
systemctl)
	[ "$1" != start ] || : >"/run/started-$2"
	case " $* " in *" show "*) ;; *) exit 0 ;; esac
	for unit; do
		case $unit in *.service) ;; *) continue ;; esac
		state=inactive
		[ ! -e "/run/started-$unit" ] || state=active
		printf 'Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=disabled\nNeedDaemonReload=no\n\n' "$unit" $state
	done ;;
esac
`

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
	program, node, work := agent(b), newNodeRoot(b), b.TempDir()

	ours, theirs := race(b, 3, "bootstrap.sh", 0.10,
		way{func() {
			node.prepare(b, program)
		}, func() figures {
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
	program, node := agent(b), newNodeRoot(b)
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
