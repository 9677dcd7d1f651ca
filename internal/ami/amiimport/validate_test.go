package amiimport_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// valid returns a spec without faults.
func valid() amiimport.Spec {
	return amiimport.Spec{
		Name: "node (1) [a]/b.c'@_-", Description: strings.Repeat("é", 255), Audit: "warn", SkipRules: []string{"not-a-node"}, Partition: 1, Architecture: "x86_64",
		BootMode: "uefi", UEFIData: "YWJj\n", TPM: "v2.0", IMDS: "optional", SRIOV: true, RootDevice: "/dev/sda1", VolumeSize: 100, VolumeType: "gp3", IOPS: 8000,
		Throughput: 2000, InitializationRate: 300, Encrypt: true, KMSKey: "alias/mine", Tags: map[string]string{"a": ""}, SnapshotTags: map[string]string{"b": "c"},
		Regions: []string{"us-east-1"}, RegionKeys: map[string]string{"us-east-1": ""}, Users: []string{"123456789012"},
		Organizations: []string{"arn:aws:organizations::123456789012:organization/o-exampleorgid"},
		Units:         []string{"arn:aws:organizations::123456789012:ou/o-exampleorgid/ou-abcd-12345678"}, SnapshotUsers: []string{"123456789012"},
		DeprecateAt: "2030-01-31T00:00:00Z", ForceDeregister: true, ForceDeleteSnapshot: true, Keep: true,
	}
}

