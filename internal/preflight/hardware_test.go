package preflight

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

// An instance must run, and EC2's checks must pass.
func TestInstancesMustRun(t *testing.T) {
	state := func(state, reason string) func(*facts) {
		return func(f *facts) { f.launch.value.State, f.launch.value.StateReason = state, reason }
	}
	health := func(h awsapi.Health) func(*facts) { return func(f *facts) { f.health.value = h } }
	ended := func(f *facts) {
		f.launch = fact[awsapi.Launch]{err: &awsapi.EndedError{Doing: "describing the instance i-1", State: "terminated", Reason: "Client.InternalError: Client error on launch"}}
		f.image.err, f.profile.err, f.types.err, f.userData.err = f.launch.err, f.launch.err, f.launch.err, f.launch.err
	}
	for _, c := range []checkCase{
		{"instance-state", "FAIL", state("stopped", "Client.UserInitiatedShutdown: User initiated shutdown"), "the instance is stopped (Client.UserInitiatedShutdown: User initiated shutdown)", "aws ec2 start-instances --instance-ids i-1"},
		{"instance-state", "FAIL", state("stopped", "Client.InternalError: Client error on launch"), "the instance is stopped (Client.InternalError: Client error on launch: EC2 may not use the KMS key of a disk)", "aws ec2 start-instances"},
		{"instance-state", "FAIL", state("stopping", ""), "the instance is stopping", "aws ec2 wait instance-stopped --instance-ids i-1"},
		{"instance-state", "WARN", state("pending", "pending"), "the instance is pending (pending)", "aws ec2 wait instance-running"},
		{"instance-state", "FAIL", ended, "the instance is terminated (Client.InternalError: Client error on launch: EC2 may not use the KMS key of a disk)", "aws ec2 describe-instances --instance-ids i-1"},
		{"instance-state", "UNKNOWN", func(f *facts) {
			f.launch.err = errors.New("describing the instance i-1: InvalidInstanceID.NotFound: gone")
		}, "InvalidInstanceID.NotFound: gone; EC2 forgets instances about an hour after their end", "eksnode preflight"},
		{"instance-state", "FAIL", health(awsapi.Health{System: "impaired", Instance: "ok"}), "EC2's system status check fails", "aws ec2 describe-instance-status --instance-ids i-1"},
		{"instance-state", "FAIL", health(awsapi.Health{System: "ok", Instance: "impaired"}), "EC2's instance status check fails", "aws ec2 get-console-output --latest --output text --instance-id i-1"},
		{"instance-state", "FAIL", health(awsapi.Health{System: "ok", Instance: "ok", Storage: "impaired"}), "a volume does not complete its I/O", "aws ec2 describe-instance-status"},
		{"instance-state", "WARN", health(awsapi.Health{System: "ok", Events: []string{"instance-retirement x"}}), "EC2 has scheduled an event: instance-retirement x", "aws ec2 describe-instance-status"},
		{"instance-state", "OK", health(awsapi.Health{System: "initializing"}), "running, the status checks are initializing", ""},
	} {
		c.judge(t, sample())
	}
	f := sample()
	ended(f)
	r := f.check()
	assert.Equal(t, 1, r.Count(Fail), "%+v", r.Findings)
	assert.Zero(t, r.Count(Unknown), "%+v", r.Findings)
}

const (
	ownKey     = "arn:aws:kms:eu-west-1:123456789012:key/1"
	foreignKey = "arn:aws:kms:eu-west-1:666666666666:key/1"
	scaling    = "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
	rootOnly   = `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"kms:*","Resource":"*"}]}`
	documented = `{"Statement":[{"Effect":"Allow","Principal":{"AWS":["` + scaling + `"]},"Action":["kms:Encrypt","kms:Decrypt","kms:ReEncrypt*","kms:GenerateDataKey*","kms:DescribeKey"],"Resource":"*"},` +
		`{"Effect":"Allow","Principal":{"AWS":["` + scaling + `"]},"Action":["kms:CreateGrant"],"Resource":"*","Condition":{"Bool":{"kms:GrantIsForAWSResource":true}}}]}`
)

