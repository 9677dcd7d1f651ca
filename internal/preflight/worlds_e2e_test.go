//go:build e2e && linux

package preflight

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

// scene is a set-up with a fault, and the checks that must not pass.
type scene struct {
	setUp, fault string
	target       func(*testing.T, *aws.World) Target
	change       func(*aws.World)
	// expected are all findings that are not OK, in the order of the table. With evidence,
	// it is one finding, with its evidence and remedy; if that is OK, all are.
	expected, evidence, remedy string
}

// judge compares the findings of a scene.
func (s scene) judge(t *testing.T, r Report) {
	t.Helper()
	if s.evidence == "" {
		assert.Equal(t, s.expected, notOK(r), "%+v",
			slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Verdict == OK }))
		return
	}
	verdict, check, _ := strings.Cut(s.expected, " ")
	f := finding(t, r, check)
	assert.Equal(t, verdict, string(f.Verdict), f.Evidence)
	assert.Contains(t, f.Evidence, s.evidence)
	assert.Contains(t, f.Remedy, s.remedy)
	if f.Verdict == OK {
		assert.Empty(t, notOK(r))
	}
	for _, other := range r.Findings {
		if f.Verdict != OK && other.Check != check && !slices.Contains([]string{nated, isolated, public, open6}, s.setUp) {
			assert.NotEqual(t, Fail, other.Verdict, "%s: %s", other.Check, other.Evidence)
		}
	}
}

func (s scene) make(t *testing.T) (*aws.World, Target) {
	t.Helper()
	w := served(t)
	target := s.target(t, w)
	s.change(w)
	return w, target
}

// of is a set-up of a network with a fixed target.
func of(target Target, makes ...func(*aws.World)) func(*testing.T, *aws.World) Target {
	return func(_ *testing.T, w *aws.World) Target {
		for _, one := range makes {
			one(w)
		}
		return target
	}
}

func mode(name string) func(*aws.World) {
	return func(w *aws.World) {
		w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": name}
		if name == clustersetup.ConfigMap {
			clear(w.Entries)
		}
	}
}

// withAuth adds an aws-auth with the ARN of a role.
func withAuth(target Target, arn string) Target {
	target.AWSAuth = []byte("kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: " + arn + "\n      username: system:node:{{EC2PrivateDNSName}}\n      groups: [system:bootstrappers, system:nodes]\n")
	return target
}

// relaunch replaces the launch template nodes by one with further data.
func relaunch(w *aws.World, data ...string) {
	var all []string
	for i := 0; i < len(data); i += 2 {
		all = append(all, "LaunchTemplateData."+data[i], data[i+1])
	}
	w.Relaunch(aws.NodeImage, all...)
}

// offerings makes EC2 offer instance types only in some zones.
func offerings(w *aws.World, zones ...string) {
	var items strings.Builder
	for _, zone := range zones {
		fmt.Fprintf(&items, "<item><instanceType>m6i.large</instanceType><location>%s</location><locationType>availability-zone</locationType></item>", zone)
	}
	w.Answer("ec2:DescribeInstanceTypeOfferings", "<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet>"+items.String()+"</instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>")
}

func encrypt(w *aws.World, key string) {
	w.Image(aws.NodeImage).Devices[0].Encrypted, w.Snapshots[0].Encrypted, w.Snapshots[0].KMSKey = true, true, key
}

// does, edits and routes are changes of a world.
func does(action string, parameters ...string) func(*aws.World) {
	return func(w *aws.World) { w.Do(action, parameters...) }
}

func edits(action, pattern, by string) func(*aws.World) {
	return func(w *aws.World) { w.Edit(action, pattern, by) }
}

func routes(table, network string, target ...string) func(*aws.World) {
	return func(w *aws.World) { w.Route(table, network, target...) }
}

func encrypts(w *aws.World) { encrypt(w, w.Key("")) }

func none(*aws.World) {}