// Each fault names its flag, the value, and what is allowed.
func TestFaultsOfASpec(t *testing.T) {
	assert.NoError(t, valid().Validate())
	assert.NoError(t, amiimport.Spec{Name: "abc"}.Validate())
	many := map[string]string{}
	for n := range 50 {
		many[strings.Repeat("x", n+1)] = ""
	}
	for want, change := range map[string]func(*amiimport.Spec){
		`--node: "none" is not known; known: auto, yes, no`: func(s *amiimport.Spec) { s.Node = "none" },
		`--node has no effect without an audit`: func(s *amiimport.Spec) {
			s.Audit, s.SkipRules, s.Partition, s.Node = "off", nil, 0, "no"
		},

		`--ami-name is missing; name the AMI, such as my-node-1`: func(s *amiimport.Spec) { s.Name = "" },

		`--ami-name: "a*b" is not a name`:                                                              func(s *amiimport.Spec) { s.Name = "a*b" },
		`--ami-description: the text has more than 255 characters`:                                     func(s *amiimport.Spec) { s.Description += "a" },
		`--audit: "no" is not known; known: fail, warn, off`:                                           func(s *amiimport.Spec) { s.Audit = "no" },
		`--skip-rules: no rule, phase or group is named "nothing"`:                                     func(s *amiimport.Spec) { s.SkipRules = []string{"nothing"} },
		`--skip-rules has no effect without an audit`:                                                  func(s *amiimport.Spec) { s.Audit, s.Partition = "off", 0 },
		`--root-partition has no effect without an audit`:                                              func(s *amiimport.Spec) { s.Audit, s.SkipRules = "off", nil },
		`--root-partition: there is no partition -1: give a number from 1`:                             func(s *amiimport.Spec) { s.Partition = -1 },
		`--ami-architecture: "amd64" is not known; known: x86_64, arm64`:                               func(s *amiimport.Spec) { s.Architecture = "amd64" },
		`--boot-mode: "bios" is not known; known: legacy-bios, uefi, uefi-preferred`:                   func(s *amiimport.Spec) { s.BootMode = "bios" },
		`--boot-mode: instances for arm64 boot with uefi, not with uefi-preferred`:                     func(s *amiimport.Spec) { s.Architecture, s.BootMode, s.TPM = "arm64", "uefi-preferred", "" },
		`--tpm-support: EC2 has a TPM only for x86_64, not for arm64`:                                  func(s *amiimport.Spec) { s.Architecture = "arm64" },
		`--tpm-support: "2.0" is not known; known: v2.0`:                                               func(s *amiimport.Spec) { s.TPM = "2.0" },
		`--tpm-support: a TPM needs the boot mode uefi, not legacy-bios`:                               func(s *amiimport.Spec) { s.BootMode, s.UEFIData = "legacy-bios", "" },
		`--uefi-data has no effect with the boot mode legacy-bios`:                                     func(s *amiimport.Spec) { s.BootMode, s.TPM = "legacy-bios", "" },
		`--uefi-data: the text is not Base64: `:                                                        func(s *amiimport.Spec) { s.UEFIData = "a b" },
		`--uefi-data: the data has 66000 bytes, more than 65536`:                                       func(s *amiimport.Spec) { s.UEFIData = strings.Repeat("AAAA", 22000) },
		`--imds-support: "v1.0" is not known; known: v2.0, optional`:                                   func(s *amiimport.Spec) { s.IMDS = "v1.0" },
		`--root-device-name: "xvda" is not the name of a root device such as /dev/xvda or /dev/sda1`:   func(s *amiimport.Spec) { s.RootDevice = "xvda" },
		`--volume-size: -1 is not a size in GiB`:                                                       func(s *amiimport.Spec) { s.VolumeSize = -1 },
		`--volume-size: a volume of the type gp3 has at most 65536 GiB, not 65537`:                     func(s *amiimport.Spec) { s.VolumeSize = 65537 },
		`--volume-type: "st1" is not known; known: gp2, gp3, io1, io2, standard`:                       func(s *amiimport.Spec) { s.VolumeType = "st1" },
		`--iops: the IOPS of the type gp2 cannot be set`:                                               func(s *amiimport.Spec) { s.VolumeType, s.Throughput = "gp2", 0 },
		`--iops: a volume of the type io2 needs IOPS, from 100 to 256000`:                              func(s *amiimport.Spec) { s.VolumeType, s.Throughput, s.IOPS = "io2", 0, 0 },
		`--iops: 2999 is not from 3000 to 80000, for the type gp3`:                                     func(s *amiimport.Spec) { s.IOPS, s.Throughput = 2999, 125 },
		`--throughput: only gp3 has a throughput`:                                                      func(s *amiimport.Spec) { s.VolumeType = "io1" },
		`--throughput: 124 is not from 125 to 2000 MiB/s`:                                              func(s *amiimport.Spec) { s.Throughput = 124 },
		`--throughput: 2000 MiB/s need 8000 IOPS; set --iops`:                                          func(s *amiimport.Spec) { s.IOPS = 0 },
		`--volume-initialization-rate: 99 is not from 100 to 300 MiB/s`:                                func(s *amiimport.Spec) { s.InitializationRate = 99 },
		`--kms-key-id has no effect without --encrypt-boot`:                                            func(s *amiimport.Spec) { s.Encrypt = false },
		`--parent-snapshot and --parent-ami exclude each other`:                                        func(s *amiimport.Spec) { s.ParentSnapshot, s.ParentAMI = "snap-01234567", "ami-01234567" },
		`--parent-snapshot: "ami-01234567" is not a snapshot ID such as snap-0123456789abcdef0: the t`: func(s *amiimport.Spec) { s.ParentSnapshot = "ami-01234567" },
		`--parent-ami: "x" is not an AMI ID such as ami-0123456789abcdef0`:                             func(s *amiimport.Spec) { s.ParentAMI = "x" },
		`--encrypt-boot: a snapshot with a parent is encrypted as the parent is; leave the parent or `: func(s *amiimport.Spec) { s.ParentSnapshot = "snap-01234567" },
		`--tags: the key "aws:x" is reserved: AWS's keys begin with aws:`:                              func(s *amiimport.Spec) { s.Tags = map[string]string{"aws:x": ""} },
		`--tags: the value of "a" has more than 256 characters`:                                        func(s *amiimport.Spec) { s.Tags = map[string]string{"a": strings.Repeat("v", 257)} },
		`--tags: the key "" does not have 1 to 128 characters`:                                         func(s *amiimport.Spec) { s.Tags = map[string]string{"": ""} },
		`--snapshot-tags: 51 tags are more than EC2's 50`:                                              func(s *amiimport.Spec) { s.Tags = maps.Clone(many) },
		`--ami-regions: "eu" is not a region such as eu-west-1`:                                        func(s *amiimport.Spec) { s.Regions = append(s.Regions, "eu") },
		`--region-kms-key-ids eu-west-3=…: the AMI is not copied to the region; add the region to --`:  func(s *amiimport.Spec) { s.RegionKeys = map[string]string{"eu-west-3": ""} },
		`--ami-users: "12" is not an account ID such as 123456789012`:                                  func(s *amiimport.Spec) { s.Users = []string{"12"} },
		`--snapshot-users: "all" is not an account ID such as 123456789012`:                            func(s *amiimport.Spec) { s.SnapshotUsers = []string{"all"} },
		`--ami-groups: only the group "all" exists`:                                                    func(s *amiimport.Spec) { s.Groups = []string{"everybody"} },
		`--ami-groups: an AMI with an encrypted snapshot cannot be public; leave the encryption out`:   func(s *amiimport.Spec) { s.Groups = []string{"all"} },
		`--ami-org-arns: "o-1" is not the ARN of an organization such as arn:aws:organizations::12345`: func(s *amiimport.Spec) { s.Organizations = []string{"o-1"} },
		`--ami-ou-arns: "ou-1" is not the ARN of an organizational unit such as arn:aws:organizations`: func(s *amiimport.Spec) { s.Units = []string{"ou-1"} },
		`--deprecate-at: "soon" is not a time such as 2027-01-31T00:00:00Z`:                            func(s *amiimport.Spec) { s.DeprecateAt = "soon" },
		`--force-delete-snapshot has no effect without --force-deregister`:                             func(s *amiimport.Spec) { s.ForceDeregister = false },
	} {
		s := valid()
		change(&s)
		assert.Contains(t, surface.InFlags(s.Validate()), want)
	}
}
