package diagnose

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// What a kubelet logs when it has joined, when its node is ready, and when it has a
// serving certificate. Before that, much fails that needs no remedy.
const (
	joined    = `Successfully registered node`
	ready     = `just became ready|event="NodeReady"|Recording NodeReady event`
	certified = `Certificate rotation deadline determined|Certificate expiration is `
)

// reached is what a kubelet logs when the API server answers.
const reached = joined + `|Caches populated for (type=)?"?\*v1\.`

// ofNodes is the rest of "User NAME cannot", about what a node reads and writes.
const ofNodes = `(create|get|list|watch|patch) (resource \\*")?` +
	`(nodes|events|leases|services|csinodes|csidrivers|runtimeclasses|certificatesigningrequests)\b`

// Commands of several causes.
const (
	preflight         = "eksnode preflight --cluster NAME --instance ID"
	checkUserData     = "eksnode userdata check FILE"
	renderUserData    = "eksnode userdata render --family al2023 --cluster NAME"
	kubeletUnit       = "sudo systemctl cat kubelet"
	containerdJournal = "sudo journalctl --unit containerd --boot --no-pager"
	pullImage         = "sudo ctr images pull --hosts-dir /etc/containerd/certs.d IMAGE"
)

// Rules is the table of known causes, root causes before their consequences. The
// patterns come from the source code and logs of kubelet 1.24 to 1.36, containerd
// 1.6 to 2.3, runc, client-go, nodeadm, the VPC CNI, Bottlerocket and this program.
// The settings of a machine that may be the cause are rows of the audit, which has
// a command for them.
func Rules() []Rule {
	rules := table()
	for _, breaker := range scrub.Table() {
		if breaker.Breaks == nil {
			continue
		}
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == breaker.Breaks.Cause })
		if i < 0 {
			continue // a test fails on it
		}
		command := "sudo eksnode audit --rules " + rules[i].ID
		if !slices.Contains(rules[i].Commands, command) {
			rules[i].Commands = append(slices.Clip(rules[i].Commands), command)
		}
		rules[i].Settings = append(rules[i].Settings, breaker.ID)
	}
	return rules
}

