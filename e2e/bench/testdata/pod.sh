# The state of one pod in the root $1: about 100 files.
cd "$1"
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
put var/lib/cni/results/0
