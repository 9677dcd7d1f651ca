#!/usr/bin/env bash
# Starts the programs that Amazon Linux 2's bootstrap.sh starts for a call with an
# endpoint and a certificate authority, in the same order. Every metadata value
# costs a token and a request, every setting an editor.
set -o pipefail -o nounset -o errexit
imds() {
  local token
  token=$(curl -s -f -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 600' "$url/latest/api/token")
  curl -s -f -H "X-aws-ec2-metadata-token: $token" "$url/latest/$1"
}
edit() { # changes the kubelet's configuration with a jq filter, like bootstrap.sh
  local text
  text=$(jq "$1" kubelet-config.json)
  echo "$text" > kubelet-config.json
}
url=$1

version=$(kubelet --version | grep -Eo '[0-9]\.[0-9]+\.[0-9]+')
for _ in 1 2 3 4 5 6; do # vercmp
  printf '%s\n' "$version" 1.27.0 | sort --version-sort | head -n 1 > /dev/null
done
region=$(imds dynamic/instance-identity/document | jq .region -r)
domain=$(imds meta-data/services/domain)
uname -m > /dev/null
cp containerd-config.toml copied-unit
chown root:root copied-unit
systemctl daemon-reload
systemctl enable --now configure-clocksource
registry=$(bash -c 'echo "602401143452.dkr.ecr.$1.$2"' sh "$region" "$domain")
mkdir -p pki
echo Y2E= | base64 -d > pki/ca.crt
sed -i s,MASTER_ENDPOINT,https://a.example,g kubeconfig
sed -i s,AWS_REGION,"$region",g kubeconfig
sed -i s,CLUSTER_NAME,my-cluster,g kubeconfig
mac=$(imds meta-data/mac)
ten=$(imds "meta-data/network/interfaces/macs/$mac/vpc-ipv4-cidr-blocks" | grep -c '^10\..*' || true)
dns=10.100.0.10
[ "$ten" = 0 ] || dns=172.20.0.10
edit ".clusterDNS=[\"$dns\"]"
address=$(imds meta-data/local-ipv4)
type=$(imds meta-data/instance-type)
pods=$(printf '%s 29\n' "$type" | cat | awk "/^$type/"' { print $2 }')
cpus=$(nproc)
for _ in 1 2 3 4; do : "$(printf %s $((cpus * 10)))"; done
edit '. += {"evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}}'
edit ". += {kubeReserved: {\"cpu\": \"70m\", \"ephemeral-storage\": \"1Gi\", \"memory\": \"$((11 * pods + 255))Mi\"}}"
edit ".maxPods=$pods"
zone=$(imds dynamic/instance-identity/document | jq .availabilityZone -r)
id=$(imds dynamic/instance-identity/document | jq .instanceId -r)
edit ".providerID=\"aws:///$zone/$id\""
name=$(aws ec2 describe-instances)
mkdir -p etc/containerd etc/containerd/config.d etc/cni/net.d
sed -i s,SANDBOX_IMAGE,"$registry/eks/pause:3.5",g containerd-config.toml
edit '.cgroupDriver="systemd"'
edit '.systemReservedCgroup="/system"'
edit '.kubeReservedCgroup="/runtime"'
cmp -s containerd-config.toml etc/containerd/config.toml || cp -v containerd-config.toml etc/containerd/config.toml > /dev/null
cp copied-unit etc/sandbox-image.service
chown root:root etc/sandbox-image.service
systemctl daemon-reload
systemctl enable containerd sandbox-image
systemctl restart sandbox-image containerd
cp copied-unit etc/kubelet.service
chown root:root etc/kubelet.service
containerd config dump > /dev/null
mkdir -p kubelet.service.d
cat << EOF > kubelet.service.d/10-kubelet-args.conf
[Service]
Environment='KUBELET_ARGS=--node-ip=$address --hostname-override=$name --cloud-provider=external --v=2'
EOF
systemctl daemon-reload
systemctl enable kubelet
systemctl start-kubelet
