//go:build linux

package main

// step is a row of the report. Its script is what runs, and what a person runs by hand.
type step struct {
	Name, Does string
	Needs      []string
	// Minutes, Hourly and Once are the estimate: Hourly is paid from the step's start until
	// the end of the run, Once is paid once. Both are in US dollars.
	Minutes      int
	Hourly, Once float64
	// Actions are the permissions that the script's commands need in addition to those of
	// their own names and of `eksnode … --policy`.
	Actions []string
	// Asks is a variable of make that the step needs: without a value, the step is left out.
	Asks string
	// Template is a folder with a template of Packer, from -repository. Its policy.json has
	// the permissions that Packer needs.
	Template string
	// IPv6 is what the step does for IPV6=1, and IPv6Actions are further permissions for that.
	IPv6        string
	IPv6Actions []string
	Script      string
}

// steps is the table of the proof, in its order. A cluster that exists replaces the steps
// network and cluster.
var steps = []step{
	{
		Name: "network", Does: "a VPC with two public subnets", IPv6: "IPv6 networks for both", Minutes: 1,
		Actions: []string{"ec2:CreateTags"},
		Script: `if [ "$family" = ipv6 ]; then provided=--amazon-provided-ipv6-cidr-block; else provided=; fi
vpc=$(aws ec2 create-vpc --cidr-block 10.97.0.0/16 $provided --tag-specifications "$(tags vpc)" \
  --query Vpc.VpcId --output text)
aws ec2 modify-vpc-attribute --vpc-id "$vpc" --enable-dns-hostnames
gateway=$(aws ec2 create-internet-gateway --tag-specifications "$(tags internet-gateway)" --query InternetGateway.InternetGatewayId --output text)
aws ec2 attach-internet-gateway --internet-gateway-id "$gateway" --vpc-id "$vpc"
table=$(aws ec2 describe-route-tables --filters "Name=vpc-id,Values=$vpc" --query 'RouteTables[0].RouteTableId' --output text)
aws ec2 create-route --route-table-id "$table" --destination-cidr-block 0.0.0.0/0 --gateway-id "$gateway"
zones=$(aws ec2 describe-availability-zones --filters Name=zone-type,Values=availability-zone --query 'AvailabilityZones[:2].ZoneName' --output text)
block=
if [ "$provided" ]; then
  aws ec2 create-route --route-table-id "$table" --destination-ipv6-cidr-block ::/0 --gateway-id "$gateway"
  until [ "$block" ]; do
    later
    block=$(aws ec2 describe-vpcs --vpc-ids "$vpc" --output text \
      --query "Vpcs[].Ipv6CidrBlockAssociationSet[] | [?Ipv6CidrBlockState.State=='associated'].Ipv6CidrBlock")
  done
  case $block in *:*:*:*::/56) block=${block%00::/56} ;; *) block=${block%:/56} ;; esac
fi
subnets=
for zone in $zones; do
  n=$(echo "$subnets" | wc -w)
  if [ "$block" ]; then provided="--ipv6-cidr-block ${block}0$n::/64"; fi
  subnet=$(aws ec2 create-subnet --vpc-id "$vpc" --availability-zone "$zone" --cidr-block "10.97.$n.0/24" $provided \
    --tag-specifications "$(tags subnet)" --query Subnet.SubnetId --output text)
  aws ec2 modify-subnet-attribute --subnet-id "$subnet" --map-public-ip-on-launch
  if [ "$block" ]; then aws ec2 modify-subnet-attribute --subnet-id "$subnet" --assign-ipv6-address-on-creation; fi
  subnets="$subnets $subnet"
done
`,
	},
	{
		Name: "cluster", Does: "an EKS control plane with its role", IPv6: "an IPv6 cluster",
		Needs: []string{"network"}, Minutes: 12, Hourly: 0.10,
		Actions: []string{"eks:TagResource", "iam:CreateServiceLinkedRole", "iam:PassRole", "iam:TagRole"},
		Script: `trust='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}'
aws iam create-role --role-name "$name-cluster" --path /eksnode-proof/ --assume-role-policy-document "$trust" --tags "Key=eksnode-proof,Value=$run"
aws iam attach-role-policy --role-name "$name-cluster" --policy-arn arn:aws:iam::aws:policy/AmazonEKSClusterPolicy
aws iam wait role-exists --role-name "$name-cluster"
sleep "$settle"
aws eks create-cluster --name "$name" --role-arn "arn:aws:iam::$account:role/eksnode-proof/$name-cluster" \
  --kubernetes-version "${kubernetes%.*}" --access-config authenticationMode=API \
  --kubernetes-network-config "ipFamily=$family" \
  --resources-vpc-config "subnetIds=$(echo $subnets | tr ' ' ,)" --tags "eksnode-proof=$run"
aws eks wait cluster-active --name "$name"
cluster=$name
`,
	},
	{
		Name: "role", Does: "the nodes' role, its policies and its access entry, by eksnode manifests",
		IPv6:  "with a policy of this run for the VPC CNI, as AWS has none for IPv6",
		Needs: []string{"cluster"}, Minutes: 1, IPv6Actions: []string{"iam:CreatePolicy"},
		Script: `for manifest in role policies access-entry; do
  eksnode manifests --cluster "$cluster" --role "$role" --cni-permissions node --only "$manifest" > "$dir/$manifest.sh"
  # The account's own policy of that name stays as it is. A new one is found by path and name.
  if grep -q '^aws iam create-policy-version ' "$dir/$manifest.sh"; then
    echo "the account's AmazonEKS_CNI_IPv6_Policy lacks permissions: see $dir/$manifest.sh" >&2
    exit 1
  elif grep -q '^aws iam create-policy ' "$dir/$manifest.sh"; then
    sed -i "s|policy/AmazonEKS_CNI_IPv6_Policy|policy/eksnode-proof/$name|
s|--policy-name AmazonEKS_CNI_IPv6_Policy|--policy-name $name --path /eksnode-proof/|" "$dir/$manifest.sh"
  fi
  sh "$dir/$manifest.sh"
done
sleep "$settle"
`,
		Actions: []string{
			"eks:CreateAccessEntry", "iam:AddRoleToInstanceProfile", "iam:AttachRolePolicy", "iam:CreateInstanceProfile", "iam:CreateRole",
			"iam:GetInstanceProfile", "iam:GetRole", "iam:PassRole",
		},
	},
	{
		Name: "disk", Does: "a node disk built offline from a cloud image", Minutes: 10,
		Script: `if [ ! -e "$disk" ]; then
  disk=$dir/node.raw
  eksnode build --base "$base" --kubernetes-version "$kubernetes" --disk-size 8 --image "$disk" --force
fi
`,
	},
	{
		Name: "import", Does: "an AMI of the disk, and its copy in a second region", Needs: []string{"disk"}, Minutes: 15, Once: 0.05,
		Actions: []string{"ec2:DescribeImages"},
		Script: `eksnode ami import "$disk" --ami-name "$name" --ami-regions "$other" --tags "eksnode-proof=$run" \
  --cache-folder "$dir/cache" $skip
ami=$(aws ec2 describe-images --owners self --filters "Name=name,Values=$name" --query 'Images[0].ImageId' --output text)
`,
	},
	{
		Name: "bases", Minutes: 35, Once: 0.05,
		Does: "AMIs of Amazon Linux 2023 and Arch Linux, built offline, and an audit of each",
		Script: `for system in amazonlinux2023 arch; do
  eksnode build --base "$system" --kubernetes-version "$kubernetes" --disk-size 8 --image "$dir/$system.raw" --force
  eksnode ami import "$dir/$system.raw" --ami-name "$name-offline-$system" --tags "eksnode-proof=$run" \
    --cache-folder "$dir/cache" $skip
  rm "$dir/$system.raw"
  image=$(aws ec2 describe-images --owners self --filters "Name=name,Values=$name-offline-$system" \
    --query 'Images[0].ImageId' --output text)
  eksnode audit --ami "$image" $skip
done
`,
	},
	{
		Name: "packer", Needs: []string{"network"}, Minutes: 40, Once: 0.30, Asks: "packer", Template: "examples/amazon-ebs",
		Does: "AMIs of Debian, also for Graviton, Amazon Linux 2023 and Arch Linux by packer build with " +
			"amazon-ebs, and an audit of each",
		Script: `export PACKER_PLUGIN_PATH="$dir/plugins"
"$packer" plugins install --path "${eksnode%/*}/packer-plugin-eksnode" github.com/eksnode/eksnode
if ! "$packer" plugins installed | grep -q packer-plugin-amazon; then
  "$packer" plugins install github.com/hashicorp/amazon
fi
set -- $subnets
"$packer" build \
  -only 'amazon-ebs.debian13-x86_64-*,amazon-ebs.debian13-arm64-*,amazon-ebs.al2023-x86_64-*,amazon-ebs.arch-x86_64-*' \
  -var "region=$region" -var "subnet_id=$1" -var "name=$name-packer" -var "kubernetes_versions=[\"$kubernetes\"]" \
  -var "tags={\"eksnode-proof\"=\"$run\"}" -var "reports=$dir/reports" "$repository/examples/amazon-ebs"
for image in $(aws ec2 describe-images --owners self --filters "Name=name,Values=$name-packer-*" \
  --query 'Images[].ImageId' --output text); do
  eksnode audit --ami "$image" $skip
done
`,
	},
	{
		Name: "parent", Does: "a second AMI with the first one as its parent, and an encrypted one", Needs: []string{"import"}, Minutes: 8, Once: 0.03,
		Script: `eksnode ami import "$disk" --ami-name "$name-child" --parent-ami "$ami" --tags "eksnode-proof=$run" \
  --cache-folder "$dir/cache" $skip
eksnode ami import "$disk" --ami-name "$name-encrypted" --encrypt-boot --tags "eksnode-proof=$run" \
  --cache-folder "$dir/cache" $skip
`,
	},
	{
		Name: "audit", Does: "an audit of the AMI without an instance", Needs: []string{"import"}, Minutes: 5, Once: 0.01,
		Script: `eksnode audit --ami "$ami" $skip
`,
	},
	{
		Name: "attest", Does: "a signed statement, and its verification", Needs: []string{"import"}, Minutes: 6, Once: 0.02,
		Script: `openssl genpkey -algorithm ed25519 -out "$dir/key.pem"
openssl pkey -in "$dir/key.pem" -pubout -out "$dir/key.pub"
eksnode ami attest "$ami" --key "$dir/key.pem" --statement "$dir/node.intoto.jsonl" $skip
eksnode ami verify "$ami" --key "$dir/key.pub" --statement "$dir/node.intoto.jsonl"
`,
	},
	{
		Name: "publish", Does: "the AMI in two regions as a candidate, and promoted", Needs: []string{"import"}, Minutes: 1,
		Actions: []string{"ec2:DescribeImages", "ec2:DescribeRegions", "ssm:GetParameter", "ssm:PutParameter"},
		Script: `eksnode ami publish "$ami" --parameter "/eksnode-proof/$run/candidate" --region "$region,$other"
eksnode ami promote --from "/eksnode-proof/$run/candidate" --to "/eksnode-proof/$run/stable" --region "$region,$other"
`,
	},
	{
		Name: "approve", Needs: []string{"attest"}, Minutes: 4, Once: 0.01,
		Does: "a watermark on the AMI, and Allowed AMIs in audit mode, where the account has none",
		Script: `eksnode ami approve "$ami" --key "$dir/key.pub" --statement "$dir/node.intoto.jsonl" --watermark "eksnode-proof/$run" --reason "make aws"
eksnode ami policy --account "$account" --watermark "eksnode-proof/$run" --allow amazon --approver "arn:aws:iam::*:role/approver" > "$dir/policy.json"
evidence="the account has settings of its own"
if [ "$(aws ec2 get-allowed-images-settings --query '[State, length(ImageCriteria || ` + "`[]`" + `)]' --output text | tr -d '[:space:]')" = disabled0 ]; then
  criteria=$(sed -n '/"image_criteria"/,/^  ]/p' "$dir/policy.json" | sed '1s/.*/[/;$s/.*/]/')
  aws ec2 replace-image-criteria-in-allowed-images-settings --image-criteria "$criteria"
  aws ec2 enable-allowed-images-settings --allowed-images-settings-state audit-mode
  evidence=$(aws ec2 get-allowed-images-settings --query State --output text)
fi
eksnode ami revoke "$ami" --watermark "eksnode-proof/$run" --reason "make aws"
`,
	},
	{
		Name: "share", Needs: []string{"import"}, Minutes: 6, Once: 0.02, Asks: "share",
		Does: "an AMI whose instances another account may start, SHARE=",
		Script: `eksnode ami import "$disk" --ami-name "$name-shared" --parent-ami "$ami" --ami-users "$share" --snapshot-users "$share" \
  --tags "eksnode-proof=$run" --cache-folder "$dir/cache" $skip
shared=$(aws ec2 describe-images --owners self --filters "Name=name,Values=$name-shared" --query 'Images[0].ImageId' --output text)
evidence=$(aws ec2 describe-image-attribute --image-id "$shared" --attribute launchPermission --query 'LaunchPermissions[].UserId' --output text)
test "$evidence" = "$share"
`,
	},
	{
		Name: "retire", Needs: []string{"import"}, Minutes: 2,
		Does: "what ami retire would deregister and delete, in both regions; nothing is changed",
		Actions: []string{
			"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLaunchConfigurations", "ec2:DescribeFleets", "ec2:DescribeImageAttribute",
			"ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates", "ec2:DescribeRegions",
			"ec2:DescribeSnapshotAttribute", "ec2:DescribeSnapshots", "ec2:DescribeSpotFleetRequests", "ec2:DescribeSpotInstanceRequests",
			"eks:DescribeNodegroup", "eks:ListClusters", "eks:ListNodegroups", "ssm:DescribeParameters", "ssm:GetParameter",
			"ssm:GetParameterHistory", "ssm:GetParameters",
		},
		Script: `eksnode ami retire --keep 1 --older-than 1 --region "$region,$other"
eksnode ami retire --orphans --region "$region,$other"
`,
	},
	{
		Name: "launch", Needs: []string{"role", "import"}, Minutes: 11, Hourly: 0.05,
		Does:    "an instance by a launch template with a NodeConfig: preflight, Ready, a pod with logs and exec, diagnose, a second boot",
		Actions: []string{"ec2:CreateTags", "iam:PassRole"},
		Script: launching + `template nodeconfig
eksnode preflight --cluster "$cluster" --launch-template "$template"
launched
eksnode preflight --cluster "$cluster" --instance "$instance"
sleep "$console"
eksnode diagnose "$instance"
boot=$(kube get node "$node" -o 'jsonpath={.status.nodeInfo.bootID}')
aws ec2 reboot-instances --instance-ids "$instance"
while [ "$(kube get node "$node" -o 'jsonpath={.status.nodeInfo.bootID}')" = "$boot" ]; do later; done
pod second
`,
	},
	{
		Name: "bootstrap", Needs: []string{"launch"}, Minutes: 9, Hourly: 0.05,
		Does:    "an instance that calls bootstrap.sh: Ready, a pod with logs and exec, and an AMI without a scrub",
		Actions: []string{"ec2:CreateTags", "iam:PassRole"},
		Script: launching + `template bootstrap --family al2
launched
aws ec2 stop-instances --instance-ids "$instance"
aws ec2 wait instance-stopped --instance-ids "$instance"
dirty=$(aws ec2 create-image --instance-id "$instance" --name "$name-dirty" --tag-specifications "$(tags image snapshot)" \
  --query ImageId --output text)
aws ec2 wait image-available --image-ids "$dirty"
`,
	},
	{
		Name: "systems", Needs: []string{"role", "bases"}, Minutes: 30, Hourly: 0.15,
		Does:    "an instance of each further AMI, also those by packer: Ready, a pod with logs and exec",
		Actions: []string{"ec2:CreateTags", "iam:PassRole"},
		Script: launching + `first=$ami
all=
for image in $(aws ec2 describe-images --owners self --filters "Name=name,Values=$name-offline-*,$name-packer-*" \
  --query "Images[].join(',', [ImageId, Name])" --output text); do
  ami=${image%,*}
  template "$ami"
  launched "$ami"
  all="$all${image#*,}: $evidence
"
done
ami=$first
evidence=$all
`,
	},
	{
		// Only bootstrap.sh enables the kubelet: with a NodeConfig, first boot starts it.
		Name: "unscrubbed", Needs: []string{"bootstrap"}, Minutes: 9, Hourly: 0.05, Once: 0.01,
		Does:    "that AMI: its instance with another role is Unauthorized, and diagnose says why",
		Actions: []string{"ec2:CreateTags", "iam:PassRole", "iam:TagRole"},
		Script: launching + `trust='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'
aws iam create-role --role-name "$name-stranger" --path /eksnode-proof/ --assume-role-policy-document "$trust" --tags "Key=eksnode-proof,Value=$run"
aws iam create-instance-profile --instance-profile-name "$name-stranger"
aws iam add-role-to-instance-profile --instance-profile-name "$name-stranger" --role-name "$name-stranger"
sleep "$settle"
data='#!/bin/sh
mkdir -p /etc/systemd/journald.conf.d
printf "[Journal]\nForwardToConsole=yes\nTTYPath=/dev/ttyS0\nMaxLevelConsole=info\n" > /etc/systemd/journald.conf.d/console.conf
systemctl restart systemd-journald'
instance=$(aws ec2 run-instances --image-id "$dirty" --count 1 --instance-type "$type" --subnet-id "$subnet" \
  --iam-instance-profile "Name=$name-stranger" --user-data "$data" --tag-specifications "$(tags instance)" \
  --query 'Instances[0].InstanceId' --output text)
aws ec2 wait instance-running --instance-ids "$instance"
said=
until echo "$said" | grep -q Unauthorized; do
  later
  said=$(eksnode diagnose "$instance" || true)
done
evidence=$(echo "$said" | grep -m 1 Unauthorized; echo "$said" | grep -m 1 'captured from a joined node')
node=$(nodes | sed -n "s|.*/$instance ||p")
test -z "$node"
`,
	},
	{
		Name: "karpenter", Needs: []string{"role", "import"}, Minutes: 12, Hourly: 0.05,
		Does: "an instance that Karpenter starts with our EC2NodeClass runs a pod, where Karpenter is installed",
		Script: launching + `evidence="Karpenter is not installed"
if kube get --raw /apis/karpenter.k8s.aws/v1 > "$dir/karpenter.json"; then
  eksnode manifests --cluster "$cluster" --role "$role" --ami "$ami" --only nodeclass > "$dir/nodeclass.yaml"
  printf '  tags: {eksnode-proof: "%s"}\n' "$run" >> "$dir/nodeclass.yaml"
  class=$(kube create --validate=false -f "$dir/nodeclass.yaml" -o name)
  cat > "$dir/nodepool.yaml" <<END
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: $name}
spec:
  limits: {cpu: 2}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: ${class##*/}}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [$type]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: eksnode-proof, value: "$run", effect: NoSchedule}]
---
apiVersion: v1
kind: Pod
metadata: {name: $name-karpenter}
spec:
  activeDeadlineSeconds: 1200
  nodeSelector: {karpenter.sh/nodepool: $name}
  tolerations: [{key: eksnode-proof, operator: Exists}]
  containers: [{name: pod, image: "public.ecr.aws/docker/library/busybox:stable", command: [sleep, "3600"]}]
END
  kube wait --for=condition=Ready "$class" --timeout=90s &&
    kube create --validate=false -f "$dir/nodepool.yaml" &&
    kube wait --for=condition=Ready "pod/$name-karpenter" --timeout=10m &&
    node=$(kube get pod "$name-karpenter" -o 'jsonpath={.spec.nodeName}') &&
    evidence="a pod runs on $(kube get node "$node" -o 'jsonpath={.spec.providerID}')" || evidence=
  kube delete --ignore-not-found "pod/$name-karpenter" "nodepool/$name" "$class" --timeout=10m
  test "$evidence"
fi
`,
	},
	{
		Name: "nodegroup", Does: "a managed node group, which is ACTIVE when its node is Ready", Needs: []string{"launch"}, Minutes: 12, Hourly: 0.05,
		// EKS uses the caller's permissions for the launch template and the instances
		// (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
		Actions: []string{"ec2:CreateTags", "ec2:RunInstances", "eks:TagResource", "iam:CreateServiceLinkedRole",
			"iam:PassRole"},
		Script: `sed '/"IamInstanceProfile"/,/}/d' "$dir/nodeconfig.json" > "$dir/group.json"
template=$(aws ec2 describe-launch-templates --filters "Name=launch-template-name,Values=$name-nodeconfig" \
  --query 'LaunchTemplates[0].LaunchTemplateId' --output text)
version=$(aws ec2 create-launch-template-version --launch-template-id "$template" --launch-template-data "$(cat "$dir/group.json")" --query LaunchTemplateVersion.VersionNumber --output text)
aws eks create-nodegroup --cluster-name "$cluster" --nodegroup-name "$name" --node-role "$role" --subnets "$subnet" --scaling-config minSize=1,maxSize=1,desiredSize=1 --launch-template "id=$template,version=$version" --tags "eksnode-proof=$run"
aws eks wait nodegroup-active --cluster-name "$cluster" --nodegroup-name "$name"
eksnode preflight --cluster "$cluster" --nodegroup "$name"
`,
	},
}
