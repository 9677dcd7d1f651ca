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
	Script  string
}

// prelude is the beginning of every script. Every resource gets the tag eksnode-proof.
// Roles and parameters are also found by their path, clusters and node groups by their name.
const prelude = `set -e
export AWS_REGION="$region"
name=eksnode-proof-$run
role=arn:aws:iam::$account:role/eksnode-proof/$name
tags() { printf '[{"ResourceType":"%s","Tags":[{"Key":"eksnode-proof","Value":"%s"}]}]' "$1" "$run"; }
`

// steps is the table of the proof, in its order. A cluster that exists replaces the steps
// network and cluster.
var steps = []step{
	{
		Name: "network", Does: "a VPC with two public subnets", Minutes: 1,
		Actions: []string{"ec2:CreateTags"},
		Script: `vpc=$(aws ec2 create-vpc --cidr-block 10.97.0.0/16 --tag-specifications "$(tags vpc)" --query Vpc.VpcId --output text)
aws ec2 modify-vpc-attribute --vpc-id "$vpc" --enable-dns-hostnames
gateway=$(aws ec2 create-internet-gateway --tag-specifications "$(tags internet-gateway)" --query InternetGateway.InternetGatewayId --output text)
aws ec2 attach-internet-gateway --internet-gateway-id "$gateway" --vpc-id "$vpc"
table=$(aws ec2 describe-route-tables --filters "Name=vpc-id,Values=$vpc" --query 'RouteTables[0].RouteTableId' --output text)
aws ec2 create-route --route-table-id "$table" --destination-cidr-block 0.0.0.0/0 --gateway-id "$gateway"
zones=$(aws ec2 describe-availability-zones --filters Name=zone-type,Values=availability-zone --query 'AvailabilityZones[:2].ZoneName' --output text)
subnets=
for zone in $zones; do
  subnet=$(aws ec2 create-subnet --vpc-id "$vpc" --availability-zone "$zone" --cidr-block "10.97.$(echo "$subnets" | wc -w).0/24" --tag-specifications "$(tags subnet)" --query Subnet.SubnetId --output text)
  aws ec2 modify-subnet-attribute --subnet-id "$subnet" --map-public-ip-on-launch
  subnets="$subnets $subnet"
done
`,
	},
	{
		Name: "cluster", Does: "an EKS control plane with its role", Needs: []string{"network"}, Minutes: 12, Hourly: 0.10,
		Actions: []string{"eks:TagResource", "iam:CreateServiceLinkedRole", "iam:PassRole", "iam:TagRole"},
		Script: `trust='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}'
aws iam create-role --role-name "$name-cluster" --path /eksnode-proof/ --assume-role-policy-document "$trust" --tags "Key=eksnode-proof,Value=$run"
aws iam attach-role-policy --role-name "$name-cluster" --policy-arn arn:aws:iam::aws:policy/AmazonEKSClusterPolicy
aws iam wait role-exists --role-name "$name-cluster"
sleep "$settle"
aws eks create-cluster --name "$name" --role-arn "arn:aws:iam::$account:role/eksnode-proof/$name-cluster" --kubernetes-version "${kubernetes%.*}" --access-config authenticationMode=API --resources-vpc-config "subnetIds=$(echo $subnets | tr ' ' ,)" --tags "eksnode-proof=$run"
aws eks wait cluster-active --name "$name"
cluster=$name
`,
	},
	{
		Name: "role", Does: "the nodes' role, its policies and its access entry, by eksnode manifests", Needs: []string{"cluster"}, Minutes: 1,
		Script: `for manifest in role policies access-entry; do
  eksnode manifests --cluster "$cluster" --role "$role" --cni-permissions node --only "$manifest" > "$dir/$manifest.sh"
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
		Script: `eksnode ami import "$disk" --ami-name "$name" --ami-regions "$other" --tags "eksnode-proof=$run" --cache-folder "$dir/cache" --skip-rules "$skip"
ami=$(aws ec2 describe-images --owners self --filters "Name=name,Values=$name" --query 'Images[0].ImageId' --output text)
`,
	},
	{
		Name: "parent", Does: "a second AMI with the first one as its parent, and an encrypted one", Needs: []string{"import"}, Minutes: 8, Once: 0.03,
		Script: `eksnode ami import "$disk" --ami-name "$name-child" --parent-ami "$ami" --tags "eksnode-proof=$run" --cache-folder "$dir/cache" --skip-rules "$skip"
eksnode ami import "$disk" --ami-name "$name-encrypted" --encrypt-boot --tags "eksnode-proof=$run" --cache-folder "$dir/cache" --skip-rules "$skip"
`,
	},
	{
		Name: "audit", Does: "an audit of the AMI without an instance", Needs: []string{"import"}, Minutes: 5, Once: 0.01,
		Script: `eksnode audit --ami "$ami" --skip-rules "$skip"
`,
	},
	{
		Name: "attest", Does: "a signed statement, and its verification", Needs: []string{"import"}, Minutes: 6, Once: 0.02,
		Script: `openssl genpkey -algorithm ed25519 -out "$dir/key.pem"
openssl pkey -in "$dir/key.pem" -pubout -out "$dir/key.pub"
eksnode ami attest "$ami" --key "$dir/key.pem" --statement "$dir/node.intoto.jsonl" --skip-rules "$skip"
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
		Name: "launch", Does: "an instance by a launch template, with preflight before and after, and diagnose", Needs: []string{"role", "import"}, Minutes: 6, Hourly: 0.05,
		Actions: []string{"ec2:CreateTags", "iam:PassRole"},
		Script: `eksnode manifests --cluster "$cluster" --role "$role" --ami "$ami" --instance-type t3.medium --only launch-template > "$dir/template.json"
template=$(aws ec2 create-launch-template --launch-template-name "$name" --launch-template-data "$(cat "$dir/template.json")" --tag-specifications "$(tags launch-template)" --query LaunchTemplate.LaunchTemplateId --output text)
eksnode preflight --cluster "$cluster" --launch-template "$template"
subnet=$(aws eks describe-cluster --name "$cluster" --query 'cluster.resourcesVpcConfig.subnetIds[0]' --output text)
instance=$(aws ec2 run-instances --launch-template "LaunchTemplateId=$template" --count 1 --subnet-id "$subnet" --tag-specifications "$(tags instance)" --query 'Instances[0].InstanceId' --output text)
aws ec2 wait instance-running --instance-ids "$instance"
eksnode preflight --cluster "$cluster" --instance "$instance"
sleep "$console"
eksnode diagnose "$instance"
aws ec2 terminate-instances --instance-ids "$instance"
aws ec2 wait instance-terminated --instance-ids "$instance"
`,
	},
	{
		Name: "nodegroup", Does: "a managed node group, which is ACTIVE when its node is Ready", Needs: []string{"launch"}, Minutes: 12, Hourly: 0.05,
		// EKS uses the caller's permissions for the launch template and the instances
		// (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
		Actions: []string{"ec2:CreateTags", "ec2:RunInstances", "eks:TagResource", "iam:CreateServiceLinkedRole", "iam:PassRole"},
		Script: `sed '/"IamInstanceProfile"/,/}/d' "$dir/template.json" > "$dir/group.json"
version=$(aws ec2 create-launch-template-version --launch-template-id "$template" --launch-template-data "$(cat "$dir/group.json")" --query LaunchTemplateVersion.VersionNumber --output text)
aws eks create-nodegroup --cluster-name "$cluster" --nodegroup-name "$name" --node-role "$role" --subnets "$subnet" --scaling-config minSize=1,maxSize=1,desiredSize=1 --launch-template "id=$template,version=$version" --tags "eksnode-proof=$run"
aws eks wait nodegroup-active --cluster-name "$cluster" --nodegroup-name "$name"
eksnode preflight --cluster "$cluster" --nodegroup "$name"
`,
	},
}

