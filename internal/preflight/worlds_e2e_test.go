//go:build e2e && linux

package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

// scene is a set-up with a fault, and the checks that must not pass.
type scene struct {
	setUp, fault string
	target       func(*testing.T, *aws.World) Target
	change       func(*aws.World)
	// expected are all findings that are not OK, in the order of the table.
	expected string
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

// mode sets the cluster's authentication mode.
func mode(name string) func(*aws.World) {
	return func(w *aws.World) {
		w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": name}
		if name == configMap {
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

// encrypt gives the image's snapshot a KMS key.
func encrypt(w *aws.World, key string) {
	w.Image(aws.NodeImage).Devices[0].Encrypted, w.Snapshots[0].Encrypted, w.Snapshots[0].KMSKey = true, true, key
}

func none(*aws.World) {}

// scenes are the worlds. Every list is complete: a false alarm fails too.
func scenes() []scene {
	image := func(change func(*aws.Image)) func(*aws.World) {
		return func(w *aws.World) { change(w.Image(aws.NodeImage)) }
	}
	stop := func(w *aws.World) { w.Do("ec2:StopInstances", "InstanceId.1", "i-1") }
	self, launch := "self-managed, NAT", "self-managed template, NAT"
	return []scene{
		{self, "none", of(instance), none, ""},
		{self, "stopped", of(instance), stop, "FAIL instance-state"},
		{self, "terminated", of(instance), func(w *aws.World) { w.Do("ec2:TerminateInstances", "InstanceId.1", "i-1") }, "FAIL instance-state"},
		{self, "host impaired", of(instance), func(w *aws.World) { w.Health.System = "impaired" }, "FAIL instance-state"},
		{self, "volume impaired", of(instance), func(w *aws.World) { w.Health.Storage = "impaired" }, "FAIL instance-state"},
		{self, "retirement", of(instance), func(w *aws.World) { w.Health.Event = "The instance is running on degraded hardware" }, "WARN instance-state"},
		{self, "past event", of(instance), func(w *aws.World) { w.Health.Event = "[Completed] reboot" }, ""},
		{self, "image deprecated", of(instance), image(func(i *aws.Image) { i.Deprecated = "2026-05-01T00:00:00.000Z" }), "WARN image-state"},
		{self, "image disabled", of(instance), image(func(i *aws.Image) { i.State = "disabled" }), "FAIL image-state"},
		{self, "no permission for VPCs", of(instance), func(w *aws.World) { w.Deny("ec2:DescribeVpcs") }, "UNKNOWN service-cidr"},
		{self, "no profile", of(instance), func(w *aws.World) {
			w.Do("iam:RemoveRoleFromInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "node")
			w.Do("iam:DeleteInstanceProfile", "InstanceProfileName", "nodes")
		}, "FAIL instance-profile"},
		{self, "NAT deleted", of(instance), func(w *aws.World) { w.Do("ec2:DeleteNatGateway", "NatGatewayId", "nat-1") }, "FAIL egress, WARN egress-ssm"},
		{launch, "none", of(template), none, ""},
		{launch, "type not in a zone", of(template), func(w *aws.World) { offerings(w, "eu-west-1a") }, "WARN instance-type-zone"},
		{launch, "type in no zone", of(template), func(w *aws.World) { offerings(w) }, "FAIL instance-type-zone"},
		{launch, "paravirtual image", of(template), image(func(i *aws.Image) { i.Virtualization = "paravirtual" }), "FAIL instance-type"},
		{launch, "key without a grant", of(template), func(w *aws.World) { encrypt(w, w.Key("")) }, "FAIL disk-keys"},
		{launch, "key with a policy", of(template), func(w *aws.World) { encrypt(w, w.Key(documented)) }, ""},
		{launch, "key disabled", of(template), func(w *aws.World) {
			key := w.Key(documented)
			w.Do("kms:DisableKey", `{"KeyId":"`+key[strings.LastIndex(key, "/")+1:]+`"}`)
			encrypt(w, key)
		}, "FAIL disk-keys"},
		{launch, "key by default", of(template), func(w *aws.World) { w.DefaultKey = w.Key("") }, "FAIL disk-keys"},
		{launch, "key of another account", of(template), func(w *aws.World) { encrypt(w, foreignKey) }, "WARN disk-keys"},
		{launch, "small disk", of(template), func(w *aws.World) {
			w.Image(aws.NodeImage).Devices[0].Size = 20
			relaunch(w, "BlockDeviceMapping.1.DeviceName", "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeSize", "8")
			w.Edit("ec2:DescribeLaunchTemplateVersions", "<ebs>8</ebs>", "<ebs><volumeSize>8</volumeSize></ebs>") // moto loses the name
		}, "FAIL disks"},
		{launch, "another root device", of(template), func(w *aws.World) {
			relaunch(w, "BlockDeviceMapping.1.DeviceName", "/dev/sda1", "BlockDeviceMapping.1.Ebs.VolumeSize", "80")
		}, "WARN disks"},
		{launch, "tags in the metadata", of(template), func(w *aws.World) { relaunch(w, "MetadataOptions.InstanceMetadataTags", "enabled") }, "FAIL metadata"},
		{"private, endpoints", "none", of(instance, isolate), none, ""},
		{"private, endpoints", "no S3", of(instance, isolate), func(w *aws.World) { w.Do("ec2:DeleteVpcEndpoints", "VpcEndpointId.1", "vpce-s3") }, "FAIL egress"},
		{"private, endpoints", "stopped", of(instance, isolate), stop, "FAIL instance-state"},
		{"public endpoint", "none", of(instance, publish), none, ""},
		{"public endpoint", "another address", of(instance, publish), func(w *aws.World) { vpc(w, map[string]any{"publicAccessCidrs": []string{"192.0.2.0/24"}}) }, "FAIL endpoint-access"},
		{"managed, EKS's image", "none", group(func(w *aws.World) { standard(w, nil) }), none, ""},
		{"managed, EKS's image", "key by default", group(func(w *aws.World) { standard(w, nil) }), func(w *aws.World) { w.DefaultKey = w.Key("") }, "FAIL disk-keys"},
		{"managed, own image", "none", group(func(w *aws.World) { ownImage(w) }), none, ""},
		{"managed, own image", "profile", group(func(w *aws.World) { ownImage(w, "IamInstanceProfile.Name", "nodes") }), none, "FAIL instance-profile"},
		{"managed, own image", "key without a grant", group(func(w *aws.World) { ownImage(w) }), func(w *aws.World) { encrypt(w, w.Key("")) }, "FAIL disk-keys"},
		{"Karpenter", "none", onClass(), none, ""},
		{"Karpenter", "no subnet", onClass("karpenter.sh/discovery: my-cluster", "karpenter.sh/discovery: other"), none, "FAIL node-class-selectors"},
		{"Karpenter", "root device", onClass("/dev/xvda", "/dev/sda1"), none, "WARN node-class"},
		{"Karpenter", "own key", onClass(), func(w *aws.World) { encrypt(w, w.Key("")) }, "WARN disk-keys"},
		{"CONFIG_MAP", "aws-auth not passed", of(instance, mode(configMap)), none, "UNKNOWN access"},
		{"CONFIG_MAP", "none", of(withAuth(instance, aws.NodeRole), mode(configMap)), none, ""},
		{"CONFIG_MAP", "instance profile", of(withAuth(instance, "arn:aws:iam::123456789012:instance-profile/nodes"), mode(configMap)), none, "FAIL access, FAIL aws-auth"},
		{"API", "none", of(instance, mode("API")), none, ""},
		{"API", "no entry", of(instance, mode("API")), func(w *aws.World) { clear(w.Entries) }, "FAIL access"},
	}
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

// Each world has exactly the expected findings. With go test -v, the test prints the
// table.
func TestWorlds(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-26s %-24s %-32s %s\n", "SET-UP", "FAULT", "EXPECTED", "FOUND")
	for _, s := range scenes() {
		t.Run(strings.ReplaceAll(s.setUp+"/"+s.fault, " ", "_"), func(t *testing.T) {
			w := served(t)
			target := s.target(t, w)
			s.change(w)
			r := ask(t, target)
			found := notOK(r)
			fmt.Fprintf(&table, "%-26s %-24s %-32s %s\n", s.setUp, s.fault, cmp.Or(s.expected, "-"), cmp.Or(found, "-"))
			assert.Equal(t, s.expected, found, "%+v", slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Verdict == OK }))
			for _, f := range r.Findings {
				if f.Remedy != "" {
					assert.NoError(t, cli.Check(f.Remedy, "eksnode", "kubectl", "packer", "sh"), f.Remedy)
				}
			}
		})
	}
	t.Log(table.String())
}
