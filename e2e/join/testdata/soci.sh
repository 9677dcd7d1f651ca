#!/bin/sh
# Arguments: the pause image, the version of Kubernetes, the mirror.
mkdir -p /run/p/DEBIAN /run/p/usr/bin /etc/systemd/system/eksnode-.service.d
mv /run/soci-snapshotter-grpc /run/p/usr/bin/
printf 'Package: soci-snapshotter\nVersion: 1\nArchitecture: all\nMaintainer: lab\nDescription: SOCI\n' > /run/p/DEBIAN/control
dpkg-deb --build /run/p /run/p.deb > /dev/null
dpkg --install /run/p.deb
echo 0-3 > /etc/processors
printf '[Service]\nBindReadOnlyPaths=/etc/processors:/sys/devices/system/cpu/online\n' > /etc/systemd/system/eksnode-.service.d/lab.conf
systemctl start containerd
ctr --namespace k8s.io images tag "$1" localhost/kubernetes/pause:latest
ctr --namespace k8s.io images export /etc/eks/pause.tar localhost/kubernetes/pause:latest
eksnode provision --soci --kubernetes-version "$2" --source-url "$3" --allow-http