func table() []Rule {
	return []Rule{
		{ID: "captured-node",
			Cause: "this image was captured from a joined node: it contains another cluster's endpoint, certificates or " +
				"state",
			Remedy:   "run `eksnode scrub` before the image is captured; init has removed the leftover state on this node",
			Lines:    []string{`leftover-state: (remove|stop) `},
			Explains: []string{"unauthorized", "other-ca", "other-node", "node-ip", "checkpoint"},
			Commands: []string{"sudo eksnode scrub --dry-run"}},
		{ID: "template", Until: joined,
			Cause: "the kubelet started before first boot wrote its configuration: the file is missing, or still a " +
				"template",
			Remedy: "first boot configured nothing: check eksnode-config.service and the user data; an image must not " +
				"have the kubelet enabled",
			Lines:    []string{`MASTER_ENDPOINT`, `open \S*kubelet/\S*config\S*: no such file or directory`},
			Commands: []string{"sudo systemctl status eksnode-config.service --no-pager", checkUserData}},
		{ID: "user-data-form", Until: joined,
			Cause: "cloud-init does not know the form of the user data, or runs it as a script, so nothing in it had effect",
			Remedy: "start a script with #!/bin/bash; combine a script and a NodeConfig as MIME parts with the types " +
				"text/x-shellscript and application/node.eks.aws; an image with bootstrap.sh alone, such as Amazon Linux " +
				"2, reads no NodeConfig",
			Lines: []string{`Unhandled (non-multipart|unknown content-type) \(`,
				`[uU]ser data was not in the MIME multipart format`,
				`/part-\d+: line \d+: (apiVersion|kind|metadata|spec|MIME-Version|Content-Type):: command not found`},
			Not:      `node\.eks\.aws`, // cloud-init leaves a NodeConfig to first boot
			Others:   "another program, such as nodeadm, reads this part of the user data",
			Commands: []string{checkUserData, renderUserData}},
		{ID: "node-config", Until: joined,
			Cause:  "the user data's NodeConfig is not valid",
			Remedy: "correct the named fields, and check the user data before the next instance starts",
			Lines: []string{`(Name|Apiserver endpoint|Certificate authority|CIDR) is missing in cluster configuration`,
				`[cC]ould not find NodeConfig within UserData`, `"Loaded configuration","config":.*"cluster":\{\}`,
				`Command failed.*"error": ?"(yaml: |error (unmarshaling|converting)|strict decoding error|no kind |mime: |` +
					`multipart: )`, `ec2imds: GetUserData, [^"]*StatusCode: 404`, `checking the NodeConfig:`,
				`spec\.[A-Za-z.\[\]0-9]+: (unknown field|is missing|must be|unknown value)`, `is not a NodeConfig \(`,
				`reading the NodeConfig: `, `Command failed.*(NodeConfig|node config|MIME|media type|user data|[cC]luster ` +
					`ID|ip-family|wrong Kind|unexpected group|GZIP)`, `Do not manually call nodeadm from user data`,
				`Command failed.*(no config (in chain|found)|valid IP family|max pods expression)`},
			Not:      `asking the instance metadata service`,
			Commands: []string{checkUserData, renderUserData}},
		{ID: "bottlerocket-settings", Until: joined,
			Cause: "Bottlerocket has no valid settings: its user data is not valid TOML, names an unknown setting, or " +
				"was not read because the volume has the settings of another instance",
			Remedy: "correct the user data: each table may be written once, and `[settings]` must exist; make a snapshot " +
				"for the data volume from an instance that has not been configured",
			Lines: []string{`[Pp]arsing TOML user data`, `TOML data did not contain 'settings' section`,
				`early-boot-config\[\d+\]: .*([Pp]rovider error|Error )`,
				`Bottlerocket userdata configuration system was skipped`,
				`Failed to start Bottlerocket userdata configuration system`, `(thar-be-settings|storewolf|` +
					`settings-committer)\[\d+\]: .*(Error|[fF]ailed)`, `(migrator|certdog|prairiedog|schnauzer\S*|` +
					`settings-applier|settings-plugin\S*)\[\d+\]: .*(Error|[fF]ailed|Unable to)`},
			Not:      `with result 'dependency'`,
			Others:   "the instance metadata service did not answer early-boot-config",
			Explains: []string{"containerd"},
			Commands: []string{checkUserData, "eksnode userdata render --family bottlerocket --cluster NAME"}},
		{ID: "node-group-issue", Until: joined,
			Cause: "EKS cannot use the managed node group: its Auto Scaling group, launch template, role or security " +
				"group was changed outside of EKS, or its public subnets assign no addresses",
			Remedy: "undo the change, or create a new node group and delete this one; a subnet with a route to an " +
				"internet gateway must assign public addresses, and IPv6 addresses in an IPv6 cluster, or use a NAT gateway",
			Lines: []string{`AutoScalingGroup(NotFound|InvalidConfiguration|InstanceRefreshActive)`,
				`Ec2LaunchTemplate(NotFound|VersionMismatch)`, `Ec2(SecurityGroup|Subnet)NotFound`,
				`Iam(InstanceProfile|NodeRole)NotFound`, `which is not expected by Amazon EKS`,
				`does not automatically assign (public IP|IPv6) addresses`,
				`Ec2Subnet(InvalidConfiguration|MissingIpv6Assignment)`},
			Explains: []string{"launch"},
			Commands: []string{"aws eks describe-nodegroup --cluster-name NAME --nodegroup-name GROUP --query nodegroup.health",
				"aws ec2 modify-subnet-attribute --subnet-id ID --map-public-ip-on-launch", "aws ec2 describe-route-tables " +
					"--filters Name=association.subnet-id,Values=ID"}},
		{ID: "launch", Until: joined,
			Cause: "EC2 refuses to start the instance: a parameter of the launch template, the EC2NodeClass or the node " +
				"group is wrong",
			Remedy: "the error's code names the parameter: correct the image, the subnets, the security groups, the " +
				"device names or the instance profile",
			Lines: []string{`Invalid(BlockDeviceMapping|AMIID|SubnetID|LaunchTemplate|Parameter(Value|Combination)|Snapshot\.|` +
				`InstanceType|UserData|SecurityGroupID|[A-Z]\w+\.(NotFound|Unknown|InUse|Malformed))`,
				`([nN]o (subnets|security groups|amis|AMIs) (found|exist|match)|Failed to resolve (AMIs|[sS]ubnets|` +
					`[sS]ecurity))`, `valid fully-formed launch template`, `requested configuration is currently not supported`,
				`AsgInstanceLaunchFailures`, `Ec2InstanceTypeDoesNotExist|AmiIdNotFound|Ec2LaunchTemplateInvalidConfiguration`,
				`([kK]ey pair|[iI]mage id|[sS]ecurity group|[sS]ubnet ID|[lL]aunch template) '[^']*' does not exist`,
				`instance type \S+ is not supported`, `Invalid IAM Instance Profile`,
				`specified value for roleName is invalid`, `not authorized to (use launch template|launch instances)`,
				`([nN]ode ?[gG]roup|[lL]aunch template).*Invalid(Request|Parameter)Exception|Invalid(Request|` +
					`Parameter)Exception.*([nN]ode ?[gG]roup|[lL]aunch template)`, `Specify a security group`,
				`neither spec\.(provider\.)?instanceProfile nor`, `Cannot specify .* in launch template`,
				`(SubnetSelector|SecurityGroupSelector|AMISelector) did not match any`,
				`(SubnetsNotFound|SecurityGroupsNotFound|AMIs?NotFound|NodeRoleAuthFailure|VolumeSizeTooSmall|` +
					`InstanceProfileNotFound|UnsupportedOperation)`,
				`[iI]nstance [pP]rofile \S+ (cannot be found|not found|does not exist)`,
				`architecture '\w+' of the specified instance type does not match`, `ssm parameter.*ParameterNotFound`},
			Not: `Insufficient|sufficient \S+ capacity|enough free addresses|KMS|Client\.InternalError|LimitExceeded|` +
				`QuotaExceeded|your quota|maximum number of|MIME multipart|InvalidNetworkInterfaceID`,
			Others: "the caller lacks ec2:RunInstances, ec2:CreateTags or iam:PassRole, or the organization does not " +
				"allow the instance type",
			Commands: []string{"aws ec2 describe-launch-template-versions --launch-template-id ID", preflight}},
		{ID: "capacity", Until: joined,
			Cause: "EC2 has no capacity for the instance type, a quota is used up, AWS has not validated, or blocked, " +
				"the account, or its free plan lacks the type",
			Remedy: "allow more instance types and zones, or have the quota of vCPUs raised; ask AWS Support about the " +
				"account; accept the terms of a Marketplace image; name a type of the free plan, or leave the plan",
			Lines: []string{`Insufficient(Instance|Host)?Capacity|UnfulfillableCapacity`,
				`\b[A-Z]\w+(Limit|Quota|Count|Capacity)Exceeded\b`, `do not have sufficient \S+ capacity`,
				`(no Spot capacity available|SpotMaxPriceTooLow|Max spot instance count exceeded|requested more (vCPU|` +
					`instances))`, `maximum number of ([A-Za-z ]+ has been reached|rules per)`,
				`[rR]eached (your|the) (quota|limit)`, `([iI]nsufficient capacity|too few instances returned)`,
				`(all|All) (requested |available )?instance types were unavailable`, `not eligible for Free Tier`,
				`accessing resources in this region is being validated`, `PendingVerification`, `OptInRequired`,
				`[aA]ccount is currently blocked`, `is not subscribed to this service|need to accept terms and subscribe`},
			Explains: []string{"launch"},
			Not:      `InvalidParameterValue|(PrivateIpAddress|Attachment|NetworkInterface|Request|Backoff)LimitExceeded`,
			Commands: []string{"aws ec2 describe-instance-type-offerings --location-type availability-zone",
				"aws ec2 describe-images --image-ids AMI --query 'Images[].[OwnerId,ImageOwnerAlias,ProductCodes]'"}},
		{ID: "spot-role",
			Cause: "the account lacks the role that EC2 uses for Spot instances, and the controller may not create it",
			Remedy: "create the role AWSServiceRoleForEC2Spot once in each account: `aws iam create-service-linked-role " +
				"--aws-service-name spot.amazonaws.com`",
			Lines:    []string{`ServiceLinkedRoleCreationNotPermitted`, `permission to create the service-linked role`},
			Commands: []string{"aws iam list-roles --path-prefix /aws-service-role/spot.amazonaws.com/"}},
		{ID: "node-pool", Until: joined,
			Cause: "Karpenter starts no instance, because no NodePool and no instance type fits the pods, or the " +
				"EC2NodeClass is not ready",
			Remedy: "compare the pod's requests, tolerations and selectors with the NodePools, which the line names; " +
				"read the conditions of the EC2NodeClass, and when they stay unknown, update Karpenter's definitions (CRDs)",
			Lines: []string{`(incompatible with|did not tolerate) (nodepool|provisioner)`,
				`incompatible requirements, (key|label)`, `no instance type (satisfied|which|met|has)`, `(all available ` +
					`instance types exceed limits|exceed limits for (nodepool|provisioner))`,
				`no nodepools found|[nN]o provisioners? found`, `nodepool requirements filtered out all`,
				`resolving ec2nodeclass, object is awaiting reconciliation`, `NodeClaim\S* \\*"[^"]*" is invalid`,
				`(nodeClass isn't ready|[nN]ode[cC]lass .*(is )?not ready|ignoring nodepool, not ready)`},
			Others: "the controller has just started, and has not looked at its objects yet",
			Commands: []string{"kubectl get nodepools --output yaml", "kubectl describe pods", "kubectl describe ec2nodeclasses",
				"kubectl get customresourcedefinitions ec2nodeclasses.karpenter.k8s.aws --output yaml"}},
		{ID: "startup-taint",
			Cause: "Karpenter does not accept the node: it registered without the taint karpenter.sh/unregistered, or a " +
				"startup taint stays on it",
			Remedy: "with own user data, add `--register-with-taints=karpenter.sh/unregistered:NoExecute` to the " +
				"kubelet's flags; for a startup taint, install the agent that removes it",
			Lines: []string{`missing required startup taint`, `missing taint prevents registration`,
				`(StartupTaint|KnownEphemeralTaint) \\*".*still exists`},
			Commands: []string{"kubectl describe nodeclaims", "kubectl get nodes --output yaml"}},
		{ID: "kms-key", Until: joined,
			Cause: "EC2 may not use the key of the encrypted image or volume, so the instance ends at once",
			Remedy: "let the key's policy allow the role that starts the instances, such as " +
				"AWSServiceRoleForAutoScaling, to use the key and to create grants",
			Lines: []string{`(Client\.InternalError|InvalidKMSKey|KMSKeyNotAccessible|KMSAccessDenied)`, `KMS key .*(not ` +
				`accessible|does not exist|is disabled|pending deletion)`, `inaccessible (AWS )?KMS key`,
				`KMS(KeyDisabled|InvalidState)Exception`, `ot authorized to perform: kms:`},
			Commands: []string{"aws ec2 describe-images --image-ids AMI --query 'Images[].BlockDeviceMappings'"}},
		{ID: "machine-boot", Until: joined,
			Cause: "the machine does not boot or hangs: its kernel panics, or waits for a disk or a network card, or " +
				"a file system that /etc/fstab names cannot be mounted",
			Remedy: "read the console's output; remove the entries of volumes that the instance lacks from /etc/fstab, " +
				"or add nofail; when the kernel waits, use an image with another kernel, or a volume with more throughput",
			Lines: []string{`Kernel panic - not syncing`, `VFS: (Unable to mount|Cannot open) root`,
				`(ALERT! .*|Warning: /dev/\S+) does not exist`, `(You are in|Entering) (emergency|rescue) mode`,
				`Dependency failed for (Local File Systems|/\S)`, `Timed out waiting for device \S+`,
				`Dependency failed for [^/]*\(/\S+\)`, `\[FAILED\].* Failed to mount `, `BUG: soft lockup`,
				`blocked for more than \d+ seconds`, `rcu: INFO: rcu_\w+ .*detected stalls`,
				`NMI watchdog: .*LOCKUP`, `nvme\d+: I/O \d+ .*timeout`, `(NETDEV WATCHDOG: |lost tx completions is above|` +
					`Keep alive watchdog timeout)`},
			Not:      `(BOTTLEROCKET|[Bb]ottlerocket)`,
			Explains: []string{"containerd"},
			Commands: []string{"aws ec2 get-console-output --latest --output text --instance-id ID", "sudo findmnt --verify",
				"sudo uname --kernel-release", "sudo journalctl --dmesg --priority err --no-pager"}},
		{ID: "node-network", Until: joined,
			Cause: "the machine's own network is not configured: it has no address, no route, or its interface has " +
				"another name",
			Remedy: "check the configuration of the network on the image, such as a fixed hardware address or interface " +
				"name in it, and the instance's interfaces",
			Lines: []string{`can't get ip address of node`, `Failed to start .*Wait for Network to be Configured`, `Failed to start .*(Network ` +
				`(Configuration|Manager|Service|Name Resolution)|networkd|Write network status|Raise network interfaces)`,
				`netdog\[\d+\]: (Unable|Failed|No |Invalid)`, `connect: network is unreachable`,
				`dial tcp [^ ]+: network is unreachable`, `(no default routes found in|unable to select an IP|Unable to ` +
					`select an IP|find any default route)`},
			Not:      `\[fd00:ec2::254\]`, // most VPCs have no IPv6
			Others:   "the network was not up yet, and the program tries again",
			Explains: []string{"blocked", "aws-api", "dns", "metadata"},
			Commands: []string{"sudo ip address", "sudo ip route", "sudo journalctl --boot --unit systemd-networkd --unit " +
				"NetworkManager --no-pager"}},
		{ID: "arguments", Until: joined,
			Cause:  "the user data calls bootstrap.sh with invalid arguments",
			Remedy: "correct the call in the user data",
			Lines: []string{`bootstrap\.sh: --[a-z0-9-]+ "`, `checking the arguments:`, `the cluster's name is missing`,
				`: --[a-z0-9-]+: command not found`, `Invalid IpFamily`, `Service Ipv6 Cidr must be provided`,
				`No entry for type '[^']*' in `, `ERROR: .*container runtime`},
			Commands: []string{checkUserData, "sudo /etc/eks/bootstrap.sh --help"}},
		{ID: "templates", Until: joined,
			Cause: "the user data calls bootstrap.sh, which the image does not have, or whose templates it lacks",
			Remedy: "use a NodeConfig on Amazon's images of Amazon Linux 2023, or make the image with `eksnode " +
				"provision`, which supports both; on Amazon Linux 2 `eksnode scrub` restores and keeps the templates",
			Lines: []string{`sed: can't read /(var/lib/kubelet|etc/containerd|etc/eks)/`, `(jq: error: Could not open ` +
				`file|jq: error \(at) /etc/kubernetes/kubelet/`, `cp: cannot stat '/etc/eks/`, `/etc/eks/bootstrap\.sh: (No ` +
				`such file or directory|not found|command not found)`, `bootstrap\.sh has been removed from AL2023`},
			Commands: []string{"sudo eksnode audit --rules can-join", renderUserData}},
		{ID: "cluster-name", Until: joined,
			Cause:    "the node's region and account have no cluster of that name",
			Remedy:   "correct the name in the user data, or start the node in the region and account of the cluster",
			Lines:    []string{`No cluster found for name: `},
			Commands: []string{"aws eks list-clusters --region REGION"}},
		{ID: "throttled", Until: joined,
			Cause: "AWS or a registry refuses requests because there are too many of them",
			Remedy: "start fewer nodes at once, or have the quota raised; pass the endpoint and the certificate " +
				"authority in the user data, which saves a call of each node; pull through a cache for Docker Hub's limit",
			Lines:    []string{`TooManyRequestsException`},
			Not:      `retryable error`,
			Explains: []string{"registry", "pause-image", "user-data-script"},
			Commands: []string{"sudo journalctl --boot --no-pager --grep TooManyRequests", renderUserData}},
		{ID: "permissions", Until: joined,
			Cause: "the node's role lacks a permission",
			Remedy: "attach AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and AmazonEKS_CNI_Policy to " +
				"the node's role",
			Lines: []string{`(is not|isn't) authorized to (perform: |call )`, `UnauthorizedOperation`, `AuthCheckFailed`,
				`not the owner of`},
			Not:      `AssumeRoleWithWebIdentity|perform: (ssm|ssmmessages|ec2messages|logs|cloudwatch|xray):|ecr-public:|kms:`,
			Others:   "a service control policy, a permissions boundary or the policy of a VPC endpoint denies the call",
			Explains: []string{"network-plugin"},
			Commands: []string{preflight, "eksnode manifests --cluster NAME --role ARN --only policies"}},
		{ID: "irsa",
			Cause: "a service account's role cannot be assumed: the cluster has no OIDC provider in the account, or the " +
				"role's trust policy names another cluster, namespace or service account",
			Remedy: "compare the cluster's issuer with the account's providers, and both with the condition in the " +
				"role's trust policy; for the VPC CNI a pod identity, or AmazonEKS_CNI_Policy on the node's role, avoids " +
				"the provider",
			Lines: []string{`WebIdentityErr`, `No OpenIDConnect provider found`, `InvalidIdentityToken`,
				`ssumeRoleWithWebIdentity.*(AccessDenied|StatusCode: 40\d|[nN]ot authorized)`,
				`ot authorized to perform:? sts:AssumeRoleWithWebIdentity`},
			Not:      `dial tcp|i/o timeout|no such host|deadline exceeded`,
			Explains: []string{"network-plugin"},
			Commands: []string{"aws eks describe-cluster --name NAME --query cluster.identity.oidc.issuer",
				"aws iam list-open-id-connect-providers"}},
		{ID: "pod-identity",
			Cause: "the EKS Pod Identity agent does not run on the node, or the service account has no association",
			Remedy: "install the add-on eks-pod-identity-agent, and associate the role with the service account; the " +
				"node's role needs eks-auth:AssumeRoleForPodIdentity",
			Lines: []string{`(eks-auth|EKS ?Auth).*(AccessDenied|ResourceNotFoundException|is not authorized)`,
				`(fd00:ec2::23|169\.254\.170\.23)\S*: bind`},
			Explains: []string{"network-plugin"},
			Commands: []string{"aws eks list-pod-identity-associations --cluster-name NAME", "kubectl --namespace kube-system " +
				"get pods --selector app.kubernetes.io/name=eks-pod-identity-agent --output wide"}},
		{ID: "proxy", Until: joined,
			Cause: "the proxy does not answer the node, or refuses its requests",
			Remedy: "correct the proxy's address in spec.instance.environment and in the units' environment; exclude the " +
				"cluster's endpoint, the Service range, 169.254.169.254 and the VPC from the proxy",
			Lines: []string{`Proxy Authentication Required`, `(Tunnel connection failed|[cC]annot connect to proxy|` +
				`Failed to connect to proxy URL|Received HTTP code \d+ from proxy)`,
				// Go's answer to a CONNECT that a proxy refuses. Servers' own answers have more words.
				`"https://[^ "\\]+\\*": (Forbidden|Bad Gateway|Gateway Timeout|Service Unavailable)\b`},
			Explains: []string{"blocked", "aws-api", "registry-unreachable"},
			Commands: []string{"sudo systemctl cat kubelet containerd", "sudo cat /etc/environment"}},
		{ID: "aws-api", Until: joined,
			Cause: "the node cannot reach an AWS API: a route, an endpoint or a security group is missing",
			Remedy: "give the subnet a NAT gateway, or VPC endpoints for ec2, eks, sts, ecr.api, ecr.dkr and s3 with " +
				"security groups that allow port 443 from the node; otherwise name a proxy in spec.instance.environment",
			Lines: []string{`request failed with unretryable error https response error StatusCode: 0`,
				`(private DNS name|cluster) from (EC2|EKS): deadline has elapsed`, `(Error describing instance|describing ` +
					`cluster).*(dispatch failure|imed ?out)`, `https://(ec2|eks|sts|api\.ecr)\.[^ ]*: dial tcp timeout`,
				`retrying request (EC2|EKS)/`, `; the node needs a route to this address: `,
				`RequestError: send request failed`, `EKS Describe Cluster API response: `},
			Not: `(lookup|LookupHost) .*(no such host|server misbehaving)|UnauthorizedOperation|AccessDenied|network is ` +
				`unreachable|dial tcp: i/o timeout|ec2imds: `,
			Others:   "a proxy refuses the connection, or DNS gives the address of an endpoint in another VPC",
			Commands: []string{preflight, "aws ec2 describe-vpc-endpoints --filters Name=vpc-id,Values=ID"}},
		{ID: "metadata", Until: joined,
			Cause: "the instance metadata service does not answer",
			Remedy: "set the instance's metadata options to http-endpoint=enabled, and check the node's network; a " +
				"script that needs the region without the service takes AWS_REGION from spec.instance.environment",
			Lines: []string{`asking the instance metadata service for `, `EC2MetadataRequestError`,
				`failed to make EC2Metadata request`,
				`ec2imds: \w+.*(deadline exceeded|cancel|StatusCode: 40[13]|dial tcp|read tcp)`,
				`identity metadata: operation error ec2imds`, `EC2 instance metadata is not available`, `IMDS request failed: `,
				`[fF]ailed to (get|retrieve|fetch) .*(from|in) (IMDS|imds|EC2 [mM]etadata|instance metadata)`,
				`unable to determine AWS zone`, `You must specify a region`,
				`Calling 'http://(169\.254\.169\.254|\[fd00:ec2::254\])/[^']*' failed \[\d\d`}, // after ten seconds
			Others: "a firewall on the node blocks 169.254.169.254, or a container asks over more hops than the instance " +
				"allows",
			Explains: []string{"aws-api", "credentials", "provider-id"},
			Commands: []string{"aws ec2 describe-instances --instance-ids ID --query " +
				"'Reservations[].Instances[].MetadataOptions'", "aws ec2 modify-instance-metadata-options --instance-id ID " +
				"--http-endpoint enabled", "sudo eksnode init --dry-run"}},
		{ID: "datasource", Until: joined,
			Cause: "cloud-init found no data source, so it read no user data",
			Remedy: "allow the data source Ec2 in datasource_list below /etc/cloud; the interface must exist when " +
				"cloud-init starts, and the metadata service must answer; remove /etc/cloud/cloud-init.disabled and " +
				"/run/cloud-init from the image",
			Lines: []string{`no datasource found! Likely bad things`, `Did not find any data source`,
				`Datasource DataSourceNone`, `(Used fallback datasource|No instance datasource found)`},
			Others:   "the metadata service did not answer",
			Explains: []string{"user-data-script"},
			Commands: []string{"sudo cat /run/cloud-init/ds-identify.log", "sudo grep --recursive datasource_list /etc/cloud"}},
		{ID: "clock", Until: joined,
			Cause:  "the machine's clock is wrong",
			Remedy: "let the time service reach 169.254.169.123 or another source, then restart the kubelet",
			Lines: []string{`certificate has expired or is not yet valid`, `SignatureDoesNotMatch`,
				`Signature (expired|not yet current)`, `; check the machine's clock`, `RequestExpired`,
				`RequestTimeTooSkewed`},
			Others:   "the certificate itself has expired",
			Explains: []string{"unauthorized", "credentials"},
			Commands: []string{"sudo timedatectl", "sudo chronyc tracking", "sudo systemctl restart kubelet"}},
		{ID: "dns", Until: joined,
			Cause: "DNS does not resolve a name",
			Remedy: "turn on enableDnsSupport in the VPC, and for a private endpoint enableDnsHostnames too; check the " +
				"DHCP options and spec.instance.network.nameservers",
			Lines: []string{`(dial (tcp|udp)|read udp) [^ ]*:53: (i/o timeout|connection refused)`,
				`dial tcp: i/o timeout`}, // the name's lookup: a connection's time-out has an address
			Owners: []Owner{
				{Line: `169\.254\.20\.10`,
					Cause: "DNS does not resolve a name: the node-local cache, which has the address 169.254.20.10, does not " +
						"answer",
					Remedy: "the cache's pod must run before a program on the node can ask it: give the kubelet's clusterDNS " +
						"to pods only, and the node the VPC's resolver",
					Commands: []string{"kubectl --namespace kube-system get pods --selector k8s-app=node-local-dns --output wide",
						"sudo cat /etc/resolv.conf"},
				},
			},
			Commands: []string{"aws ec2 describe-vpc-attribute --vpc-id ID --attribute enableDnsSupport",
				"aws ec2 modify-vpc-attribute --vpc-id ID --enable-dns-support", "sudo cat /etc/resolv.conf"}},
		{ID: "blocked", Until: reached,
			Cause: "the node cannot reach the API server: a security group, a route or a network ACL blocks the traffic",
			Remedy: "allow port 443 from the node to the cluster's security group, and port 10250 in the other " +
				"direction; check the subnet's route (NAT gateway or private endpoint) and the endpoint's public access list",
			Lines: []string{`net/http: TLS handshake timeout`, `server is not ready: failed to (get|retrieve)`,
				`(failed to get CA certs|CA cert validation failed): .*(imeout|deadline)`, // k3s' own local address
				`abort connecting to API servers after`,
				`[cC]onnect to \S+\.eks\.amazonaws\.com`},
			Not: `/v2/|: connection refused|https://(ec2|eks|sts|iam|sqs|api\.pricing|api\.ecr|ssm|ssmmessages|` +
				`ec2messages|logs|monitoring|s3)\.|https?://([0-9.]+|\[[0-9a-f:]+\]):443/|https?://[^/ ]*(dkr[.-]ecr|` +
				`\.s3[.-])|failed to do request|169\.254\.169\.254|lookup |x509: |dial tcp :|timed out waiting for the ` +
				`condition`,
			Others: "the endpoint in the user data is not that of the cluster, or the API server restarted at that time",
			Commands: []string{preflight, "aws eks describe-cluster --name NAME --query cluster.endpoint --output text",
				"sudo curl --insecure --max-time 5 ENDPOINT/livez"}},
		{ID: "refused", Until: reached,
			Cause: "nothing listens at the API server's address and port: the machine there answers and refuses the " +
				"connection",
			Remedy: "compare server and port in the kubeconfig with the cluster's endpoint; for a control plane of your " +
				"own, see whether kube-apiserver runs there",
			Lines: []string{`dial tcp [0-9.\[\]a-f:]+:(443|6443): (connect|getsockopt): connection refused`,
				`([uU]nable to register |[rR]egister node|[eE]nsure (node )?lease|retrieve node info|updating node status|` +
					`CSINode publishing|[fF]ailed to (list|watch) \*v1).*connection refused`},
			Not: `/v2/|https://(localhost[:/]|(ec2|eks|sts|iam|sqs|api\.pricing|api\.ecr|ssm|ssmmessages|ec2messages|logs|` +
				`monitoring|s3)\.)|https?://([0-9.]+|\[[0-9a-f:]+\]):443/|https?://[^/ ]*(dkr[.-]ecr|\.s3[.-])|` +
				`failed to do request|169\.254\.169\.254|lookup |x509: |dial tcp :|timed out waiting for the condition`,
			Others: "the API server restarted at that time, or a proxy or firewall refuses on its behalf",
			Commands: []string{"sudo grep server: /var/lib/kubelet/kubeconfig", "aws eks describe-cluster --name NAME --query " +
				"cluster.endpoint --output text", "sudo curl --insecure --max-time 5 ENDPOINT/livez"}},
		{ID: "kube-proxy", Until: `Successful communication with the Cluster`,
			Cause: "the Service address of the API server does not answer on this node: kube-proxy does not run, or its " +
				"rules do not work; the security groups are not the cause when the kubelet itself reaches the endpoint",
			Remedy: "read kube-proxy's log; its add-on must fit the cluster's version, and the node's name must be the " +
				"one that the kubelet registers",
			Lines: []string{`https://([0-9.]+|\[[0-9a-f:]+\]):443/.*(i/o timeout|deadline exceeded|awaiting headers|` +
				`(connect|getsockopt): )`, `Failed to communicate with K8S Server`, `Failed to retrieve node info`,
				`proxier\.go:\d+\] "?([a-z]+ )?([sS]ync failed|[fF]ailed to (execute|list|run|ensure))`,
				`(Error running ProxyServer|Unable to create proxer|unable to create proxier|can.t (use|` +
					`initialize) the ipvs proxier)`, `Testing communication with server`, `[fF]ailed to execute iptables-restore`,
				`(Failed to check API server connectivity|Unable to reach API Server)`, `xtables\.lock is not a file`,
				`KubeProxyConfiguration.*unknown field`, `kubeproxy\.config\.k8s\.io.*(no kind|strict decoding)`},
			Not:      `nf_conntrack_max`,
			Others:   "the API server itself does not answer the node",
			Explains: []string{"network-plugin"},
			Commands: []string{"kubectl --namespace kube-system logs --selector k8s-app=kube-proxy --tail 50",
				"aws eks describe-addon --cluster-name NAME --addon-name kube-proxy"}},
		{ID: "kubelet-port",
			Cause:    "the API server cannot reach the kubelet's port 10250, so logs and exec fail",
			Remedy:   "allow port 10250 from the cluster's security group to the node's",
			Others:   "the kubelet did not run at that time",
			Commands: []string{preflight}},
		{ID: "other-ca", Until: joined,
			Cause: "the authority in the node's ca.crt did not sign the API server's certificate: the certificate " +
				"authority and the endpoint belong to different clusters, or a proxy intercepts TLS",
			Remedy: "take both from one description of the cluster, run init again, and exclude *.eks.amazonaws.com from " +
				"intercepting proxies",
			Lines: []string{`certificate signed by unknown authority`, `x509: (certificate is valid for .*, not |cannot ` +
				`validate certificate for|certificate relies on legacy)`, `(CERTIFICATE_VERIFY_FAILED|SSL validation failed|` +
				`SSL certificate problem: (unable|self))`},
			Not: `failed to do request|failed to resolve reference|:10250/|dialing backend|level"?[=:] ?"?info`,
			Commands: []string{"aws eks describe-cluster --name NAME --query 'cluster.[endpoint,certificateAuthority.data]'",
				"sudo eksnode init"}},
		{ID: "ca-file", Until: joined,
			Cause: "the cluster's certificate authority is missing or is not a certificate",
			Remedy: "set spec.cluster.certificateAuthority, or --b64-cluster-ca, as base64 of the PEM text, and run init " +
				"again",
			Lines: []string{`unable to load client CA file`, `unable to load root certificates`,
				`data does not contain any valid RSA or ECDSA certificates`, `illegal base64 data at input byte`,
				`base64: invalid input`, `unable to (read|load) certificate-authority`, `failed to find any PEM data`,
				`failed to run Kubelet: open \S+\.(crt|pem): no such file`},
			Commands: []string{"aws eks describe-cluster --name NAME --query cluster.certificateAuthority.data --output text",
				"sudo eksnode init"}},
		{ID: "no-kubeconfig", Until: joined,
			Cause: "the kubelet has no kubeconfig, or one without the API server's address or with a token command of " +
				"another API version",
			Remedy: "first boot writes the file: read its journal, and run init again; `eksnode scrub` corrects the " +
				"template; leftovers of another installer, such as kubeadm's unit files, name files that nodes of EKS do " +
				"not have",
			Lines: []string{`unable to load bootstrap kubeconfig`, `(invalid configuration: no (server|configuration)|no ` +
				`configuration has been provided|invalid kubeconfig: stat)`, `https:///api`, `https://:\d+/`,
				`[eE]rror loading config file \\*"[^"]*(kubeconfig|\.conf)`, `[sS]tandalone mode, (no API client|will skip)`,
				`No api server defined`, `assuming standalone kubelet|KubeClient is nil`, `invalid kubeconfig: `,
				`no client provided, cannot use webhook`, `exec plugin: invalid apiVersion`, `exec plugin is configured to ` +
					`use API version [^,]+, plugin returned version`},
			Not:      `illegal base64|certificate-authority`,
			Commands: []string{"sudo ls -l /var/lib/kubelet/kubeconfig", kubeletUnit, "sudo eksnode init"}},
		{ID: "no-identity", Until: joined,
			Cause: "the kubelet sends the API server no certificate and no token, so it is system:anonymous there",
			Remedy: "the kubeconfig must name a user with the token command that first boot writes: run init again; " +
				"elsewhere the client certificate was removed, or the bootstrap token is missing: join the node again",
			Lines: []string{`User \\*"system:anonymous\\*" cannot ` + ofNodes,
				`nodes is forbidden: User \\*"system:anonymous`},
			Explains: []string{"unauthorized"},
			Commands: []string{"sudo grep -A 12 users: /var/lib/kubelet/kubeconfig", "sudo eksnode init"}},
		{ID: "client-certificate", Until: joined,
			Cause: "the kubelet's client certificate has expired",
			Remedy: "nodes of EKS identify themselves by the role and need no such certificate: remove " +
				"/var/lib/kubelet/pki, and run init again; elsewhere join the node again",
			Lines: []string{`[cC]lient certificate(s)? (in \S+ )?(has|have|is|are) expired`,
				`remote error: tls: (expired|bad|unknown) certificate`},
			Explains: []string{"no-kubeconfig", "unauthorized"},
			Not:      `TLS handshake error from`,
			Commands: []string{"sudo ls -l /var/lib/kubelet/pki", "sudo eksnode init"}},
		{ID: "credentials", Until: joined,
			Cause:  "the node has no credentials, or no program that makes a token",
			Remedy: "attach an instance profile with the node's role; install the kubeconfig's token command on the node",
			Lines: []string{`getting the (instance role's|node's) credentials:`, `Unable to locate credentials`,
				`getting credentials: exec: (executable|exec|exit status|fork)`, `StatusCode: 404, request to EC2 IMDS failed`,
				`(EC2RoleRequestError|no valid providers in chain|could not find (default )?credentials|` +
					`no identity-based credentials)`,
				`(UnrecognizedClientException|InvalidClientTokenId|InvalidAccessKeyId|ExpiredToken|AuthFailure)`,
				`(failed to refresh cached credentials|error in credential_process)`,
				`SSM activation expired|InvalidActivation|register machine with SSM`},
			Not:    `GetUserData|deadline exceeded|check the machine's clock|ServiceLinkedRole|not the owner of`,
			Others: "EC2 may not assume the role of the profile, or the profile was attached after the node started",
			Commands: []string{"aws iam get-instance-profile --instance-profile-name PROFILE", "aws ec2 " +
				"associate-iam-instance-profile --instance-id ID --iam-instance-profile Name=PROFILE"}},
		{ID: "other-node", Until: joined,
			Cause: "the node's name differs from the name that the authenticator gives the instance",
			Remedy: "the name must be EC2's private DNS name: remove --hostname-override from the kubelet's flags; check " +
				"the VPC's DHCP options for a custom domain, and the username in aws-auth " +
				"(system:node:{{EC2PrivateDNSName}}); with InstanceIdNodeName in the NodeConfig the name is the instance's ID, " +
				"and the role needs an access entry of the type EC2 (system:node:{{SessionName}}); an image captured from " +
				"a joined node contains the old name and needs `eksnode scrub`",
			Lines: []string{`is not allowed to modify node`, `is forbidden: node \S+ cannot modify node`,
				`only its own Node object`, `can only access (node lease|CSINode) with the same name as the requesting node`,
				`NODE DENY: '`, `(nodes|leases\S*|csinodes\S*) \\*"[^"\\.]+\\*" is forbidden: User ` +
					`\\*"system:node:[^"\\.]+\.[^"\\]+\\*"`, `(nodes|leases\S*|csinodes\S*) \\*"[^"\\.]+\.[^"\\]+\\*" is ` +
					`forbidden: User \\*"system:node:[^"\\.]+\\*"`},
			Commands: []string{"aws ec2 describe-instances --instance-ids ID --query " +
				"'Reservations[].Instances[].PrivateDnsName'", "sudo hostnamectl", "kubectl --namespace kube-system get " +
				"configmap aws-auth --output yaml"}},
		{ID: "node-name", Until: joined,
			Cause: "the node's name is empty, because EC2 named no private DNS name, or has characters that Kubernetes " +
				"refuses",
			Remedy: "turn on enableDnsSupport and enableDnsHostnames in the VPC, and start a new instance; give the " +
				"machine a host name in lower case with letters, digits, dots and hyphens, or correct --hostname-override",
			Lines: []string{`(metadata|nodeRegistration)\.name: Invalid value`, `Node \\*"\\*"(:| is invalid)`,
				`Unable to register node \\*"\\*" with API server`, `"Attempting to register node" node=""`,
				`(private_dns_name|PrivateDnsName)' in EC2 response`, `User \\*"system:node:\\*"`, `InstanceCondition waiter`},
			Commands: []string{"sudo hostnamectl", kubeletUnit, "aws ec2 modify-vpc-attribute --vpc-id ID --enable-dns-support",
				"aws ec2 modify-vpc-attribute --vpc-id ID --enable-dns-hostnames", "aws ec2 describe-instances --instance-ids ID " +
					"--query 'Reservations[].Instances[].PrivateDnsName'"}},
		{ID: "node-ip", Until: joined,
			Cause: "the kubelet's node IP is not an address of this machine",
			Remedy: "remove --node-ip from the kubelet's flags, or give the address of the primary interface; an image " +
				"captured from a joined node contains the old address and needs `eksnode scrub`",
			Lines: []string{`failed to validate (secondaryN|n)odeIP`, `not found in the host's network interfaces`,
				`(bad --node-ip|nodeIP (can't|must) be)`,
				`is not in any of the remote network CIDR blocks`},
			Explains: []string{"blocked"},
			Commands: []string{"sudo ip address", kubeletUnit}},
		{ID: "provider-id",
			Cause: "the cloud controller does not find the instance of a node, or the instance's tag with the cluster's " +
				"name, so the node stays uninitialized or is deleted",
			Remedy: "the node's name must be EC2's private DNS name, or the kubelet must set providerID; check the VPC's " +
				"DHCP options; tag the instance with kubernetes.io/cluster/NAME and the value owned",
			Lines: []string{`failed to get (provider|instance) ID (for node|from cloud provider)`,
				`(providerID empty|node has no providerID|[pP]rovider ID is empty)`, `(taints?(\(s\))? \{|Taints: +)` +
					`node\.cloudprovider\.kubernetes\.io/uninitialized`, `error finding instance \S+: .*not found`,
				`failed to get (external ID|instance type|zone) from cloud provider`,
				`([fF]ailed to|did not|could not) find ClusterID`},
			Commands: []string{"kubectl get nodes --output custom-columns=NAME:.metadata.name,ID:.spec.providerID",
				"aws ec2 describe-instances --instance-ids ID --query 'Reservations[].Instances[].PrivateDnsName'",
				"aws ec2 describe-tags --filters Name=resource-id,Values=ID", "eksnode manifests --cluster NAME --role ARN " +
					"--only tags"}},
		{ID: "role-groups", Until: joined,
			Cause: "the cluster accepts the node's role, but not as a role of nodes",
			Remedy: "map the role to the groups system:bootstrappers and system:nodes, or create an access entry of type " +
				"EC2_LINUX",
			Lines: []string{`User \\*"[^"\\]*\\*" cannot ` + ofNodes,
				`could not determine node from user`, `aws-auth ConfigMap in your cluster is invalid`},
			Not: `User \\*"system:anonymous\\*"|only its own Node object|"system:node:\\*"|` +
				`can only access (node lease|CSINode)|"[^"\\.]+\\*" is forbidden: ` +
				`User \\*"system:node:[^"\\.]+\.[^"\\]+\\*"|"[^"\\.]+\.[^"\\]+\\*" is forbidden: ` +
				`User \\*"system:node:[^"\\.]+\\*"`,
			Commands: []string{"aws eks describe-access-entry --cluster-name NAME --principal-arn ARN",
				"eksnode manifests --cluster NAME --role ARN --only access-entry"}},
		{ID: "unauthorized", Until: joined,
			Cause: "the API server cannot identify the node: the node's role is not mapped, or its token is for another " +
				"cluster",
			Remedy: "create an access entry of type EC2_LINUX for the node's role (not the profile), or map it in " +
				"aws-auth without a path; the cluster's name and the endpoint in the user data must belong together; an " +
				"image captured from a joined node needs `eksnode scrub`",
			Lines: []string{`err="Unauthorized"`, `'Unauthorized' \(will not retry!\)`, `: Unauthorized\b`,
				`(^|stderr F )Unauthorized$`, `You must be logged in to the server`,
				`the server has asked for the client to provide credentials`, `with API server: unauthorized`,
				`token does not match the server`, `(ARN|arn|[rR]ole|[iI]dentity) is not mapped`,
				`sts getCallerIdentity failed`}, // the authenticator's log
			Not:    `re-listing nodes|ClusterInformation|GET result: `, // own tokens of eksctl, Calico and Ignition
			Others: "the clock of the node is wrong, or the security token service is off in the region",
			Commands: []string{preflight, "aws eks list-access-entries --cluster-name NAME", "eksnode manifests --cluster " +
				"NAME --role ARN --only access-entry"}},
		{ID: "version-skew",
			Cause:  "the kubelet is newer than the control plane, or more than three minor versions older",
			Remedy: "use an image whose kubelet has the control plane's version or is up to three minor versions older",
			Lines: []string{`the server could not find the requested( resource|$)`,
				`no kind \\*"[^"]*" is registered for version`},
			Not:    `[kK]ubelet config|failed to decode|loading config file|\.yaml"`,
			Others: "a program asks for an API that the cluster removed or never had",
			Commands: []string{"sudo kubelet --version", "aws eks describe-cluster --name NAME --query cluster.version " +
				"--output text"}},
		{ID: "node-labels", Until: joined,
			Cause: "the kubelet may not set one of the labels: in the namespaces kubernetes.io and k8s.io it may set a " +
				"few only",
			Remedy: "use the prefix node.kubernetes.io/ or a domain of your own in --node-labels and spec.kubelet.flags; " +
				"set node-role.kubernetes.io/ROLE after the join",
			Lines: []string{`unknown 'kubernetes\.io' or 'k8s\.io' labels specified`,
				`--node-labels in the 'kubernetes\.io' namespace must begin with`,
				`(invalid node labels|metadata\.labels: Invalid value)`,
				`is not allowed to (modify|set) (the following )?(labels|taints)`},
			Commands: []string{checkUserData, "kubectl label node NODE node-role.kubernetes.io/ROLE="}},
		{ID: "runtime-endpoint", Until: joined,
			Cause: "the kubelet or a tool asks a socket where no container runtime listens, such as that of dockershim",
			Remedy: "set containerRuntimeEndpoint: unix:///run/containerd/containerd.sock in the kubelet's " +
				"configuration, and for crictl in /etc/crictl.yaml",
			Lines: []string{`container runtime endpoint address was not specified or empty`, `dial unix: missing address`,
				`dial unix \S*(dockershim|cri-dockerd)\.sock: connect: `},
			Commands: []string{"sudo crictl --runtime-endpoint unix:///run/containerd/containerd.sock info", kubeletUnit}},
		{ID: "kubelet-flags", Until: joined,
			Cause: "the kubelet refuses a flag or a setting: its version does not support it, the value is invalid, or " +
				"settings contradict each other",
			Remedy: "remove the named flag or setting from spec.kubelet or --kubelet-extra-args; settings from an " +
				"earlier first boot are in /etc/systemd/system/kubelet.service.d or /etc/kubernetes/kubelet: run `eksnode " +
				"scrub` before the image is captured",
			Lines: []string{`invalid argument \\*"[^"]*" for \\*"--[a-z-]+\\*" flag`,
				`failed to (load|read|merge|unmarshal|convert|precedence|validate|parse) (the )?(merged|[kK]ubelet)`,
				`unrecognized feature gate`, `built-in cloud providers are disabled`, `unknown command \S+$`,
				`unknown cloud provider \\*"`, `flag provided but not defined: -|unknown shorthand flag: `,
				`cannot set feature gate`, `value failed to parse: `,
				`(invalid Node Allocatable configuration|unable to parse reserved-cpus|reserved-cpus: \S+ is not a subset)`,
				`the total amount .* (of type|is not equal)`, `invalid configuration: cgroups-per-qos`,
				`[tT]opology [mM]anager policy options? .*(require|not supported|unknown)`,
				`unknown (cpu|memory|topology) ?manager policy|[uU]nknown policy: `, `forbidden sysctl: `},
			Not:      `: no such file or directory|not run on a host using cgroup v1|validate kubelet flags: `,
			Commands: []string{kubeletUnit, checkUserData}},
		{ID: "cgroup-driver",
			Cause: "the kubelet and containerd use different cgroup drivers",
			Remedy: "set both to systemd: cgroupDriver in the kubelet's configuration, SystemdCgroup = true in " +
				"containerd's; remove the other value from the user data",
			Lines: []string{`expected cgroupsPath to be of format`, `is different from (docker )?cgroup driver: |kubelet ` +
				`cgroup driver: .* is different from`, `cgroup-parent for systemd cgroup should be a valid slice`,
				`configured with (systemd|cgroupfs) cgroup manager`},
			Commands: []string{"sudo containerd config dump", "sudo grep --recursive cgroupDriver /etc/kubernetes"}},
		{ID: "reserved-cgroups", Until: joined,
			Cause: "the kubelet enforces reserved resources on a cgroup that does not exist or lacks controllers",
			Remedy: "remove kube-reserved and system-reserved from enforceNodeAllocatable, or make the cgroup before the " +
				"kubelet starts: with the systemd driver, kubeReservedCgroup and systemReservedCgroup name a slice without " +
				"its suffix",
			Lines: []string{`Failed to enforce (System|Kube) Reserved Cgroup Limits`,
				`invalid configuration: cgroup-root .* doesn't exist`},
			Commands: []string{"sudo systemd-cgls --no-pager", kubeletUnit}},
		{ID: "cgroups", Until: joined,
			Cause: "the kernel lacks cgroup controllers that the kubelet needs, or has cgroup v1, which kubelet 1.35 and " +
				"newer refuse",
			Remedy: "boot with systemd.unified_cgroup_hierarchy=1, and without cgroup_disable= and a mixture of " +
				"versions; for cgroup v1, failCgroupV1: false in spec.kubelet.config",
			Lines: []string{`(failed to find cgroup mounts|Following Cgroup subsystem not mounted|` +
				`cgroup hierarchy not unified|some missing controllers)`, `(top level QOS containers|requested cgroup controller)`,
				`[cC]annot set property \w+, or unknown property`, `cannot enter cgroupv2`,
				`failed to (create|update) top level \S+ QOS cgroup`, `cgroup mountpoint does not exist`,
				`root container \[\S+\] doesn't exist`, `cgroup is not configured properly`, `[fF]ailed to find subsystem mount`,
				`kubelet is configured to not run on a host using cgroup v1`},
			Not: `Reserved Cgroup Limits`,
			Commands: []string{"sudo cat /proc/cmdline", "sudo cat /sys/fs/cgroup/cgroup.controllers",
				"sudo stat --file-system --format %T /sys/fs/cgroup"}},
		{ID: "port-in-use", Until: joined,
			Cause:    "another process uses a port of the kubelet or of a node's pod",
			Remedy:   "end the other process: a second kubelet, a leftover of another installer, or an agent of the image",
			Commands: []string{"sudo ss --listening --tcp --processes --numeric"}},
		{ID: "kernel-settings", Until: joined,
			Cause: "a kernel setting differs from the one that the kubelet or pods' network demand",
			Remedy: "the line names the setting: set it in /etc/sysctl.d, as `eksnode provision` does for kernel.panic, " +
				"kernel.panic_on_oops, vm.overcommit_memory and net.ipv4.ip_forward",
			Lines:    []string{`[iI]nvalid kernel flag: `, `/proc/sys/\S+ contents are not set to \d`},
			Commands: []string{"sudo sysctl --write SETTING", "sudo systemctl restart kubelet"}},
		{ID: "swap", Until: joined,
			Cause: "swap is on",
			Remedy: "turn swap off permanently: switch it off now, and remove swap from /etc/fstab and systemd's swap " +
				"units",
			Lines: []string{`[rR]unning with swap on is not supported`},
			Not:   `This will be a fatal`, // kubelets that only warn
			Commands: []string{"sudo swapoff --all", "sudo systemctl list-units --all --type swap --no-pager",
				"sudo systemctl restart kubelet"}},
		{ID: "checkpoint", Until: joined,
			Cause: "the kubelet's saved state belongs to another policy or another machine",
			Remedy: "remove the named file below /var/lib/kubelet and restart the kubelet; run `eksnode scrub` before an " +
				"image is captured",
			Lines: []string{`differs from state checkpoint policy`, `doesn't match with CPUs in state`,
				`checkpoint is corrupted`, `could not restore state from checkpoint`,
				`the expected machine state is different from the real one`,
				`remove (the )?(policy|CPU manager|memory manager) state file`, `Memory states for the NUMA node .*different`},
			Not:      `[pP]ermission denied`,
			Commands: []string{"sudo mv --no-clobber FILE /root/", "sudo systemctl restart kubelet"}},
		{ID: "limits",
			Cause: "the machine has too few file handles, inotify watches or process numbers, or a table of the kernel's " +
				"network is full",
			Remedy: "raise fs.inotify.max_user_instances, fs.inotify.max_user_watches, fs.file-max, " +
				"net.netfilter.nf_conntrack_max or net.ipv4.neigh.default.gc_thresh3 in /etc/sysctl.d; `eksnode provision` " +
				"sets the first two to 8192 and 524288",
			Lines: []string{`(fork[^:]*|clone[^:]*|pthread_create failed): [rR]esource temporarily unavailable`,
				`failed to create new OS thread`, `insufficient PID available|NodeHasInsufficientPID`,
				`(table full, dropping packet|neighbou?r table overflow|arp_cache: .*overflow)`},
			Commands: []string{"sudo sysctl fs.inotify.max_user_instances fs.inotify.max_user_watches fs.file-nr " +
				"kernel.pid_max kernel.threads-max net.netfilter.nf_conntrack_max"}},
		{ID: "disk-full",
			Cause:  "the disk is full",
			Remedy: "use a larger root volume, or find out what fills it",
			Lines: []string{`low on resource: ephemeral-storage`, `to reclaim" resourceName="ephemeral-storage"`,
				`[aA]ttempting to reclaim (ephemeral-storage|imagefs|nodefs)`, `(NodeHasDiskPressure|kubelet has disk pressure)`,
				`(FreeDiskSpaceFailed|[fF]ailed to garbage collect required amount)`, `taints?(\(s\))? ` +
					`\{node\.kubernetes\.io/disk-pressure|Taints: +node\.kubernetes\.io/disk-pressure`,
				`node ha(d|s) conditions?: \[.*DiskPressure`},
			Not:      `inotify|fsnotify`,
			Explains: []string{"pause-image", "checkpoint"},
			Commands: []string{"sudo df --human-readable", "sudo du --summarize --one-file-system --human-readable " +
				"/var/lib/containerd /var/lib/kubelet /var/log"}},
		{ID: "disk-errors", Until: joined,
			Cause: "the disk returns errors, or a file system that the node writes to is read-only",
			Remedy: "replace the instance; an image whose root or /var is read-only by design needs writable mounts for " +
				"/var/lib/kubelet, /var/lib/containerd and /etc/cni",
			Lines: []string{`[iI]nput/output error`, `(I/O|medium|target) error(,| on) dev`, `(EXT4-fs error|XFS \([^)]*\): ` +
				`.*([cC]orruption|metadata I/O error|Shutting down filesystem))`, `: read-only$`},
			Not:      `/proc/sys/|/sys/fs/cgroup`, // a container has these so by design
			Explains: []string{"containerd-config", "containerd", "kubelet-flags", "checkpoint"},
			Others:   "the disk is full, or the image has no writable mount there",
			Commands: []string{"sudo findmnt --types ext4,xfs,btrfs", "sudo journalctl --dmesg --priority err --no-pager"}},
		{ID: "memory",
			Cause: "the machine has too little memory: the kernel ends processes, or the kubelet reports memory pressure",
			Remedy: "choose a larger instance type, or give pods limits and the system a reservation (systemReserved, " +
				"kubeReserved)",
			Lines: []string{`(NodeHasInsufficientMemory|kubelet has insufficient memory|System OOM encountered|low on ` +
				`resource: memory)`, `taints?(\(s\))? \{node\.kubernetes\.io/memory-pressure|Taints: ` +
				`+node\.kubernetes\.io/memory-pressure`, `node ha(d|s) conditions?: \[.*MemoryPressure`, `system OOM encountered`,
				`result 'oom-kill'`, `killed by the OOM killer`, `oom_reaper: reaped process \d+ \((kubelet|containerd|dockerd)\)`},
			Not:      `Memory cgroup out of memory|CONSTRAINT_MEMCG`,
			Commands: []string{"sudo free --human", "sudo journalctl --dmesg --grep oom --no-pager"}},
		{ID: "soci",
			Cause: "the SOCI snapshotter fails to unpack images: it does not answer, has no credentials for the " +
				"registry, or does not fit containerd's version",
			Remedy: "read the snapshotter's journal, which names the reason; switch the snapshotter off (featureGates: " +
				"FastImagePull: false in the NodeConfig), or use an image where containerd and the snapshotter fit each other",
			Lines: []string{`soci-snapshotter-grpc\.sock`, `failed to (rebase layer|preload layers)`,
				`image unpack job has no layers`, `unable to fetch SOCI artifacts`,
				`failed to prepare extraction snapshot .*unavailable`, `soci-snapshotter[^ ]*: .*"level":"(error|fatal)"`},
			Explains: []string{"registry", "pause-image"},
			Commands: []string{"sudo journalctl --unit soci-snapshotter --boot --no-pager"}},
		{ID: "registry-unreachable",
			Cause: "a registry, or the S3 buckets with its layers, cannot be reached from the node",
			Remedy: "give the subnet a NAT gateway, or endpoints for ecr.api, ecr.dkr and s3 (a gateway endpoint in the " +
				"subnet's route table) whose security groups and policies let the node through",
			Lines: []string{`https?://[^/ ]*(dkr[.-]ecr|\.s3[.-])[^ ]*.*(i/o timeout|awaiting headers|TLS handshake ` +
				`timeout|while waiting for connection|connect: )`, `failed to fetch (anonymous|oauth) token: .*(\b50\d\b|imeout|` +
				`dial tcp|EOF)`, `[fF]ailed to pull image.*(DeadlineExceeded|context deadline exceeded|context canceled)`},
			Not:      `no such host|server misbehaving|https://localhost/`,
			Others:   "a proxy or a firewall ends the connection, or the registry is overloaded",
			Explains: []string{"pause-image"},
			Commands: []string{preflight, "aws ec2 describe-vpc-endpoints --filters Name=vpc-id,Values=ID"}},
		{ID: "registry-ca",
			Cause: "the node does not trust the certificate of a registry",
			Remedy: "put the registry's authority into the machine's trust store, or into ca of its hosts.toml below " +
				"/etc/containerd/certs.d; a proxy that intercepts TLS must let the registry through",
			Lines:    []string{`server gave HTTP response to HTTPS client`},
			Commands: []string{"sudo ls -R /etc/containerd/certs.d", pullImage}},
		{ID: "pause-image", Until: ready,
			Cause: "containerd has no pause image and cannot pull it, so no pod starts",
			Remedy: "run init again: init pulls the image with the node's credentials; the role needs " +
				"AmazonEC2ContainerRegistryPullOnly, and the node a route to the registry (or a machine image that contains " +
				"the pause image)",
			Lines: []string{`failed to get sandbox image`, `pulling the pause image`,
				`failed pulling image \\*"[^" ]*/pause`, `(Failed to start pull sandbox image|sandbox-image\.service(: | ` +
					`failed|.*entered failed))`, `Unable to retrieve the ECR password`, `pull-sandbox-image\.sh(\[\d+\])?: ` +
					`.*(urfave/cli|panic: |level=fatal|dial tcp)`, `pull-sandbox-image\.sh \(code=exited, status=[1-9]`,
				`(PullImage|to pull( and unpack)? image|to resolve (image|reference)) \\*"[^" ` +
					`]*/pause[:@][^"]*\\*".*(failed|\b40\d\b|denied|unauthorized|imeout)`,
				`kubelet\.service: start-pre operation timed out`},
			Commands: []string{"sudo crictl images", "sudo eksnode init"}},
		{ID: "credential-provider", Until: ready,
			Cause: "the kubelet's image credential provider is missing or fails",
			Remedy: "the image must have ecr-credential-provider in the folder of --image-credential-provider-bin-dir, " +
				"where `eksnode provision` installs it, and the role must have AmazonEC2ContainerRegistryPullOnly",
			Lines: []string{`plugin binary (executable|directory) \S+ did not exist`,
				`failed to validate credential provider config`, `error execing credential provider plugin`,
				`CredentialProviderRequest.*invalid port`, `rror running credential provider plugin`,
				`image credential provider binary was not found`},
			Not:      `ECR PUBLIC`,
			Explains: []string{"registry"},
			Commands: []string{"sudo eksnode audit --rules can-join", kubeletUnit}},
		{ID: "registry",
			Cause: "a registry refuses the node, so images cannot be pulled",
			Remedy: "the role needs AmazonEC2ContainerRegistryPullOnly, the registry's account must allow the role, and " +
				"the image must have ecr-credential-provider where the kubelet looks for it",
			Lines: []string{`no basic auth credentials`, `pull access denied`, `(authorization token has expired|` +
				`insufficient_scope|failed to fetch (anonymous|oauth) token)`, `no pull access|authentication required`},
			Not:    `sandbox image|: 50\d |i/o timeout|dial tcp`,
			Others: "the registry has no image of this name, or the policy of a VPC endpoint denies it",
			Commands: []string{"eksnode manifests --cluster NAME --role ARN --only policies", "aws iam " +
				"list-attached-role-policies --role-name ROLE"}},
		{ID: "no-image",
			Cause:  "a registry has no image of that name, tag or platform",
			Remedy: "correct the image's name, tag and region; ECR has an own address for each region and account",
			Lines: []string{`manifest unknown`, `(repository (with name )?\S+ (does not exist in the registry|not found)|` +
				`RepositoryNotFoundException)`},
			Not:      `sandbox image|no pull access`,
			Commands: []string{pullImage}},
		{ID: "containerd-config", Until: ready,
			Cause: "containerd's configuration, or a hosts.toml below its config_path, is not valid, or a plugin refuses " +
				"its part",
			Remedy: "let containerd name the fault; undo what user data wrote into /etc/containerd, and use " +
				"spec.containerd.config of the NodeConfig; each hosts.toml needs a `[host.\"https://…\"]` table, whose " +
				"server is a registry and no web page",
			Lines: []string{`failed to (load|unmarshal|parse) TOML`, `containerd: invalid (plugin )?config`,
				`invalid plugin config: `, `unsupported config version`, `failed to load plugin io\.containerd\.\S*cri`,
				`containerd: (failed|expected|unsupported|unable|timeout)`, `Failure unmarshaling TOML|failed to load config`,
				`doesn't support containerd configuration V3`, `invalid cri \w+ config`,
				`cannot be set when .config_path. is provided`, `base OCI spec`, `no corresponding runtime configured in`,
				`no runtime for .{1,3}[\w.-]+.{1,3} is configured`, `RuntimeHandler \\*"[\w.-]+\\*" not supported`,
				`unexpected media type text/html`, `failed to (decode|parse) hosts\.toml`, `failed to parse hosts? file`,
				"invalid `host` tree"},
			Not:      `.nvidia.{1,3} (is configured|not supported)`,
			Explains: []string{"cri-plugin", "containerd"},
			Commands: []string{"sudo containerd config dump", containerdJournal, pullImage}},
		{ID: "containerd-state", Until: ready,
			Cause: "containerd's data on disk is damaged or incomplete, so images or containers cannot be made from it",
			Remedy: "stop the kubelet and containerd, move /var/lib/containerd away, and start both; an image must be " +
				"captured when containerd has stopped, and nothing else may delete files there",
			Lines: []string{`snapshots(/\d+(/\w+)?)?: no such file or directory`,
				`missing parent \S+ bucket|missing parent bucket`, `containerd\[\d+\]: panic: (assertion failed|page \d|` +
					`invalid page|freelist)`, `go\.etcd\.io/bbolt`,
				`failed to load plugin io\.containerd\.metadata\.v1`, `(meta|metadata)\.db: (invalid database|` +
					`file size too small|` +
					`checksum)`, `failed to recover state: `, `failed to build map of initial containers`,
				`content digest sha256:[0-9a-f]+: not found`, `blob sha256:[0-9a-f]+.*(not found|no such file)`},
			Not:      `no space left|sandbox image`,
			Others:   "the disk is broken, or a clean-up removed files below /var/lib/containerd",
			Explains: []string{"containerd-config", "containerd", "cri-plugin"},
			Commands: []string{"sudo systemctl status containerd --no-pager", containerdJournal}},
		{ID: "file-system", Until: ready,
			Cause: "the file system of /var/lib/containerd or /var/lib/kubelet does not suit: containerd cannot mount " +
				"overlays on it, or the kubelet cannot measure it",
			Remedy: "use ext4, or XFS made with ftype=1, on a device of its own; no overlay, and for the kubelet no " +
				"Btrfs or ZFS; the kernel needs the module overlay",
			Lines: []string{`does not support d_type`, `snapshotter not loaded: overlayfs`,
				`failed to load plugin io\.containerd\..*error=.*invalid argument`, `fstype: overlay, .*err: `,
				`failed to mount (rootfs component|overlay)`, `overlayfs: (filesystem on|upper fs|maximum fs stacking)`,
				`could not find device with major: `, `failed to get (rootfs|imageFs|device) info: .*(find data|partition)`,
				`failed to start eviction manager`},
			Not:    `no such device|Image garbage collection failed|Stats initialization`, // a start has these once
			Others: "this version of containerd mounts overlays with an option that the kernel does not have",
			Commands: []string{"sudo findmnt --target /var/lib/containerd", "sudo modprobe overlay",
				"sudo findmnt --target /var/lib/kubelet", "sudo df --human-readable /var/lib/kubelet"}},
		{ID: "csi-driver", Until: `Register new plugin with name`,
			Cause: "a storage driver has not registered on this node, so volumes of pods are not mounted",
			Remedy: "install the driver's add-on, such as aws-ebs-csi-driver, and see why its pod on this node does not " +
				"run; the node's taints need tolerations",
			Lines:  []string{`not found in the list of registered CSI drivers`, `CSINode \S+ does not contain driver`},
			Others: "the driver's pod is still starting",
			Commands: []string{"kubectl get csinode NODE --output yaml", "kubectl --namespace kube-system get pods --selector " +
				"app=ebs-csi-node --output wide"}},
		{ID: "cri-plugin", Until: ready,
			Cause: "containerd runs without its cri plugin, which the kubelet needs",
			Remedy: "remove cri from `disabled_plugins` in /etc/containerd/config.toml, which the package containerd.io " +
				"writes there; then restart containerd and the kubelet",
			Lines:    []string{`unknown service runtime\.v1(alpha2)?\.(RuntimeService|ImageService)`},
			Explains: []string{"containerd"},
			Commands: []string{"sudo grep disabled_plugins /etc/containerd/config.toml", "sudo sed --in-place=.orig " +
				"'/^disabled_plugins/s/\"cri\",* *//' /etc/containerd/config.toml", "sudo systemctl restart containerd kubelet"}},
		{ID: "containerd", Until: ready,
			Cause:  "containerd does not run or does not answer the kubelet",
			Remedy: "read containerd's journal: its last error says why it ended",
			Lines: []string{`containerd\.sock: connect: (no such file or directory|connection refused)`,
				`[cC]ontainer runtime is not up`, `PLEG is not healthy: pleg was last seen active \d{0,5}[hms.]`,
				`failed to reserve (sandbox|container) name`, `(Sandbox|sandbox|syncing pod|container|Container).*code = ` +
					`DeadlineExceeded`, `[cC]ontainer runtime is down`, `(Failed to start|start-limit.*|Start request repeated ` +
					`too quickly.*) containerd`, `containerd\.service: (Failed with result|Main process exited|` +
					`Main PID: .*code=(killed|dumped|exited, status=[1-9])|Start request repeated)`,
				`Cannot connect to the Docker d`, `get remote runtime typed version failed`,
				`validate CRI \w+ \w+ API for endpoint .*code = Unavailable`},
			Not:      `unknown service runtime|oom-kill|last seen active 2562047h`,
			Others:   "containerd started a moment after the kubelet, and answers now",
			Commands: []string{"sudo systemctl status containerd --no-pager", containerdJournal}},
		{ID: "cni-config", Until: ready,
			Cause: "a configuration in /etc/cni/net.d is not valid, or names a plugin that the node does not have",
			Remedy: "remove the image's files from that folder, as `eksnode scrub` does before the capture; for " +
				"10-aws.conflist the pod aws-node installs the plugins: read its log",
			Lines: []string{`failed to find plugin \\*"[^"]+"`, `Error validating CNI config`, `no valid networks found in`,
				`(sandbox|plugin).*invalid CIDR address`, `([eE]rror|[fF]ailed to|to) (load|loading|parse|parsing) (CNI ` +
					`)?(config|configuration)( list)?( file)? /etc/cni`,
				`(does not support config version|incompatible CNI versions)`},
			Commands: []string{"sudo ls -l /etc/cni/net.d /opt/cni/bin", "kubectl --namespace kube-system logs --selector " +
				"k8s-app=aws-node --all-containers --tail 50"}},
		{ID: "kernel-modules",
			Cause: "kernel modules that kube-proxy and the VPC CNI need are missing or not loaded, so pods have no network",
			Remedy: "install the package that contains them, such as kernel-modules-extra on Enterprise Linux 10, and " +
				"make the image again; name br_netfilter, nf_conntrack and overlay in /etc/modules-load.d",
			Lines: []string{`Extension \S+ revision \d+ not supported, missing kernel module`,
				`Couldn't load match .comment'`, `can't initialize ip6?tables table`,
				`Failed to find module '(br_netfilter|nf_conntrack|overlay)'`,
				`open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory`, `(mount overlay[^:]*: no such ` +
					`device|modprobe overlay failed|bridge-nf-call-iptables does not exist)`, `unable to initialize table`,
				`Table does not exist \(do you need to insmod`},
			Not:      `Address family not supported`, // IPv6 is off
			Explains: []string{"network-plugin", "kube-proxy"},
			Commands: []string{"sudo modprobe --all br_netfilter nf_conntrack overlay", "sudo eksnode audit --rules " +
				"kernel-modules"}},
		{ID: "eni-config",
			Cause: "the VPC CNI uses custom networking, but the cluster has no ENIConfig for this node",
			Remedy: "create an ENIConfig with the name that ENI_CONFIG_LABEL_DEF takes from the node, usually its zone, " +
				"or turn AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG off",
			Lines: []string{`retrieving eniconfig: `, `ENIConfig\S* \\*"[^"]*" not found`,
				`to attach any ENIs for custom networking`, `Failed to get (pod )?ENI [cC]onfig`,
				`No ENIConfig could be found`},
			Explains: []string{"network-plugin", "addresses"},
			Commands: []string{"kubectl get eniconfigs.crd.k8s.amazonaws.com", "kubectl --namespace kube-system get daemonset " +
				"aws-node --output yaml"}},
		{ID: "pod-eni",
			Cause: "the VPC resource controller gives a pod no network interface or address: the pod has its own " +
				"security groups, or runs on Windows",
			Remedy: "attach AmazonEKSVPCResourceController to the cluster's role, and let the account " +
				"eks-vpc-resource-controller patch pods; choose an instance type with enough branch interfaces; for Windows " +
				"set enable-windows-ipam to true in amazon-vpc-cni",
			Lines: []string{`BranchAllocationFailed|failed to allocate branch ENI`,
				`TrunkENICreationFailed|Failed to create trunk interface`, `BranchENIAnnotationFailed`,
				`Insufficient vpc\.amazonaws\.com/pod-eni`, `No trunk ENI (Link Index )?found`,
				`No slot available for a trunk ENI`, `does not have label vpc\.amazonaws\.com/PrivateIPv4Address`,
				`Insufficient vpc\.amazonaws\.com/PrivateIPv4Address`},
			Explains: []string{"permissions", "network-plugin"},
			Commands: []string{"aws iam list-attached-role-policies --role-name ROLE", "kubectl describe node NODE",
				"kubectl --namespace kube-system get configmap amazon-vpc-cni --output yaml"}},
		{ID: "addresses",
			Cause: "pods get no addresses",
			Remedy: "use a larger subnet, prefix delegation or custom networking; remove /var/lib/cni/networks when it " +
				"came with the image",
			Lines: []string{`no IP addresses available in range set`, `[fF]ailed to assign an IP address to container`,
				`InsufficientCidr`, `no free IP available`, `has no available IP addresses`, `Waiting for IPs to become available`,
				`no available IP/Prefix addresses`, `(PrivateIpAddress|Attachment|NetworkInterface)LimitExceeded`,
				`(IP pool is exhausted|range is full|No more IPs available|[fF]ailed to allocate a private IP)`,
				`does not have available addresses`, `enough free addresses`, `[eE]nough IPs/Prefixes`},
			Others: "the instance type has no more addresses, and the limit of pods on the node is too high",
			Commands: []string{"aws ec2 describe-subnets --filters Name=vpc-id,Values=ID --query " +
				"'Subnets[].[SubnetId,AvailableIpAddressCount]' --output text"}},
		{ID: "network-plugin", Until: ready + `|Successfully copied CNI plugin binary`,
			Cause: "pods have no network: the VPC CNI is not installed or has not started on this node",
			Remedy: "read the log of the VPC CNI's pod aws-node; its role needs AmazonEKS_CNI_Policy, and the node a " +
				"route to EC2's API",
			Lines: []string{`dial tcp 127\.0\.0\.1:50051`, `Retrying waiting for IPAM-D`, `Failed to wait for IPAM daemon`,
				`connect service \\*":50051`, `[nN]o networks found in /etc/cni`, `cni (config uninit|plugin not init)ialized`,
				`([tT]imed out waiting for IPAM|Failed to install CNI binaries|AWS_VPC_\w+ (MUST|must|cannot)|` +
					`VPC CNI currently does not support)`, `amazon-vpc-cni-k8s/\S*\. ?\(\*IPAMContext\)`,
				`(unable to find ENI|Error while creating daemon|cilium\.sock: connect|Cilium API client timeout)`,
				`(calico/node is not ready|[fF]elix is not (ready|live)|BIRD is not (ready|live)|stat /var/lib/calico/nodename)`,
				`\[(ERROR|FATAL|PANIC)\]\[\d+\] [a-z-]+/`, `(hnsCall failed|HNS failed with error|hcnCreate\w+ failed)`,
				`[nN]etwork[pP]lugin cni failed to set ?up pod`, `failed \(add\): `, `aws-node failed (liveness|readiness) probe`,
				`NetworkReady=false`, `InvalidNetworkInterfaceID\.NotFound`, `to call ec2:Describe`, `Initialization failure: `,
				`SetupPodNetwork: `, `rror received from AddNetwork`, `rror adding network: `, `open /run/flannel/subnet\.env`,
				`Failed to find any valid interface`, `IPv[46] (and IPv6 are both|is supported only in)`,
				`Prefix Delegation is not supported on non-nitro`, `MUST be a valid (positive )?integer`,
				`Failed to (generate 10-awsconflist|get ENI limit|get primary IF|retrieve primary IF|configure (IPv6 settings|` +
					`system parameters))`, `Not able to add route|unable to add route`,
				`[fF]ailed to set ?up (host network|ENI|pod network|veth|vlan|(sandbox container \S+ )?network for (sandbox|pod))`,
				`failed to find network info for sandbox`, `cni config not initialized`, `Failed to connect to Typha`,
				`level=fatal .*subsys=\w+`, `error getting ClusterInformation`,
				`(write|render) CNI config|find existing CNI config`,
				`([pP]od ?[cC][iI][dD][rR]|pod cidr) not (assigned|available|present)`,
				`taints?(\(s\))? \{node\.kubernetes\.io/network-unavailable`},
			Not: `failed to load cni during init|iptables.*(kernel module|load match|initiali|not found in directory|` +
				`insmod)|failed to find plugin|failed to assign an IP|no IP addresses|PrivateIPv4Address`,
			Owners: []Owner{
				{Line: `[cC]alico|[tT]ypha|[fF]elix|cni-installer|ClusterInformation|\]\[\d+\] [a-z-]+/`,
					Cause: "pods have no network: Calico is not installed or has not started on this node",
					Remedy: "read the log of Calico's pod calico-node; it must reach the API server or Typha, and its account " +
						"may read ClusterInformation",
					Commands: []string{"kubectl get pods --all-namespaces --selector k8s-app=calico-node --output wide",
						"kubectl logs --namespace NAMESPACE --selector k8s-app=calico-node --tail 50"},
				},
				{Line: `[fF]lannel`,
					Cause: "pods have no network: Flannel is not installed or has not started on this node",
					Remedy: "read the log of Flannel's pod, which writes /run/flannel/subnet.env; the node needs a range of " +
						"addresses for pods (podCIDR)",
					Commands: []string{"kubectl get pods --all-namespaces --selector app=flannel --output wide",
						"kubectl get nodes --output custom-columns=NAME:.metadata.name,CIDR:.spec.podCIDR"},
				},
				{Line: `[cC]ilium|subsys=`,
					Cause: "pods have no network: Cilium is not installed or has not started on this node",
					Remedy: "read the log of Cilium's agent; it must reach the API server, and the kernel must have what " +
						"Cilium needs",
					Commands: []string{"kubectl --namespace kube-system get pods --selector k8s-app=cilium --output wide",
						"kubectl --namespace kube-system logs --selector k8s-app=cilium --tail 50"},
				},
			},
			Others: "the network's pod is still starting: a node writes these lines in its first minute",
			Commands: []string{"kubectl --namespace kube-system get pods --selector k8s-app=aws-node --output wide",
				"kubectl --namespace kube-system logs --selector k8s-app=aws-node --all-containers --tail 50", preflight}},
		{ID: "serving-certificate", Until: certified,
			Cause: "the kubelet has no serving certificate, so logs and exec fail",
			Remedy: "the certificate request must be approved; remove /var/lib/kubelet/pki when it came with the image, " +
				"and restart the kubelet",
			Lines:    []string{`remote error: tls: internal error`, `no (serving )?certificate available`, `dialing backend: x509: `},
			Commands: []string{"kubectl get csr", "kubectl describe csr NAME"}},
		{ID: "may-not-run", Until: ready,
			Cause: "systemd may not execute a service's program",
			Remedy: "with SELinux, restore the file's context, as `eksnode provision` does; otherwise check the file's " +
				"mode, and that its file system is not mounted noexec",
			Lines: []string{`Failed at step EXEC spawning [^:]+: (Permission denied|Operation not permitted)`,
				`ocate executable [^:]+: Permission denied`, `avc: +denied .*(kubelet|containerd|nodeadm|runc|eksnode)`,
				`fork/exec \S+: (permission denied|operation not permitted)`},
			Commands: []string{"sudo ls -lZ FILE", "sudo findmnt --target FILE", "sudo restorecon -v FILE"}},
		{ID: "architecture",
			Cause: "a program or a container image does not fit the machine: it is for another processor, other " +
				"libraries or another version of Windows",
			Remedy: "choose an instance type of the image's architecture, or a container image for both; install " +
				"programs in the version for this distribution, as `eksnode provision` does",
			Lines: []string{`no match for platform in manifest`, `(container operating system|hcs::CreateComputeSystem ` +
				`.*operating system) does not match the host`, `symbol lookup error: `,
				`error while loading shared libraries: `, `version ?.?GLIBC(XX)?_[0-9.]+' not found`},
			Others:   "a script has no first line that names its interpreter, or a file is cut off",
			Explains: []string{"containerd", "units"},
			Not:      `Loaded: error \(Reason`,
			Commands: []string{"sudo uname --machine", "aws ec2 describe-images --image-ids AMI --query 'Images[].Architecture'",
				"sudo ldd FILE", "sudo cat /etc/os-release"}},
		{ID: "ordering-cycle", Until: joined,
			Cause: "systemd skipped first boot because of an ordering cycle: the unit waits for cloud-final.service, " +
				"since cloud-init 24.4 cloud-final.service waits for multi-user.target, and multi-user.target waits for the " +
				"unit",
			Remedy: "make the image with `eksnode provision`, whose units avoid the cycle; in nodeadm's own units, set " +
				"DefaultDependencies=no",
			Lines: []string{`Job (nodeadm|eksnode|cloud-)\S*/start deleted to break ordering cycle`, `(network-online|` +
				`multi-user|cloud-init)\.target: Found ordering cycle`},
			Explains: []string{"node-config"},
			Commands: []string{"sudo systemctl cat nodeadm-config.service nodeadm-run.service"}},
		{ID: "resolv-conf", Until: ready,
			Cause: "the file that the kubelet's resolvConf names does not exist, so no pod starts",
			Remedy: "with systemd-resolved, start it; otherwise set resolvConf: /etc/resolv.conf in the kubelet's " +
				"configuration, and make sure that the file exists",
			Lines: []string{`open \S*resolv\.conf: no such file or directory`, `ResolvConfPath .*does not exist`},
			Commands: []string{"sudo ls -l /etc/resolv.conf /run/systemd/resolve", "sudo systemctl status systemd-resolved " +
				"--no-pager"}},
		{ID: "nvidia",
			Cause: "the NVIDIA driver, its library or its runtime does not work on this node: not loaded, of another " +
				"version, or for another GPU",
			Remedy: "see whether nvidia-smi works on the node; reboot after a driver update; use an image with the " +
				"driver for the instance type, and install the device plugin on nodes with a GPU only",
			Lines: []string{`nvml error`, `driverdog\[\d+\]: .*([fF]ailed|[eE]rror)`, `[iI]nitialize NVML`,
				`NVIDIA-SMI has failed`, `nvidia-container-cli(\.real)?: (\S+ )?error`, `NVRM: API mismatch`,
				`RuntimeHandler "nvidia" not supported`, `no runtime for .{1,3}nvidia.{1,3} is configured`,
				`nvidia-container-runtime[^ ]*: (no such file|permission denied)`,
				`(start nvml|could not load NVML|libnvidia-ml\.so)`, `NVRM: (Xid|.*(RmInitAdapter failed|rm_init_adapter ` +
					`failed|fallen off the bus|GPU .* installed in this system is not supported))`,
				`(unresolvable CDI devices|failed to (inject|get) CDI)`,
				`Module nvidia\S* not found|[cC]ould not insert .nvidia`, `exec command: \[\S*nvidia-container-cli`,
				`exec: \\*"nvidia-container-\S+: executable file not found`, `[uU]nable to communicate with the NVIDIA driver`,
				`[dD]river/library version mismatch`, `devices? (present|unavailable).*nvidia\.com/`, `nvidia\.com/gpu\\*" ` +
					`(didn't register|was requested but not registered)`, `Incompatible (platform|strategy) detected`,
				`nvidia-smi.*([fF]ailed|not found|No such file)`,
				`nv(idia)?-(persistenced|fabricmanager)\S*: .*([fF]ailed|[eE]rror|n't match|exited)`},
			Explains: []string{"containerd"},
			Commands: []string{"sudo nvidia-smi", "sudo journalctl --dmesg --grep NVRM --no-pager"}},
		{ID: "units", Until: ready,
			Cause:  "the image lacks a service, a program or a folder that a node needs",
			Remedy: "make the image with `eksnode provision`",
			Lines: []string{`systemd reports the unit as (not-found|masked)`, `Unit (kubelet|containerd|` +
				`nodeadm\S*)\.service (not found|could not be found)`,
				`Failed at step EXEC spawning [^:]+: No such file or directory`,
				`finding the version of (kubelet|containerd): `, `status=200/CHDIR|Failed at step CHDIR`,
				`binary not installed "?containerd-shim`, `exec: \\*"(runc|containerd-shim-runc-v2)\\*": executable file ` +
					`not found`, `(kubelet|containerd)\.service is masked`},
			Commands: []string{"sudo systemctl status containerd kubelet --no-pager", "sudo eksnode audit --rules can-join"}},
		{ID: "oci-runtime", Until: ready,
			Cause: "runc cannot start containers on this node",
			Remedy: "the text after the last colon says why; update runc and containerd together, and compare with a " +
				"node that works",
			Lines: []string{`OCI runtime (create|exec|start|state) failed: `, `failed to (create|start) shim( task)?: `,
				`oci runtime error: `, `(starting container|exec user) process caused`, `(loading|adding) seccomp (filter|rule)`,
				`unable to apply cgroup configuration`, `apparmor failed to apply profile`, `runc did not terminate`,
				`seccomp( is)? not supported`, `AppArmor.*(is not loaded|enabled on system)`},
			Not: `expected cgroupsPath|nvidia|[eE]xec format error|executable file not found|no space left|context ` +
				`canceled|cannot allocate memory`,
			Others:   "the container's own configuration is the reason, such as its command or a mount",
			Commands: []string{"sudo runc --version", "sudo containerd --version", containerdJournal}},
		{ID: "user-data-script", Until: joined, Otherwise: true,
			Cause: "a script of the user data failed, so what follows in it did not run",
			Remedy: "read /var/log/cloud-init-output.log, which has the script's own output: the last command before the " +
				"failure is the reason",
			Lines: []string{`Failed running /var/lib/cloud/instance/scripts/`, `Failed to run module scripts[-_]user`,
				`scripts_user.*Runparts: \d+ failures`, `Failed to start .*[eE]xecute (cloud|Cloud) user/final scripts`,
				`Boothooks? script \S+ execution e`, `failed (run of )?stage \w+`,
				`(Failed loading yaml blob|Invalid cloud-config |config schema errors: )`, `Exited with error on line \d+`,
				`(ToolError: |Error encountered during build of )`, `(No more mirrors to try|does not match checksum)`,
				`(Could not get lock /var/lib/|dpkg: error: |Sub-process /usr/bin/dpkg returned an error|Unable to locate ` +
					`package)`, `(doesn't have enough cached data to continue|Cannot find a valid baseurl for repo|Cannot ` +
					`download repomd|Failed to download metadata for repo)`, `Failed to start .*[bB]ootstrap [cC]ontainer`,
				`unning module (scripts[-_]\w+|runcmd|bootcmd|write[-_]files|package\S*|mounts|disk_setup) \(.*failed`,
				`(at merging in cloud config part|Failed fetching userdata|user_data\.py\[WARNING\]: )`,
				`Failed to start .*(cloud-init job|settings specified in cloud-config)`},
			Commands: []string{"sudo tail --lines 50 /var/log/cloud-init-output.log", checkUserData}},
		{ID: "first-boot", Until: joined, Otherwise: true,
			Cause:  "first boot failed before the kubelet started",
			Remedy: "read the journal of first boot, and check the user data",
			Lines: []string{`(Failed to start|Dependency failed for) .*(EKS Nodeadm (Config|Run)|Configure this node ` +
				`from its user data|Join this node to its cluster|User-specified setting generators|Generate additional ` +
				`settings for Kubernetes)`, `nodeadm.*(msg":"|\t)Command failed`,
				`nodeadm\S*\.service: (Failed with result|Main process exited)`, `sundog\[\d+\]: .*[fF]ailed`,
				`"caller":"[^"]*main\.go:\d+","msg":"Command failed"`,
				`pluto\[\d+\]: .*([fF]ailed|Error|Timed|Missing|Unable)`},
			Commands: []string{"sudo journalctl --boot --no-pager --unit 'eksnode-*' --unit 'nodeadm-*'", checkUserData}},
		{ID: "volume", Otherwise: true,
			Cause: "a volume cannot be attached or mounted, so its pod does not start",
			Remedy: "the line says why: for EBS see the volume's state, zone and instance; for EFS and NFS allow port 2049 " +
				"from the node to the mount target; read the log of the driver's pod on this node",
			Lines: []string{`Failed(AttachVolume|Mount)\b`, `(AttachVolume\.Attach|MountVolume\.\w+) failed`,
				`Multi-Attach error`, `Unable to (attach or )?mount volumes|Could not mount "`},
			Not: `not registered|configmap|secret|kube-api-access`,
			Commands: []string{"kubectl get volumeattachments", "kubectl describe pods", "aws ec2 describe-volumes " +
				"--volume-ids ID"}},
		{ID: "scheduling", Otherwise: true,
			Cause: "no node takes the pod: none has the room, or each has a taint or lacks what the pod selects",
			Remedy: "the line counts the nodes by reason: add nodes, or change the pod's requests, tolerations or selectors; " +
				"for `Too many pods` raise the limit with prefix delegation, or use a larger instance type",
			Lines:    []string{`\d+/\d+ nodes are available: `, `is not ready for scale-?up`, `(didn't|did not) trigger scale-up`},
			Commands: []string{"kubectl describe nodes", "kubectl describe pods"}},
		{ID: "denied", Until: joined, Otherwise: true,
			Cause: "AWS, the API server or a registry denies a request",
			Remedy: "the line names the action, and often the caller: add the permission to the policies of that role, " +
				"or map the role in the cluster",
			Not:      `perform: (ssm|ssmmessages|ec2messages|logs|cloudwatch|xray):|ecr-public:|ECR PUBLIC`,
			Explains: []string{"first-boot"},
			Commands: []string{preflight, "aws iam list-attached-role-policies --role-name ROLE", "aws eks " +
				"list-access-entries --cluster-name NAME"}},
		{ID: "unreachable", Until: joined, Otherwise: true,
			Cause: "a program on the node cannot reach another machine",
			Remedy: "the line names the address: check its name in DNS, the route, the security groups and the network " +
				"ACLs between both, and that a program listens there",
			Not:      `localhost|127\.0\.0\.1|\[::1\]|\.sock|healthz|probe failed`,
			Explains: []string{"first-boot"},
			Commands: []string{preflight, "sudo ip route", "sudo cat /etc/resolv.conf"}},
		{ID: "silent", Until: ready,
			Cause: "the kubelet no longer reports the node's state to the API server",
			Remedy: "read the instance's status checks and console: the instance may hang, lack memory or have lost its " +
				"network; on a running node read the kubelet's journal",
			Lines: []string{`Kubelet stopped posting node status`, `NodeStatusUnknown`, `Kubelet never posted node status`,
				`(taints?(\(s\))? \{|Taints: +)node\.kubernetes\.io/unreachable`},
			Others: "the instance was stopped, deleted or reclaimed",
			Commands: []string{"aws ec2 describe-instance-status --instance-ids ID", "aws ec2 get-console-output --latest " +
				"--instance-id ID", "sudo journalctl --unit kubelet --no-pager"}},
		{ID: "tls", Until: joined, Otherwise: true,
			Cause: "a TLS connection fails: one side does not accept the other's certificate or versions",
			Remedy: "the line names the address, or the service that wrote it: see which certificate that address shows, " +
				"and which authority the program trusts",
			Not:      `TLS handshake error from`,
			Explains: []string{"first-boot", "user-data-script"},
			Commands: []string{"sudo timedatectl", "sudo journalctl --boot --priority err --no-pager"}},
		{ID: "image-pull", Otherwise: true,
			Cause:  "an image cannot be pulled",
			Remedy: "containerd's journal has the reason: the name, the credentials, the way to the registry, or the disk",
			Lines: []string{`ErrImagePull|ImagePullBackOff`, `([fF]ailed to|[bB]ack-off) pull(ing)? image`,
				`failed to (extract layer|unpack image)`},
			Commands: []string{containerdJournal, pullImage}},
		{ID: "syntax", Until: joined, Otherwise: true,
			Cause:    "a configuration file, a manifest or the user data has an error of form",
			Remedy:   "the line names the file or the place: correct it; check user data before the next instance starts",
			Explains: []string{"first-boot"},
			Commands: []string{checkUserData, "sudo journalctl --boot --priority err --no-pager"}},
		{ID: "file", Until: joined, Otherwise: true,
			Cause: "a program of the node does not find a file, or may not read or execute it",
			Remedy: "the line names the file: see whether the image has it, whether first boot writes it, and who may " +
				"read it",
			Lines:    []string{`status=203/EXEC`, `: (No such file or directory|Permission denied)$`},
			Not:      `level=warning`,
			Explains: []string{"first-boot"},
			Commands: []string{"sudo ls -lZ FILE", "sudo eksnode audit --rules can-join"}},
	}
}