// scenes are the worlds. Every list is complete: a false alarm fails too.
func scenes() []scene {
	image := func(change func(*aws.Image)) func(*aws.World) {
		return func(w *aws.World) { change(w.Image(aws.NodeImage)) }
	}
	stop := func(w *aws.World) { w.Do("ec2:StopInstances", "InstanceId.1", "i-1") }
	self, launch := "self-managed, NAT", "self-managed template, NAT"
	return []scene{
		{self, "none", of(instance), none, "", "", ""},
		{self, "stopped", of(instance), stop, "FAIL instance-state", "", ""},
		{self, "terminated", of(instance), func(w *aws.World) { w.Do("ec2:TerminateInstances", "InstanceId.1", "i-1") },
			"FAIL instance-state", "", ""},
		{self, "host impaired", of(instance), func(w *aws.World) { w.Health.System = "impaired" }, "FAIL instance-state",
			"", ""},
		{self, "volume impaired", of(instance), func(w *aws.World) { w.Health.Storage = "impaired" }, "FAIL instance-state",
			"", ""},
		{self, "retirement", of(instance), func(w *aws.World) { w.Health.Event = "The instance is running on degraded hardware" }, "WARN instance-state", "", ""},
		{self, "past event", of(instance), func(w *aws.World) { w.Health.Event = "[Completed] reboot" }, "", "", ""},
		{self, "image deprecated", of(instance), image(func(i *aws.Image) { i.Deprecated = "2026-05-01T00:00:00.000Z" }),
			"WARN image-state", "", ""},
		{self, "image disabled", of(instance), image(func(i *aws.Image) { i.State = "disabled" }), "FAIL image-state", "",
			""},
		{self, "no permission for VPCs", of(instance), func(w *aws.World) { w.Deny("ec2:DescribeVpcs") },
			"UNKNOWN service-cidr", "", ""},
		{self, "no profile", of(instance), func(w *aws.World) {
			w.Do("iam:RemoveRoleFromInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "node")
			w.Do("iam:DeleteInstanceProfile", "InstanceProfileName", "nodes")
		}, "FAIL instance-profile", "", ""},
		{self, "NAT deleted", of(instance), func(w *aws.World) { w.Do("ec2:DeleteNatGateway", "NatGatewayId", "nat-1") },
			"FAIL egress, WARN egress-ssm", "", ""},
		{self, "no image", of(instance), func(w *aws.World) { w.Images = nil }, "UNKNOWN kubelet-version",
			"InvalidAMIID.NotFound", ""},
		{self, "no access entry", of(instance), func(w *aws.World) { clear(w.Entries) }, "UNKNOWN access", "", ""},
		{self, "no add-ons", of(instance), func(w *aws.World) { clear(w.Addons) }, "WARN addons",
			"EKS manages no add-ons", ""},
		{self, "no role", of(instance), does("iam:RemoveRoleFromInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "node"),
			"FAIL instance-profile", "the instance profile nodes has no role", ""},
		{launch, "none", of(template), none, "", "", ""},
		{launch, "latest version", of(Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Latest"}),
			none, "", "", ""},
		{"an image", "none", of(Target{Cluster: "my-cluster", AMI: aws.NodeImage, Subnets: []string{"subnet-2"}}),
			none, "", "", ""},
		{launch, "type not in a zone", of(template), func(w *aws.World) { offerings(w, "eu-west-1a") },
			"WARN instance-type-zone", "", ""},
		{launch, "quota of vCPUs", of(template), func(w *aws.World) { w.Limits = map[string]int{"L-1216C47A": 1} },
			"FAIL instance-quota", "", ""},
		{launch, "free plan", of(template), func(w *aws.World) { w.Plan = "FREE" }, "FAIL instance-plan", "", ""},
		{launch, "account with a plan", of(template), func(w *aws.World) { w.Plan = "PAID" }, "", "", ""},
		{launch, "type in no zone", of(template), func(w *aws.World) { offerings(w) }, "FAIL instance-type-zone", "", ""},
		{launch, "paravirtual image", of(template), image(func(i *aws.Image) { i.Virtualization = "paravirtual" }),
			"FAIL instance-type", "", ""},
		{launch, "key without a grant", of(template), encrypts, "FAIL disk-keys", "", ""},
		{launch, "key with a policy", of(template), func(w *aws.World) { encrypt(w, w.Key(documented)) }, "", "", ""},
		{launch, "key disabled", of(template), func(w *aws.World) {
			key := w.Key(documented)
			w.Do("kms:DisableKey", `{"KeyId":"`+key[strings.LastIndex(key, "/")+1:]+`"}`)
			encrypt(w, key)
		}, "FAIL disk-keys", "", ""},
		{launch, "key by default", of(template), func(w *aws.World) { w.DefaultKey = w.Key("") }, "FAIL disk-keys", "", ""},
		{launch, "key of another account", of(template), func(w *aws.World) { encrypt(w, foreignKey) }, "WARN disk-keys",
			"", ""},
		{launch, "small disk", of(template), func(w *aws.World) {
			w.Image(aws.NodeImage).Devices[0].Size = 20
			relaunch(w, "BlockDeviceMapping.1.DeviceName", "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeSize", "8")
			w.Edit("ec2:DescribeLaunchTemplateVersions", "<ebs>8</ebs>", "<ebs><volumeSize>8</volumeSize></ebs>") // moto loses the name
		}, "FAIL disks", "", ""},
		{launch, "another root device", of(template), func(w *aws.World) {
			relaunch(w, "BlockDeviceMapping.1.DeviceName", "/dev/sda1", "BlockDeviceMapping.1.Ebs.VolumeSize", "80")
		}, "WARN disks", "", ""},
		{launch, "tags in the metadata", of(template),
			func(w *aws.World) { relaunch(w, "MetadataOptions.InstanceMetadataTags", "enabled") }, "FAIL metadata", "", ""},
		{"private, endpoints", "none", of(instance, isolate), none, "", "", ""},
		{"private, endpoints", "no S3", of(instance, isolate),
			func(w *aws.World) { w.Do("ec2:DeleteVpcEndpoints", "VpcEndpointId.1", "vpce-s3") }, "FAIL egress", "", ""},
		{"private, endpoints", "stopped", of(instance, isolate), stop, "FAIL instance-state", "", ""},
		{"public endpoint", "none", of(instance, publish), none, "", "", ""},
		{"public endpoint", "another address", of(instance, publish),
			func(w *aws.World) { vpc(w, map[string]any{"publicAccessCidrs": []string{"192.0.2.0/24"}}) }, "FAIL endpoint-access", "", ""},
		{"managed, EKS's image", "key by default", of(group, managed(nil)),
			func(w *aws.World) { w.DefaultKey = w.Key("") }, "FAIL disk-keys", "", ""},
		{"managed, own image", "key without a grant", of(group, owns()),
			encrypts, "FAIL disk-keys", "", ""},
		{"Karpenter", "no role for Spot", onClass(), func(w *aws.World) { w.Do("iam:DeleteRole", "RoleName", spotRole) },
			"WARN spot-role", "", ""},
		{"Karpenter", "own key", onClass(), encrypts, "WARN disk-keys", "", ""},
		{"CONFIG_MAP", "aws-auth not passed", of(instance, mode(clustersetup.ConfigMap)), none, "UNKNOWN access", "", ""},
		{"CONFIG_MAP", "none", of(withAuth(instance, aws.NodeRole), mode(clustersetup.ConfigMap)), none, "", "", ""},
		{"CONFIG_MAP", "instance profile", of(withAuth(instance, "arn:aws:iam::123456789012:instance-profile/nodes"),
			mode(clustersetup.ConfigMap)), none, "FAIL access, FAIL aws-auth", "", ""},
		{"API", "none", of(instance, mode("API")), none, "", "", ""},
		{"API", "no entry", of(instance, mode("API")), func(w *aws.World) { clear(w.Entries) }, "FAIL access", "", ""},
		{self, "no tag", of(instance),
			does("ec2:DeleteTags", "ResourceId.1", "i-1", "Tag.1.Key", "kubernetes.io/cluster/my-cluster"),
			"FAIL cluster-tag", "", ""},
		{self, "metadata off", of(instance),
			does("ec2:ModifyInstanceMetadataOptions", "InstanceId", "i-1", "HttpEndpoint", "disabled"),
			"FAIL metadata", "", ""},
		{self, "no trust", of(instance),
			does("iam:UpdateAssumeRolePolicy", "RoleName", "node", "PolicyDocument", podsTrust), "FAIL role-trust",
			"", ""},
		{self, "no policies", of(instance), func(w *aws.World) {
			for _, policy := range sample().profile.value.Role.Policies {
				w.Do("iam:DetachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/"+policy)
			}
		}, "FAIL policy-worker, WARN policy-cni, FAIL policy-registry, WARN policy-ssm", "", ""},
		{self, "no DNS", of(instance),
			does("ec2:ModifyVpcAttribute", "VpcId", "vpc-1", "EnableDnsSupport.Value", "false"), "FAIL vpc-dns", "",
			""},
		{self, "another domain", of(instance), func(w *aws.World) { w.DHCP("corp.example", "AmazonProvidedDNS") },
			"WARN dhcp-domain", "", ""},
		{self, "ACL that denies", of(instance),
			does("ec2:CreateNetworkAclEntry", "NetworkAclId", "acl-1", "RuleNumber", "90", "Protocol", "6", "RuleAction", "deny", "Egress", "true", "CidrBlock", "10.0.2.128/25", "PortRange.From", "0", "PortRange.To", "1023"),
			"FAIL network-acl", "", ""},
		{self, "no rule for ingress", of(instance),
			does("ec2:RevokeSecurityGroupIngress", "GroupId", "sg-cluster", "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Groups.1.GroupId", "sg-cluster"),
			"FAIL security-group-443, FAIL security-group-10250, FAIL security-group-nodes", "", ""},
		{self, "no rule for egress", of(instance),
			does("ec2:RevokeSecurityGroupEgress", "GroupId", "sg-cluster", "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0"),
			"FAIL security-group-443, FAIL security-group-nodes, FAIL egress", "", ""},
		{self, "STANDARD access entry", of(instance), func(w *aws.World) { w.Entries[aws.NodeRole] = "STANDARD" },
			"FAIL access, UNKNOWN aws-auth", "", ""},
		{"managed, EKS's image", "no nodes",
			of(group, managed(map[string]any{"scalingConfig": map[string]any{"minSize": 0, "maxSize": 0, "desiredSize": 0}})),
			none, "WARN node-group", "", ""},
		{"EKS Auto Mode", "none", of(instance, auto), none, "", "", ""},
		{"EKS Auto Mode", "no VPC CNI", of(instance, auto), func(w *aws.World) { delete(w.Addons, "vpc-cni") },
			"WARN addons", "the nodes of EKS Auto Mode need no add-ons, but all other nodes need vpc-cni and kube-proxy",
			"aws eks list-addons --cluster-name my-cluster"},
		{"EKS Auto Mode", "Auto Mode's access entry", of(instance, auto),
			func(w *aws.World) { w.Entries[aws.NodeRole] = "EC2" }, "FAIL access, UNKNOWN aws-auth", "", ""},
		{"IPv6", "none", of(template, dualStack, joins6, policy6), none, "OK subnet-ipv6",
			"subnet-1 has 2001:db8:0:1::/64, subnet-2 has 2001:db8:0:2::/64", ""},
		{"IPv6", "IPv4 user data", of(template, dualStack, policy6), none, "FAIL user-data", "", ""},
		{"IPv6", "IPv4 policy", of(template, dualStack, joins6), none, "WARN policy-cni", "", ""},
		{"IPv6", "no address of a subnet", of(template, dualStack, joins6, policy6),
			does("ec2:ModifySubnetAttribute", "SubnetId", "subnet-1", "AssignIpv6AddressOnCreation.Value", "false"),
			"FAIL subnet-ipv6", "", ""},
		{"IPv6", "no egress-only gateway", of(template, dualStack, joins6, policy6),
			func(w *aws.World) { w.Route("rtb-1", "::/0") }, "WARN subnet-ipv6", "", ""},
	}
}

// auto turns EKS Auto Mode on.
func auto(w *aws.World) {
	w.Clusters["my-cluster"]["computeConfig"] = map[string]any{"enabled": true, "nodePools": []string{"general-purpose", "system"}}
}

// joins6 makes the launch template's user data fit an IPv6 cluster.
func joins6(w *aws.World) {
	relaunch(w, "UserData", base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(aws.UserData, "10.100.0.0/16", "fd00::/108"))))
}

// policy6 gives the node's role the policy of the VPC CNI for IPv6
// (https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html).
func policy6(w *aws.World) {
	w.Do("iam:PutRolePolicy", "RoleName", "node", "PolicyName", "ipv6", "PolicyDocument", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["ec2:AssignIpv6Addresses","ec2:DescribeInstances","ec2:DescribeTags","ec2:DescribeNetworkInterfaces","ec2:DescribeInstanceTypes"],"Resource":"*"},
		{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"arn:aws:ec2:*:*:network-interface/*"}]}`)
}

// notOK lists the findings that are not OK.
func notOK(r Report) string {
	var list []string
	for _, f := range r.Findings {
		if f.Verdict != OK {
			list = append(list, string(f.Verdict)+" "+f.Check)
		}
	}
	return strings.Join(list, ", ")
}

// Each world has exactly the expected findings, and the printed commands mend them.
// With go test -v, the test prints the table.
func TestWorlds(t *testing.T) {
	all := slices.Concat(scenes(), worlds(), networkWorlds())
	m := newMender(t)
	for _, s := range all {
		t.Run(strings.ReplaceAll(s.setUp+"/"+s.fault, " ", "_"), func(t *testing.T) {
			w, target := s.make(t)
			r := ask(t, target)
			found := notOK(r)
			m.row("%s | %s | %s | %s\n", s.setUp, s.fault, cmp.Or(s.expected, "-"), cmp.Or(found, "-"))
			s.judge(t, r)
			m.followAll(t, s, w, target, r)
		})
	}
	m.close(t, len(all))
}