// A launch template's instances must be able to start.
func TestLaunchTemplatesMustStartInstances(t *testing.T) {
	key := func(change func(*awsapi.Key)) func(*facts) {
		return func(f *facts) {
			k := awsapi.Key{ARN: ownKey, Account: "123456789012", State: "Enabled", Symmetric: true, Policy: rootOnly}
			change(&k)
			f.keys.value = []awsapi.Key{k}
		}
	}
	kind := func(change func(*awsapi.InstanceType)) func(*facts) {
		return func(f *facts) { change(&f.types.value[0]) }
	}
	disk := func(d awsapi.BlockDevice) func(*facts) {
		return func(f *facts) {
			f.image.value.Devices[0].Size = 20
			f.launch.value.Devices = []awsapi.BlockDevice{d}
		}
	}
	for _, c := range []checkCase{
		{"instance-type-zone", "FAIL", func(f *facts) { f.offerings.value = nil }, "EC2 does not offer m6i.large in eu-west-1a, eu-west-1b", "--filters Name=instance-type,Values=m6i.large"},
		{"instance-type-zone", "WARN", func(f *facts) { f.offerings.value = f.offerings.value[:1] }, "EC2 offers m6i.large in eu-west-1a, but not in eu-west-1b", "describe-instance-type-offerings"},
		{"instance-type-zone", "UNKNOWN", func(f *facts) { f.offerings.err = &awsapi.DeniedError{Permission: "ec2:DescribeInstanceTypeOfferings"} }, "ec2:DescribeInstanceTypeOfferings", "--policy"},
		{"instance-quota", "FAIL", func(f *facts) { f.quotas.value[0].Limit = 1 },
			"m6i.large has 2 vCPUs, but the account may have 1 of running On-Demand Standard", "--quota-code L-1216C47A --desired-value 32"},
		{"instance-quota", "WARN", func(f *facts) {
			f.types.value = append(f.types.value, awsapi.InstanceType{Name: "m6i.metal", VCPUs: 128})
			f.quotas.value = append(f.quotas.value, f.quotas.value[0])
		}, "m6i.metal has 128 vCPUs, but the account may have 5", "--desired-value 512"},
		{"instance-quota", "OK", func(f *facts) { f.quotas.value[0] = awsapi.Quota{} }, "quota is not known here", ""},
		{"instance-plan", "FAIL", func(f *facts) { f.freePlan.value = true }, "free plan, which lacks m6i.large",
			"--filters Name=free-tier-eligible,Values=true"},
		{"instance-plan", "WARN", func(f *facts) {
			f.freePlan.value, f.types.value = true, append(f.types.value, awsapi.InstanceType{Name: "t3.small", FreePlan: true})
			f.quotas.value = append(f.quotas.value, f.quotas.value[0])
		}, "free plan, which lacks m6i.large", "describe-instance-types"},
		{"instance-plan", "UNKNOWN", func(f *facts) {
			f.freePlan.err = &awsapi.DeniedError{Permission: "freetier:GetAccountPlanState"}
		}, "freetier:GetAccountPlanState", "--policy"},
		{"instance-type", "FAIL", func(f *facts) { f.image.value.BootMode, f.types.value[0].BootModes = "uefi", []string{"legacy-bios"} }, "the image has the boot mode uefi, but m6i.large supports only legacy-bios", "describe-instance-types"},
		{"instance-type", "FAIL", func(f *facts) { f.image.value.BootMode, f.types.value[0].BootModes = "legacy-bios", []string{"uefi"} }, "the image has the boot mode legacy-bios, but m6i.large supports only uefi", "describe-instance-types"},
		{"instance-type", "OK", func(f *facts) {
			f.image.value.BootMode, f.types.value[0].BootModes = "uefi-preferred", []string{"legacy-bios"}
		}, "m6i.large boot ami-0123456789abcdef0", ""},
		{"instance-type", "FAIL", func(f *facts) { f.image.value.TPM, f.types.value[0].TPM = "v2.0", false }, "the image needs a NitroTPM, but m6i.large has none", "describe-instance-types"},
		{"instance-type", "FAIL", func(f *facts) { f.image.value.Virtualization = "paravirtual" }, "the image has the virtualization paravirtual, but m6i.large supports only hvm", "describe-instance-types"},
		{"instance-type", "WARN", kind(func(k *awsapi.InstanceType) { k.Current = false }), "m6i.large is of a previous generation", "describe-instance-types"},
		{"disks", "FAIL", disk(awsapi.BlockDevice{Name: "/dev/xvda", Size: 8}), "the launch template nodes makes /dev/xvda with 8 GiB, but the image's snapshot has 20 GiB", "aws ec2 describe-images"},
		{"disks", "WARN", disk(awsapi.BlockDevice{Name: "/dev/sda1", Size: 80}), "sets the disk /dev/sda1, but the image's root device is /dev/xvda: the root disk keeps the image's size, and /dev/sda1 is a second, empty disk", "aws ec2 describe-images"},
		{"disks", "OK", disk(awsapi.BlockDevice{Name: "/dev/xvdb", Size: 80}), "/dev/xvdb", ""},
		{"disks", "OK", disk(awsapi.BlockDevice{Name: "/dev/xvda", Size: 20}), "/dev/xvda", ""},
		{"disk-keys", "FAIL", key(func(*awsapi.Key) {}), "instances of Auto Scaling groups and of managed node groups end with Client.InternalError", "aws kms create-grant --key-id " + ownKey + " --grantee-principal " + scaling},
		{"disk-keys", "OK", key(func(k *awsapi.Key) { k.Policy = documented }), ownKey + ", by its policy", ""},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) { k.Policy = strings.Replace(documented, "kms:CreateGrant", "kms:ListGrants", 1) }), "end with Client.InternalError", "create-grant"},
		{"disk-keys", "WARN", key(func(k *awsapi.Key) {
			k.Policy = strings.Replace(documented, "kms:GrantIsForAWSResource", "aws:SourceVpc", 1)
		}), "does not clearly let Auto Scaling use the key", "create-grant"},
		{"disk-keys", "WARN", key(func(k *awsapi.Key) { k.Policy = "{" }), "does not clearly let Auto Scaling use the key", "create-grant"},
		{"disk-keys", "OK", key(func(k *awsapi.Key) {
			k.Grants = []types.GrantListEntry{{GranteePrincipal: new(scaling), Operations: []types.GrantOperation{"Decrypt", "GenerateDataKeyWithoutPlaintext", "CreateGrant"}}}
		}), ownKey + ", by a grant", ""},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) {
			k.Grants = []types.GrantListEntry{{GranteePrincipal: new(scaling), Operations: []types.GrantOperation{"Decrypt"}}}
		}), "Client.InternalError", "create-grant"},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) { k.State = "Disabled" }), "is disabled", "aws kms enable-key --key-id " + ownKey},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) { k.State = "PendingDeletion" }), "will be deleted", "aws kms cancel-key-deletion --key-id " + ownKey},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) { k.Symmetric = false }), "is not symmetric", "aws kms create-key"},
		{"disk-keys", "OK", key(func(k *awsapi.Key) { k.AWSManaged = true }), "the key aws/ebs, which the whole account can use", ""},
		{"disk-keys", "FAIL", key(func(k *awsapi.Key) { k.AWSManaged, k.Account = true, "666666666666" }), "encrypted the image with its key aws/ebs, which no other account can use", "aws ec2 copy-image"},
		{"disk-keys", "WARN", key(func(k *awsapi.Key) { k.ARN, k.Account, k.Policy = foreignKey, "666666666666", "" }), "only that account can read the key's policy", "aws kms create-grant --key-id " + foreignKey},
		{"disk-keys", "WARN", key(func(k *awsapi.Key) { k.ARN, k.Account, k.State = foreignKey, "666666666666", "unknown" }), "your account may not see the key", "aws kms describe-key"},
		{"disk-keys", "UNKNOWN", func(f *facts) { f.keys.err = &awsapi.DeniedError{Permission: "kms:GetKeyPolicy"} }, "kms:GetKeyPolicy", "--policy"},
		{"metadata", "FAIL", func(f *facts) { f.launch.value.MetadataTags = true }, "has tags in the metadata service: EC2 then refuses tags with a slash, such as kubernetes.io/cluster/my-cluster", `"InstanceMetadataTags":"disabled"`},
		{"image-state", "FAIL", func(f *facts) { f.image.value.State = "disabled" }, "the image is disabled", "aws ec2 enable-image --image-id ami-0123456789abcdef0"},
		{"image-state", "FAIL", func(f *facts) {
			f.image.value.State, f.image.value.StateReason = "failed", "Client.InvalidSnapshot.NotFound: x"
		}, "the image is failed (Client.InvalidSnapshot.NotFound: x: the snapshot of a disk was deleted)", "StateReason"},
		{"image-state", "WARN", func(f *facts) { f.now, f.image.value.Deprecated = time.Unix(2e9, 0), time.Unix(1e9, 0) }, "is deprecated since 2001-09-09", "eksnode ami list"},
		{"image-state", "OK", func(f *facts) { f.now, f.image.value.Deprecated = time.Unix(1e9, 0), time.Unix(2e9, 0) }, "node-1.34", ""},
	} {
		f := templated()
		assert.Equal(t, OK, found(t, f, c.check).Verdict, "%s must pass before the change", c.check)
		c.judge(t, f)
	}
}

