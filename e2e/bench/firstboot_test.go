//go:build e2e

package bench

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
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
	program, folder := agent(b), b.TempDir()
	root, work, bin := filepath.Join(folder, "root"), filepath.Join(folder, "work"), filepath.Join(folder, "bin")
	m := manifest.Manifest{Assets: []manifest.Asset{
		{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{{Path: "/usr/bin/kubelet", Size: int64(len(programs))}}},
		{ID: "containerd", Version: "2.1.4", Files: []manifest.File{{Path: "/usr/bin/containerd", Size: int64(len(programs))}}},
	}}
	image, err := m.Encode()
	require.NoError(b, err)
	write(b, filepath.Join(bin, "systemctl"), []byte(programs))
	sh(b, `cd "$1"; for name in kubelet containerd ctr aws; do ln -s systemctl $name; done`, bin)

	ours, theirs := race(b, 3, "bootstrap.sh", 0.10,
		way{func() {
			write(b, filepath.Join(root, manifest.Path), image)
			// The shell for the programs, and what the kernel gives every machine.
			sh(b, `cd "$1"; mkdir -p dev proc run/systemd/system tmp usr/bin; : >dev/null; echo 127.0.0.1 localhost >etc/hosts
cp -a "$2/." usr/bin; cp "$3" usr/bin/eksnode
cp -L --parents $(ldd /bin/sh | grep -o '/[^ ]*') .; mkdir -p bin; cp /bin/sh bin
mount --rbind /proc proc; mount --bind /dev/null dev/null`, root, bin, program)
		}, func() figures {
			return measured(b, root, []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + service.URL}, "chroot", root, "/usr/bin/eksnode", "init")
		}, func() figures {
			sh(b, `cd "$1"; ls etc/kubernetes/kubelet/config.json var/lib/kubelet/kubeconfig etc/eks/kubelet/environment etc/containerd/config.toml \
run/started-containerd.service run/started-kubelet.service; umount -R -l proc dev/null; rm -r --one-file-system "$1"`, root)
			return nil
		}},
		way{func() {
			require.NoError(b, os.RemoveAll(work))
			for _, t := range templates.All() {
				write(b, filepath.Join(work, filepath.Base(t.Path)), t.Content)
			}
			write(b, filepath.Join(work, "bootstrap.sh"), bootstrap)
		}, func() figures {
			return measured(b, work, []string{"PATH=" + bin + ":/usr/bin:/usr/sbin:/bin:/sbin"}, "bash", "bootstrap.sh", service.URL)
		}, noFigures})
	goal(b, "CPU-x-of-bootstrap.sh", ours["CPU-s"]/theirs["CPU-s"], 0.10)
	goal(b, "CPU-s", ours["CPU-s"], 0.150)
}
