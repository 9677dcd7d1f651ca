package diagnose

// awsLines are those of EC2, EKS, cloud-init, the VPC CNI and Amazon's first boots.
var awsLines = map[string][]string{
	"user-data-form": {
		`cloud-init[2875]: __init__.py[WARNING]: Unhandled non-multipart (text/x-not-multipart) userdata: '/etc/eks/bootstrap.sh ek...'`,
		`2024-01-01 00:00:00,000 - __init__.py[WARNING]: Unhandled unknown content-type (application/octet-stream) userdata: 'b'...''`,
		`InvalidRequestException: User data was not in the MIME multipart format.`,
	},
	"node-config": {
		`{"level":"fatal","caller":"nodeadm/main.go:36","msg":"Command failed","error":"no config in chain"}`,
		`{"level":"fatal","caller":"nodeadm/main.go:36","msg":"Command failed","error":"ipv5 was not a valid IP family"}`,
	},
	"bottlerocket-settings": {
		`migrator[1100]: Migration returned '1' - stderr: Error deserializing`,
		`settings-applier[1100]: Failed to apply settings`,
	},
	"user-data-script": {
		`2020-08-27 01:51:19,430 - util.py[WARNING]: Running module scripts-user (<module 'cloudinit.config.cc_scripts_user' from '/usr/lib/python3/dist-packages/cloudinit/config/cc_scripts_user.py'>) failed`,
		`util.py[WARNING]: Failed at merging in cloud config part from part-001`,
		`[FAILED] Failed to start cloud-init.service - Initial cloud-init job (metadata service crawler).`,
	},
	"account": {
		`CREATE_FAILED – "Your request for accessing resources in this region is being validated, and you will not be able to launch additional resources"`,
		`PendingVerification: Your request for accessing resources is being validated`,
		`OptInRequired: In order to use this AWS Marketplace product you need to accept terms and subscribe`,
		`Blocked: This account is currently blocked and not recognized as a valid account.`,
	},
	"node-group-issue": {
		`AutoScalingGroupInvalidConfiguration: The Amazon AutoScalingGroup eks-a has subnets ([subnet-1]) which is not expected by Amazon EKS.`,
		`Ec2LaunchTemplateNotFound: We couldn't find the Amazon EC2 launch template for your managed node group.`,
		`"code": "Ec2SecurityGroupNotFound",`,
		`IamNodeRoleNotFound: We couldn't find the IAM role for your managed node group.`,
	},
	"public-addresses": {
		`Ec2SubnetInvalidConfiguration: One or more Amazon EC2 Subnets of [subnet-1] for node group a does not automatically assign public IP addresses to instances launched into it.`,
		`Ec2SubnetMissingIpv6Assignment: the subnet does not automatically assign IPv6 addresses`,
	},
	"launch": {
		`"You must use a valid fully-formed launch template. The requested configuration is currently not supported. Please check the documentation for supported configurations."`,
		`AsgInstanceLaunchFailures: Could not launch On-Demand Instances. Unsupported - launching EC2 instance failed.`,
		`"code": "Ec2InstanceTypeDoesNotExist"`,
		`The key pair 'nodes' does not exist (Service: AmazonAutoScaling; Status Code: 400; Error Code: ValidationError)`,
		`InvalidKeyPair.NotFound: no such key`,
		`Your requested instance type (a1.large) is not supported in your requested Availability Zone (eu-west-1c).`,
		`API: autoscaling:CreateAutoScalingGroup You are not authorized to use launch template: nodes`,
		`creating EKS Node Group (a:b): InvalidRequestException: You do not have access to a default security group in VPC vpc-0. Specify a security group, and try again.`,
		`Client.InvalidSnapshot.NotFound: The snapshot 'snap-0' does not exist.`,
		`"The specified value for roleName is invalid. It must contain only alphanumeric characters"`,
	},
	"capacity": {
		`"The maximum number of VPCs has been reached. (Service: AmazonEC2; Status Code: 400; Error Code: VpcLimitExceeded)"`,
		`AsgInstanceLaunchFailures: You've reached your quota for maximum Fleet Requests for this account.`,
		`We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested`,
	},
	"kms-key": {
		`Cause: One or more of the attached Amazon EBS volumes are encrypted with an inaccessible AWS KMS key.`,
		`KMSKeyDisabledException: arn:aws:kms:eu-west-1:111122223333:key/0 is disabled.`,
		`User: arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAutoScaling is not authorized to perform: kms:CreateGrant on this resource`,
	},
	"arguments": {
		`Invalid IpFamily, only ipv4 or ipv6 are allowed`,
		`Service Ipv6 Cidr must be provided when ip-family is specified as IPV6`,
		`No entry for type 'x9.large' in /etc/eks/eni-max-pods.txt`,
		`2023-10-04T17:36:33+0000 [eks-bootstrap] ERROR: docker is no longer supported as a container runtime for Kubernetes versions v1.24+`,
	},
	"datasource": {
		`cloud-init[842]: Can not apply stage config, no datasource found! Likely bad things to come!`,
		`cloudinit.sources.DataSourceNotFoundException: Did not find any data source, searched classes: ()`,
		`Cloud-init v. 22.2.2 finished at Wed, 10 Sep 2025 12:53:14 +0000. Datasource DataSourceNone.  Up 20.00 seconds`,
		`2024-01-01 00:00:00,000 - cc_final_message.py[WARNING]: Used fallback datasource`,
	},
	"kube-proxy": {
		`Warning  FailedMount  4m2s  kubelet  MountVolume.SetUp failed for volume "xtables-lock" : hostPath type check failed: /run/xtables.lock is not a file`,
		`v1alpha1.KubeProxyConfiguration.Conntrack: v1alpha1.KubeProxyConntrackConfiguration.ReadObject: found unknown field: max`,
		`"command failed" err="failed complete: no kind \"KubeProxyConfiguration\" in kubeproxy.config.k8s.io/v1beta9: strict decoding error"`,
	},
	"credentials": {
		`SSM activation expired. Please use a valid activation`,
		`operation error STS: GetCallerIdentity, get identity: get credentials: failed to refresh cached credentials, process provider error: error in credential_process: exit status 1`,
	},
	"machine-boot": {
		`[DEPEND] Dependency failed for CNI Plugin Directory (/opt/cni/bin).`,
		`[FAILED] Failed to mount /mnt/data.`,
	},
	"containerd-config": {
		`failed to load plugin: invalid cri image config: a`,
		"`mirrors` cannot be set when `config_path` is provided",
	},
	"other-node": {
		`leases.coordination.k8s.io "node-1" is forbidden: User "system:node:node-1.example.com" cannot get resource "leases"`,
		`nodes "node-1.example.com" is forbidden: User "system:node:node-1" cannot get resource "nodes"`,
		`I1005 21:32:17.410848      10 node_authorizer.go:260] NODE DENY: 'ip-10-176-27-215.ec2.internal' &authorizer.AttributesRecord{}`,
	},
	"node-ip": {
		`node IP 10.18.0.1 is not in any of the remote network CIDR blocks [10.0.0.0/16 192.168.0.0/16]`,
	},
	"kernel-hang": {
		`[  288.053638] watchdog: BUG: soft lockup - CPU#5 stuck for 23s! [kworker/u16:2:62]`,
		`INFO: task containerd:3010 blocked for more than 120 seconds.`,
		`rcu: INFO: rcu_sched self-detected stall on CPU; detected stalls on CPUs/tasks`,
		`NMI watchdog: Watchdog detected hard LOCKUP on cpu 3`,
	},
	"pause-image": {
		`Dec 16 22:21:18 ip-10-0-1-2 pull-sandbox-image.sh[3053]: github.com/containerd/containerd/vendor/github.com/urfave/cli.Command.Run(0x56302bada9ec)`,
		`  Process: 3053 ExecStart=/etc/eks/containerd/pull-sandbox-image.sh (code=exited, status=2)`,
		`E0728 19:17:10.699880    1584 remote_image.go:135] PullImage "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/pause:3.5" from image service failed: rpc error: code = Unknown desc = 400 Bad Request`,
		`systemd[1]: kubelet.service: start-pre operation timed out. Terminating.`,
	},
	"credential-provider": {
		`level=error msg="Error parsing the serverURL" error="parse \"https://{\\\"kind\\\":\\\"CredentialProviderRequest\\\"}\": invalid port \":\\\"credentialprovider.kubelet.k8s.io\" after host"`,
		`E0210 00:09:50.269647   10767 main.go:262] Error running credential provider plugin: exit status 1`,
		`image credential provider binary was not found on path /etc/eks/image-credential-provider/ecr-credential-provider`,
	},
	"kernel-modules": {
		`iptables-restore v1.8.10 (legacy): iptables-restore: unable to initialize table 'nat'`,
	},
	"eni-config": {
		`{"level":"error","caller":"ipamd/ipamd.go:889","msg":"error while retrieving eniconfig: ENIConfig.crd.k8s.amazonaws.com \"us-east-1c\" not found"}`,
		`{"level":"error","caller":"ipamd/ipamd.go:889","msg":"ENIConfig.crd.k8s.amazonaws.com "us-east-1c" not found"}`,
		`Failed to attach any ENIs for custom networking`,
		`2020-06-25T18:24:48.201Z [ERROR] Failed to get pod ENI config`,
		`No ENIConfig could be found for this node`,
	},
	"pod-eni": {
		`Warning  BranchAllocationFailed  vpc-resource-controller  failed to allocate branch ENI to pod: cannot create new eni entry already exist`,
		`Warning  TrunkENICreationFailed  node/a  Failed to create trunk interface: Error Code: LimitExceeded`,
		`Warning  BranchENIAnnotationFailed  8s  vpc-resource-controller  failed to annotate pod with branch ENI details`,
		`0/4 nodes are available: 2 Insufficient vpc.amazonaws.com/pod-eni.`,
		`Send AddNetworkReply: No trunk ENI found, cannot add a pod ENI`,
		`No slot available for a trunk ENI to be attached.`,
	},
	"addresses": {
		`Unable to attach IPs/Prefixes for the ENI, subnet doesn't seem to have enough IPs/Prefixes.`,
		`The specified subnet does not have enough free addresses to satisfy the request.`,
	},
	"network-plugin": {
		`{"level":"error","msg":"Failed to call ec2:DescribeNetworkInterfaces for [eni-0]: InvalidNetworkInterfaceID.NotFound: The networkInterface ID 'eni-0' does not exist"}`,
		`failed to setup network: SetupPodNetwork: failed to setup veth pair: failed to generate Unique MAC addr`,
		`Error received from AddNetwork gRPC call: rpc error: code = Unavailable desc = all SubConns are in TransientFailure`,
		`2019-02-17T03:21:49Z [DEBUG] Not able to add route route 0.0.0.0/0 via 10.0.0.1 table 2 (attempt 1/5)`,
		`timed out waiting for IPAMD to start`,
		`IPv4 and IPv6 are both disabled. One of them have to be enabled`,
		`Prefix Delegation is not supported on non-nitro instance t2.large.`,
		`WARM_IP_TARGET MUST be a valid integer. a is invalid`,
		`Failed to get ENI limits from file:vpc_ip_limits or EC2 for x9.large`,
	},
	"nvidia": {
		`error running hook: exit status 1, stdout: , stderr: exec command: [/usr/bin/nvidia-container-cli --load-kmods configure]`,
	},
	"first-boot": {
		`{"level":"fatal","ts":1739378687.7245312,"caller":"./main.go:53","msg":"Command failed","error":"failed to get firewalld status: not running\n"}`,
		`pluto[1200]: Unable to find node`,
	},
}