// Karpenter and node groups with Spot capacity need the role of EC2 Spot.
func TestSpotNeedsItsRole(t *testing.T) {
	for _, c := range []checkCase{
		{"spot-role", "WARN", func(f *facts) { f.spotRole = fact[awsapi.Role]{err: &awsapi.APIError{Code: "NoSuchEntity"}} },
			"the account has no role AWSServiceRoleForEC2Spot", "create-service-linked-role --aws-service-name spot.amazonaws.com"},
		{"spot-role", "OK", func(f *facts) { f.spotRole = known(awsapi.Role{}) }, "is there", ""},
		{"spot-role", "UNKNOWN", func(f *facts) {
			f.spotRole.err, f.spotRole.absent = &awsapi.DeniedError{Permission: "iam:GetRole"}, false
		},
			"iam:GetRole", "--policy"},
	} {
		c.judge(t, templated())
	}
}

func TestADenialOfAKeyPolicyWins(t *testing.T) {
	allow := `{"Effect":"Allow","Principal":{"AWS":"` + scaling + `"},"Action":"kms:*"}`
	allowed, sure := allows(`{"Statement":[`+allow+`]}`, scaling)
	assert.True(t, allowed && sure)
	for _, other := range []string{`{"Effect":"Deny","Principal":"*","Action":"kms:CreateGrant"}`, `{"Principal":"*","Action":"kms:Decrypt"}`} {
		for _, policy := range []string{allow + "," + other, other + "," + allow} {
			allowed, _ := allows(`{"Statement":[`+policy+`]}`, scaling)
			assert.False(t, allowed, policy)
		}
	}
}

