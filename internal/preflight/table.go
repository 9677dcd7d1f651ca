package preflight

// Check is one reason why nodes do not join.
type Check struct {
	// ID names the check in reports and pages.
	ID string
	// Question is the check's question, in one sentence.
	Question string
	// Why says what happens to a node when the check fails.
	Why string

	// node says that the check needs the settings of nodes: an instance, a launch
	// template, a node group or an EC2NodeClass.
	node bool
	look func(*facts) result
}

// Table lists the checks in the order in which a node depends on them.
func Table() []Check {
	return []Check{
		{"cluster", "Is the cluster there and ready for nodes?", "a node needs the cluster's endpoint, certificate authority and network", false, checkCluster},
		{"endpoint-access", "Can nodes reach the cluster's endpoint?", "without private access, nodes reach the cluster through its public endpoint", false, checkEndpointAccess},
		{"kubelet-version", "Does the kubelet fit the control plane?", "a kubelet may be up to three minor versions older, and never newer", false, checkKubelet},
		{"addons", "Do the add-ons fit?", "kube-proxy follows the same rule, and VPC CNI before 1.13.1 supports only one iptables mode", false, checkAddons},
		{"node-group", "Is the managed node group healthy?", "EKS starts no nodes for a node group with errors", true, checkNodeGroup},
		{"node-group-template", "Does the launch template fit a managed node group?", "EKS refuses some settings and needs others", true, checkGroupTemplate},
		{"node-class-selectors", "Do the EC2NodeClass's selectors find something?", "Karpenter starts no nodes without subnets, security groups and images", true, checkSelectors},
		{"node-class", "Does the EC2NodeClass fit the image and the cluster?", "EC2 refuses some block devices, and others are not the root volume", true, checkClass},
		{"instance-state", "Is the instance running and healthy?", "EC2 starts no system on an instance that has ended, or whose host or disk has a fault", false, checkInstanceState},
		{"image-state", "Is the image available and bootable?", "the image must be available and have an EBS root device", false, checkImageState},
		{"image-owner", "Is the image yours?", "anyone may publish images under any name", false, checkImageOwner},
		{"image-ena", "Does the image have ENA?", "current instance types have no other network device", false, checkImageENA},
		{"image-architecture", "Is the image for the instance type's architecture?", "otherwise EC2 does not start the instance", true, checkArchitecture},
		{"instance-type", "Can the instance type boot the image?", "EC2 refuses an image whose boot mode, NitroTPM or virtualization the type does not support", false, checkTypeImage},
		{"instance-type-zone", "Is the instance type offered in the subnets' zones?", "EC2 starts no instance in a zone without the type", false, checkTypeZone},
		{"disks", "Do the launch template's disks fit the image?", "EC2 refuses small disks, and a wrong device name makes a second disk", false, checkDisks},
		{"disk-keys", "Can the disks' KMS keys be used?", "instances whose key cannot be used end with Client.InternalError", false, checkKeys},
		{"cluster-tag", "Does the instance have the cluster's tag?", "the cloud controller ignores nodes without the tag", true, checkClusterTag},
		{"metadata", "Is the instance's metadata service on?", "first boot reads user data, names and credentials from this service", true, checkMetadata},
		{"user-data", "Is the user data for this cluster?", "the user data tells the node which cluster to join", true, checkUserData},
		{"instance-profile", "Is there an instance profile with a role?", "without credentials the kubelet gets no token", false, checkProfile},
		{"role-trust", "May EC2 assume the role?", "otherwise the instance gets no credentials", false, checkTrust},
		{"role-separate", "Does the node's role differ from the cluster's?", "the authenticator refuses one role for both", false, checkRoleSeparate},
		{"policy-worker", "May the role describe the cluster and its instances?", "the node needs the permissions of AmazonEKSWorkerNodePolicy to join", false, checkPolicyWorker},
		{"policy-cni", "May the VPC CNI manage addresses?", "otherwise pods get no addresses; the VPC CNI may have its own role, by pod identity or IRSA", false, checkPolicyCNI},
		{"policy-registry", "May the role pull images?", "the pause image and the add-ons come from ECR", false, checkPolicyRegistry},
		{"policy-ssm", "May Systems Manager reach the node?", "a person must inspect a node that does not join, and the image may not allow SSH", false, checkPolicySSM},
		{"access", "Does the cluster accept the role?", "otherwise the API server answers Unauthorized", false, checkAccess},
		{"aws-auth", "Is aws-auth right?", "a wrong line keeps the node out or gives the node a wrong name", false, checkAWSAuth},
		{"subnet-vpc", "Are the subnets in the cluster's VPC, with free addresses?", "nodes and pods get addresses from the subnets", false, checkSubnets},
		{"subnet-tag", "Do the subnets have the cluster's tag, where it is needed?", "clusters up to 1.18 need the tag", false, checkSubnetTag},
		{"security-group-443", "Do security groups let nodes reach the API server?", "the kubelet registers over port 443", true, checkPort443},
		{"security-group-10250", "Do security groups let the API server reach the kubelet?", "logs, exec and metrics use port 10250", true, checkPort10250},
		{"security-group-nodes", "Do security groups let nodes reach each other?", "DNS and services run on other nodes", true, checkNodeToNode},
		{"network-acl", "Do network ACLs allow the traffic between nodes and control plane?", "network ACLs filter traffic between subnets in addition to security groups, and replies need their own rule", false, checkACL},
		{"service-cidr", "Does the service network differ from the other networks?", "nodes send traffic for addresses of the service network to services, so other machines with such addresses are out of reach", false, checkServiceCIDR},
		{"subnet-ipv6", "Do the subnets have IPv6, where it is needed?", "in an IPv6 cluster, nodes and pods have IPv6 addresses", false, checkIPv6},
		{"egress", "Can nodes reach AWS's services?", "nodes need EC2, ECR, S3 and STS, through a gateway or endpoints, and EKS when the user data has no endpoint and certificate authority", false, checkEgress},
		{"egress-ssm", "Can nodes reach Systems Manager?", "Session Manager needs ssm and ssmmessages, through a gateway or endpoints", false, checkEgressSSM},
		{"sts-region", "Is STS on in the region?", "nodes and pods get and use credentials at the STS endpoint of their region", false, checkSTS},
		{"vpc-dns", "Does the network resolve names?", "nodes find private endpoints by name", false, checkDNS},
		{"private-zones", "Do private hosted zones leave AWS's names alone?", "a private hosted zone of a VPC hides the public records of its domain", false, checkZones},
		{"dhcp-domain", "Is the domain AWS's own?", "a node's name must be the private DNS name that EC2 assigns (amazon-eks-ami #1263 and #1376)", false, checkDomain},
	}
}