// kind is a kind of resource that a run can leave. List prints what is left, one word each.
// Delete removes $id, which is one of them.
type kind struct {
	Name string
	// Brief resources do not outlive their step. Twice says that both regions have them.
	Brief, Twice bool
	List, Delete string
}

// kinds is the order of the teardown. It finds resources by tag, name or path alone. $mine
// is the run, or empty for all runs: then it also removes what a killed run left.
var kinds = []kind{
	{
		Name: "node group", Brief: true,
		List: `for cluster in $(aws eks list-clusters --query 'clusters[]' --output text); do
  for group in $(aws eks list-nodegroups --cluster-name "$cluster" --query "nodegroups[?starts_with(@,'eksnode-proof-$mine')]" --output text); do echo "$cluster/$group"; done
done`,
		Delete: `aws eks delete-nodegroup --cluster-name "${id%%/*}" --nodegroup-name "${id##*/}"
aws eks wait nodegroup-deleted --cluster-name "${id%%/*}" --nodegroup-name "${id##*/}"`,
	},
	{
		Name: "instance", Brief: true,
		List: `aws ec2 describe-instances --filters "Name=tag:eksnode-proof,Values=$mine*" --query "Reservations[].Instances[?State.Name!='terminated'][].InstanceId" --output text`,
		Delete: `aws ec2 terminate-instances --instance-ids "$id"
aws ec2 wait instance-terminated --instance-ids "$id"`,
	},
	{
		Name:   "launch template",
		List:   `aws ec2 describe-launch-templates --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'LaunchTemplates[].LaunchTemplateId' --output text`,
		Delete: `aws ec2 delete-launch-template --launch-template-id "$id"`,
	},
	{
		Name: "AMI", Twice: true,
		List:   `aws ec2 describe-images --owners self --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'Images[].ImageId' --output text`,
		Delete: `aws ec2 deregister-image --image-id "$id" --delete-associated-snapshots`,
	},
	{
		Name: "snapshot", Twice: true,
		List:   `aws ec2 describe-snapshots --owner-ids self --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'Snapshots[].SnapshotId' --output text`,
		Delete: `aws ec2 delete-snapshot --snapshot-id "$id"`,
	},
	{
		Name: "parameter", Twice: true,
		List:   `aws ssm describe-parameters --parameter-filters "Key=Name,Option=BeginsWith,Values=/eksnode-proof/$mine" --query 'Parameters[].Name' --output text`,
		Delete: `aws ssm delete-parameter --name "$id"`,
	},
	{
		Name: "access entry",
		List: `for cluster in $(aws eks list-clusters --query 'clusters[]' --output text); do
  test "$(aws eks describe-cluster --name "$cluster" --query cluster.accessConfig.authenticationMode --output text)" != CONFIG_MAP || continue
  for entry in $(aws eks list-access-entries --cluster-name "$cluster" --query "accessEntries[?contains(@,':role/eksnode-proof/eksnode-proof-$mine')]" --output text); do echo "$cluster,$entry"; done
done`,
		Delete: `aws eks delete-access-entry --cluster-name "${id%%,*}" --principal-arn "${id##*,}"`,
	},
	{
		Name: "cluster",
		List: `aws eks list-clusters --query "clusters[?starts_with(@,'eksnode-proof-$mine')]" --output text`,
		Delete: `aws eks delete-cluster --name "$id"
aws eks wait cluster-deleted --name "$id"`,
	},
	{
		Name: "instance profile",
		List: `aws iam list-instance-profiles --query "InstanceProfiles[?starts_with(InstanceProfileName,'eksnode-proof-$mine')].InstanceProfileName" --output text`,
		Delete: `for role in $(aws iam get-instance-profile --instance-profile-name "$id" --query 'InstanceProfile.Roles[].RoleName' --output text); do
  aws iam remove-role-from-instance-profile --instance-profile-name "$id" --role-name "$role"
done
aws iam delete-instance-profile --instance-profile-name "$id"`,
	},
	{
		Name: "role",
		List: `aws iam list-roles --path-prefix /eksnode-proof/ --query "Roles[?starts_with(RoleName,'eksnode-proof-$mine')].RoleName" --output text`,
		Delete: `for policy in $(aws iam list-attached-role-policies --role-name "$id" --query 'AttachedPolicies[].PolicyArn' --output text); do
  aws iam detach-role-policy --role-name "$id" --policy-arn "$policy"
done
aws iam delete-role --role-name "$id"`,
	},
	{
		Name:   "subnet",
		List:   `aws ec2 describe-subnets --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'Subnets[].SubnetId' --output text`,
		Delete: `aws ec2 delete-subnet --subnet-id "$id"`,
	},
	{
		Name: "internet gateway",
		List: `aws ec2 describe-internet-gateways --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'InternetGateways[].InternetGatewayId' --output text`,
		Delete: `for vpc in $(aws ec2 describe-internet-gateways --internet-gateway-ids "$id" --query 'InternetGateways[].Attachments[].VpcId' --output text); do
  aws ec2 detach-internet-gateway --internet-gateway-id "$id" --vpc-id "$vpc"
done
aws ec2 delete-internet-gateway --internet-gateway-id "$id"`,
	},
	{
		Name:   "VPC",
		List:   `aws ec2 describe-vpcs --filters "Name=tag:eksnode-proof,Values=$mine*" --query 'Vpcs[].VpcId' --output text`,
		Delete: `aws ec2 delete-vpc --vpc-id "$id"`,
	},
}