// A key policy is written by people. No policy makes the check panic, and none that
// is invalid lets Auto Scaling use the key.
func FuzzKeyPolicy(f *testing.F) {
	f.Add(rootOnly)
	f.Add(documented)
	f.Add(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"kms:*"}}`)
	f.Add(`{"Statement":[{"Effect":"Allow","NotPrincipal":{"AWS":"x"},"Action":"*"}]}`)
	f.Add(`{"Statement":[{"Principal":{"AWS":["` + scaling + `"]},"Action":["*"]}]}`)
	f.Fuzz(func(t *testing.T, policy string) {
		if allowed, _ := allows(policy, scaling); allowed {
			assert.Contains(t, strings.ToLower(policy), "allow")
		}
	})
}

// Checks and remedies differ between launch templates and instances in these cases.
func TestChecksOfLaunchTemplates(t *testing.T) {
	public, private := true, false
	for name, c := range map[string]checkCase{
		"another tag": {"cluster-tag", "WARN", func(f *facts) {
			f.launch.value.Tags = map[string]string{"team": "a"}
			f.launch.value.AllTags = append(tagging("volume", "team", "o'brien"), tagging("instance", "team", "a")...)
		}, "the launch template nodes has no tag kubernetes.io/cluster/my-cluster=owned; the Auto Scaling group may add the tag",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"TagSpecifications":[{"ResourceType":"volume","Tags":[{"Key":"team","Value":"o'\''brien"}]},` +
				`{"ResourceType":"instance","Tags":[{"Key":"team","Value":"a"},{"Key":"kubernetes.io/cluster/my-cluster","Value":"owned"}]}]}'`},
		"no profile": {"instance-profile", "FAIL",
			func(f *facts) {
				f.launch.value.Profile, f.profile.value = "", awsapi.Profile{}
			}, "the launch template nodes has no instance profile: right for a managed node group (check it with --nodegroup), but self-managed nodes get no credentials; --role names the role",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"IamInstanceProfile":{"Name":"PROFILE"}}'`},
		"no image": {"image-state", "FAIL", func(f *facts) {
			f.launch.value.Image, f.image = "", fact[awsapi.Image]{absent: true}
		}, "the launch template nodes names no image", `'{"ImageId":"AMI"}'`},
		"no type": {"image-architecture", "WARN",
			func(f *facts) {
				f.launch.value.Type, f.architectures = "", fact[[]string]{absent: true}
			}, "the launch template nodes names no instance type", "aws ec2 describe-instance-types"},
		"no groups": {"security-group-443", "WARN",
			func(f *facts) {
				f.launch.value.SecurityGroups, f.nodeGroups.value = nil, nil
			}, "its instances get the VPC's default group", `'{"SecurityGroupIds":["sg-cluster"]}'`},
		"no metadata": {"metadata", "FAIL", func(f *facts) {
			f.launch.value.NoMetadata, f.launch.value.Metadata["HttpEndpoint"] = true, "disabled"
		}, "the metadata service is off in the launch template nodes", `'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"required"}}'`},
		"other metadata options": {"metadata", "FAIL", func(f *facts) {
			f.launch.value.NoMetadata, f.launch.value.Tokens = true, "optional"
			f.launch.value.Metadata = map[string]any{"HttpEndpoint": "disabled", "InstanceMetadataTags": "enabled", "HttpTokens": "optional"}
		}, "the metadata service is off in the launch template nodes",
			`'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"optional","InstanceMetadataTags":"enabled"}}'`},
		"a public address": {"egress", "OK", func(f *facts) {
			for i := range f.subnets.value {
				f.subnets.value[i].Routes = over("igw-1")
			}
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &public, []map[string]any{{"AssociatePublicIpAddress": true, "DeviceIndex": 0, "Groups": []string{"sg-cluster"}}}
		}, "subnet-1 over igw-1, subnet-2 over igw-1", ""},
		"no public address": {"egress", "FAIL", func(f *facts) {
			nodeSubnet(f).PublicAddresses, nodeSubnet(f).Routes = true, over("igw-1")
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &private, []map[string]any{{"AssociatePublicIpAddress": false, "DeviceIndex": 0.0, "Groups": []any{"sg-cluster"}}}
		}, "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"]}]}'`},
		"no public address, two interfaces": {"egress", "FAIL", func(f *facts) {
			nodeSubnet(f).PublicAddresses, nodeSubnet(f).Routes = true, over("igw-1")
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &private, []map[string]any{
				{"AssociatePublicIpAddress": false, "DeviceIndex": 0.0, "Groups": []any{"sg-cluster"}, "SubnetId": "subnet-1"},
				{"DeviceIndex": 1.0, "InterfaceType": "efa", "Groups": []any{"sg-node"}},
			}
		}, "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"],"SubnetId":"subnet-1"},` +
			`{"DeviceIndex":1,"Groups":["sg-node"],"InterfaceType":"efa"}]}'`},
		"the subnet's address": {"egress", "FAIL", func(f *facts) { nodeSubnet(f).Routes = over("igw-1") },
			"its instances get no public address", "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id subnet-1"},
	} {
		t.Run(name, func(t *testing.T) { c.judge(t, templated()) })
	}
}

