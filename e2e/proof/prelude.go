//go:build linux

package main

// prelude is the beginning of every script. Every resource gets the tag eksnode-proof.
// Roles and parameters are also found by their path, clusters and node groups by their name.
const prelude = `set -e
export AWS_REGION="$region"
name=eksnode-proof-$run
role=arn:aws:iam::$account:role/eksnode-proof/$name
tags() {
  comma=
  for kind in "$@"; do
    printf '%s{"ResourceType":"%s","Tags":[{"Key":"eksnode-proof","Value":"%s"}]}' "${comma:-[}" "$kind" "$run"
    comma=,
  done
  echo ']'
}
begun=$(date +%s)
later() {
  if [ $(($(date +%s) - begun)) -ge "$patience" ]; then
    echo "waited for $patience seconds in vain" >&2
    exit 1
  fi
  sleep "$pause"
}
`

// launching is what the steps share that look at a node in the cluster.
const launching = `endpoint=$(aws eks describe-cluster --name "$cluster" --query cluster.endpoint --output text)
authority=$(aws eks describe-cluster --name "$cluster" --query cluster.certificateAuthority.data --output text)
subnet=$(aws eks describe-cluster --name "$cluster" --query 'cluster.resourcesVpcConfig.subnetIds[0]' --output text)
case $(aws ec2 describe-images --image-ids "$ami" --query 'Images[0].Architecture' --output text) in
arm64) type=t4g.medium ;;
*) type=t3.medium ;;
esac
cat > "$dir/kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: proof
contexts: [{name: proof, context: {cluster: proof, user: proof}}]
clusters: [{name: proof, cluster: {server: "$endpoint", certificate-authority-data: $authority}}]
users:
  - name: proof
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: $eksnode
        args: [token, --cluster-name, $cluster, --region, $region]
        interactiveMode: Never
END
kube() { kubectl --kubeconfig "$dir/kubeconfig" --cache-dir "$dir/kube" "$@"; }
nodes() { kube get nodes -o 'jsonpath={range .items[*]}{.spec.providerID} {.metadata.name}{"\n"}{end}'; }
since() { echo $(($(date -d "$1" +%s) - asked)); }
template() {
  contract=$1
  shift
  eksnode manifests --cluster "$cluster" --role "$role" --ami "$ami" --instance-type "$type" --only launch-template "$@" \
    > "$dir/$contract.json"
  template=$(aws ec2 create-launch-template --launch-template-name "$name-$contract" \
    --launch-template-data "$(cat "$dir/$contract.json")" --tag-specifications "$(tags launch-template)" \
    --query LaunchTemplate.LaunchTemplateId --output text)
}
launched() {
  asked=$(date +%s)
  begun=$asked
  instance=$(aws ec2 run-instances --launch-template "LaunchTemplateId=$template" --count 1 --subnet-id "$subnet" \
    --tag-specifications "$(tags instance)" --query 'Instances[0].InstanceId' --output text)
  aws ec2 wait instance-running --instance-ids "$instance"
  evidence="seconds since RunInstances: running $(($(date +%s) - asked))"
  node=
  until [ "$node" ]; do
    later
    node=$(nodes | sed -n "s|.*/$instance ||p")
  done
  kube wait --for=condition=Ready "node/$node" --timeout=10m
  evidence="$evidence, registered $(since "$(kube get node "$node" -o 'jsonpath={.metadata.creationTimestamp}')")"
  at=$(kube get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}')
  evidence="$evidence, Ready $(since "$at")"
  pod "${1:-first}"
}
pod() {
  kube wait --for=condition=Ready "node/$node" --timeout=10m
  kube run "$name-$1" --image=public.ecr.aws/docker/library/busybox:stable --restart=Never \
    --overrides='{"spec":{"nodeName":"'"$node"'"}}' --command -- sh -c 'echo started; sleep 3600'
  kube wait --for=condition=Ready "pod/$name-$1" --timeout=5m
  test "$(kube logs "$name-$1")" = started
  test "$(kube exec "$name-$1" -- echo executed)" = executed
  if [ "$family" = ipv6 ]; then kube get pod "$name-$1" -o 'jsonpath={.status.podIP}' | grep :; fi
  kube delete pod "$name-$1" --wait=false
}
`
