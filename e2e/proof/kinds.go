//go:build linux

package main

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
		List: `clusters=$(aws eks list-clusters --query 'clusters[]' --output text)
for cluster in $clusters; do
  groups=$(aws eks list-nodegroups --cluster-name "$cluster" --output text \
    --query "nodegroups[?starts_with(@,'eksnode-proof-$mine')]")
  for group in $groups; do echo "$cluster/$group"; done
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
	{ // of a packer that was killed
		Name: "key pair", Brief: true,
		List: `aws ec2 describe-key-pairs --filters "Name=tag:eksnode-proof,Values=$mine*" \
  --query 'KeyPairs[].KeyName' --output text`,
		Delete: `aws ec2 delete-key-pair --key-name "$id"`,
	},
	{
		Name: "security group", Brief: true,
		List: `aws ec2 describe-security-groups --filters "Name=tag:eksnode-proof,Values=$mine*" \
  --query 'SecurityGroups[].GroupId' --output text`,
		Delete: `aws ec2 delete-security-group --group-id "$id"`,
	},
	{
		Name: "Allowed AMIs setting", Brief: true,
		List: `aws ec2 get-allowed-images-settings --query "ImageCriteria[].ImageWatermarks[?contains(WatermarkKey,':eksnode-proof/$mine')][].WatermarkKey" --output text`,
		Delete: `aws ec2 disable-allowed-images-settings
aws ec2 replace-image-criteria-in-allowed-images-settings --image-criteria '[]'`,
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
		List: `clusters=$(aws eks list-clusters --query 'clusters[]' --output text)
for cluster in $clusters; do
  mode=$(aws eks describe-cluster --name "$cluster" --query cluster.accessConfig.authenticationMode --output text)
  if [ "$mode" = CONFIG_MAP ]; then continue; fi
  entries=$(aws eks list-access-entries --cluster-name "$cluster" --output text \
    --query "accessEntries[?contains(@,':role/eksnode-proof/eksnode-proof-$mine')]")
  for entry in $entries; do echo "$cluster,$entry"; done
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
		Name: "policy",
		List: `aws iam list-policies --scope Local --path-prefix /eksnode-proof/ \
  --query "Policies[?starts_with(PolicyName,'eksnode-proof-$mine')].Arn" --output text`,
		Delete: `aws iam delete-policy --policy-arn "$id"`,
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