// FuzzEndpointPolicy evaluates policies of endpoints, and the policies that remedies
// write.
func FuzzEndpointPolicy(f *testing.F) {
	for _, seed := range []string{
		fullAccess, `{}`, `{"Statement":null}`, `{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::mine/*"}}`,
		`{"Statement":[{"Effect":"Deny","Principal":{"AWS":["*"]},"NotAction":"s3:Get?bject","NotResource":["arn:*"],"Condition":{"Bool":{"a":"b"}}}]}`,
		`{"statement":[{"effect":"Allow","principal":{"Service":"x"},"action":["*"],"resource":"*"}]}`, `{"Statement":[null,1]}`, `[]`,
	} {
		f.Add(seed, "s3:GetObject", "arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer")
		f.Add(seed, "ec2:DescribeInstances", "*")
	}
	f.Fuzz(func(t *testing.T, text, action, resource string) {
		var before, after clustersetup.Document
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		c := call{action, resource}
		said, denied := about(before, c)
		written, err := clustersetup.Extended(text, map[string]any{"Effect": "Allow", "Principal": "*", "Action": action, "Resource": resource})
		if err != nil || said != refused || denied {
			return
		}
		assert.NoError(t, json.Unmarshal([]byte(written), &after))
		if now, _ := about(after, c); rewritten(action) == action && rewritten(resource) == resource {
			assert.Equal(t, allowed, now, written)
		}
	})
}

// rewritten is a text as encoding/json writes and reads it.
func rewritten(text string) string {
	var back string
	written, err := json.Marshal(text)
	if err != nil || json.Unmarshal(written, &back) != nil {
		return ""
	}
	return back
}
