package preflight

// Check is one reason for which nodes do not join.
type Check struct {
	// ID names it in reports and pages.
	ID string
	// Question is what it asks, in a sentence.
	Question string
	// Why says what happens to a node otherwise.
	Why string

	// node says that it needs an instance or a launch template.
	node bool
	look func(*facts) result
}

// Table lists the checks in the order in which a node meets what they check.
func Table() []Check {
	return []Check{
		{"cluster", "Is the cluster there and ready for nodes?", "a node needs its endpoint, certificate authority and network", false, checkCluster},
		{"endpoint-access", "Can nodes reach the cluster's endpoint?", "without private access, nodes come in from outside", false, checkEndpointAccess},
		{"kubelet-version", "Does the kubelet fit the control plane?", "a kubelet may be up to three minor versions older, and never newer", false, checkKubelet},
		{"addons", "Do the add-ons fit?", "kube-proxy follows the same rule, and VPC CNI before 1.13.1 knows one mode of iptables only", false, checkAddons},
		{"image-state", "Is the image there and bootable?", "it must be available, with a root device on EBS", false, checkImageState},
		{"image-owner", "Is the image yours?", "anybody may publish images under any name", false, checkImageOwner},
		{"image-ena", "Does the image have ENA?", "no current instance type has another network", false, checkImageENA},
		{"image-architecture", "Is the image for the instance type's processor?", "EC2 does not start it otherwise", true, checkArchitecture},
		{"cluster-tag", "Does the instance carry the cluster's tag?", "the cloud controller leaves nodes without it alone", true, checkClusterTag},
		{"metadata", "Is the instance's metadata service on?", "the first boot takes user data, names and credentials from it", true, checkMetadata},
		{"user-data", "Does the user data join this cluster?", "it is what tells the node its cluster", true, checkUserData},
		{"instance-profile", "Is there an instance profile with a role?", "without credentials the kubelet gets no token", true, checkProfile},
		{"role-trust", "May EC2 take the role on?", "the instance gets no credentials otherwise", true, checkTrust},
		{"role-separate", "Is the node's role another than the cluster's?", "one role for both is refused by the authenticator", true, checkRoleSeparate},
		{"policy-worker", "May the role see the cluster and its instances?", "AmazonEKSWorkerNodePolicy is needed to join", true, checkPolicyWorker},
		{"policy-cni", "May the VPC CNI manage addresses?", "pods get none otherwise; its own role may have the policy instead", true, checkPolicyCNI},
		{"policy-registry", "May the role pull images?", "the pause image and the add-ons come from ECR", true, checkPolicyRegistry},
		{"policy-ssm", "May Systems Manager reach the node?", "somebody has to look when a node does not join, and images need not let SSH in", true, checkPolicySSM},
		{"access", "Does the cluster let the role in?", "the API server answers Unauthorized otherwise", true, checkAccess},
		{"aws-auth", "Is aws-auth right?", "a wrong line there keeps the node out, or breaks the node's name", true, checkAWSAuth},
		{"subnet-vpc", "Are the subnets in the cluster's network, with addresses left?", "nodes and pods take addresses from them", false, checkSubnets},
		{"subnet-tag", "Do the subnets carry the cluster's tag, where it is needed?", "clusters up to 1.18 demand it", false, checkSubnetTag},
		{"security-group-443", "Do nodes get through to the API server?", "the kubelet registers over port 443", true, checkPort443},
		{"security-group-10250", "Does the API server get through to the kubelet?", "logs, exec and metrics take port 10250", true, checkPort10250},
		{"security-group-nodes", "Do nodes get through to each other?", "DNS and services are on other nodes", true, checkNodeToNode},
		{"network-acl", "Do the network ACLs let nodes and the control plane through?", "they stand between subnets besides the security groups, and answers need a rule, too", false, checkACL},
		{"egress", "Do nodes get through to AWS's services?", "they need EC2, ECR, S3, STS and EKS, over a gateway or endpoints", false, checkEgress},
		{"vpc-dns", "Does the network resolve names?", "private endpoints are found by name", false, checkDNS},
		{"dhcp-domain", "Is the domain AWS's own?", "a node's name must be what EC2 says (amazon-eks-ami #1263 and #1376)", false, checkDomain},
	}
}
