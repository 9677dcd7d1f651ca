package amiimport

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// The values of fields.
const (
	bios         = "legacy-bios"
	uefi         = "uefi"
	both         = "uefi-preferred"
	x86          = "x86_64"
	arm          = "arm64"
	tpm          = "v2.0"
	imdsV2       = "v2.0"
	imdsOptional = "optional"
	everybody    = "all"
)

// Validate returns the faults of the spec, joined.
func (s Spec) Validate() error {
	var f surface.Faults
	s.checkWords(&f)
	s.checkVolume(&f)
	s.checkEncryption(&f)
	s.checkNames(&f)
	f.Check("tags", checkTags(s.Tags))
	f.Check("snapshot_tags", checkTags(joined(s.Tags, s.SnapshotTags)))
	_, err := s.deprecation()
	f.Add(err)
	return f.Err()
}

// deviceName is the form of a root device's name
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html).
var deviceName = regexp.MustCompile(`^/dev/(sd|xvd)[a-z][0-9]{0,2}$`)

// The limits of EC2 and EBS for texts
// (https://docs.aws.amazon.com/ebs/latest/APIReference/API_StartSnapshot.html,
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html).
const (
	descriptionMost = 255
	tagsMost        = 50
	tagKeyMost      = 128
	tagValueMost    = 256
	// uefiDataMost is the size of the variable store of EC2's instances.
	uefiDataMost = 64 << 10
)

// checkWords checks the fields with a closed set of values, and the texts.
func (s Spec) checkWords(f *surface.Faults) {
	f.When(s.Name == "", "{ami_name} is missing; name the AMI, such as my-node-1")
	if s.Name != "" {
		f.Check("ami_name", awsnames.ImageName(s.Name))
	}
	f.When(utf8.RuneCountInString(s.Description) > descriptionMost,
		"{ami_description}: the text has more than %d characters", descriptionMost)
	for _, one := range []struct {
		field   surface.Name
		value   string
		allowed []string
	}{
		{"audit", s.Audit, scrub.Audits()}, {"node", s.Node, scrub.Nodes()},
		{"ami_architecture", s.Architecture, Architectures()}, {"boot_mode", s.BootMode, BootModes()},
		{"tpm_support", s.TPM, []string{tpm}}, {"imds_support", s.IMDS, IMDSSupports()},
		{"volume_type", s.VolumeType, VolumeTypes()},
	} {
		f.When(one.value != "" && !slices.Contains(one.allowed, one.value), "%s: %q is not known; known: %s", one.field,
			one.value, strings.Join(one.allowed, ", "))
	}
	f.When(s.RootDevice != "" && !deviceName.MatchString(s.RootDevice),
		"{root_device_name}: %q is not the name of a root device such as /dev/xvda or /dev/sda1", s.RootDevice)
	s.checkBoot(f)
	data, err := base64.StdEncoding.DecodeString(s.UEFIData)
	f.When(err != nil, "{uefi_data}: the text is not Base64: %w", err)
	f.When(len(data) > uefiDataMost, "{uefi_data}: the data has %d bytes, more than %d", len(data), uefiDataMost)
	f.When(s.ForceDeleteSnapshot && !s.ForceDeregister,
		"{force_delete_snapshot} has no effect without {force_deregister}")
	off := s.Audit == string(scrub.AuditOff)
	s.checkStatement(f)
	f.When(len(s.SkipRules) > 0 && off, "{skip_rules} has no effect without an audit")
	f.When(s.Node != "" && off, "{node} has no effect without an audit")
	f.When(s.Partition != 0 && off, "{root_partition} has no effect without an audit")
	// The distribution is not known yet.
	f.Add(scrub.Spec{Skip: s.SkipRules}.Validate(scrub.ToAudit, distros.ScrubRules()))
}

// checkBoot checks what the architecture, the boot mode, the TPM and the UEFI data say about
// each other, as far as they are known.
func (s Spec) checkBoot(f *surface.Faults) {
	f.When(s.TPM != "" && s.Architecture == arm, "{tpm_support}: %s", noTPM)
	f.When(s.TPM != "" && s.BootMode != "" && s.BootMode != uefi, "{tpm_support}: a TPM needs the boot mode %s, not %s",
		uefi, s.BootMode)
	f.When(s.UEFIData != "" && s.BootMode == bios, "{uefi_data} has no effect with the boot mode %s", bios)
	f.When(s.Architecture == arm && s.BootMode != "" && s.BootMode != uefi,
		"{boot_mode}: instances for arm64 boot with %s, not with %s", uefi, s.BootMode)
}

// noTPM is why an AMI for arm64 has no TPM. RegisterImage says "Invalid
// machineArchitecture value 'arm64' for tpmSupport"
// (https://github.com/balena-os/balena-yocto-scripts/pull/298).
const noTPM = "EC2 has a TPM only for x86_64, not for arm64"

// checkEncryption checks what the fields for encryption, parents and sharing say about
// each other.
func (s Spec) checkEncryption(f *surface.Faults) {
	f.When(s.KMSKey != "" && !s.Encrypt, "{kms_key_id} has no effect without {encrypt_boot}")
	f.When(s.ParentSnapshot != "" && s.ParentAMI != "", "{parent_snapshot} and {parent_ami} exclude each other")
	f.When(s.parent() && s.Encrypt, "{encrypt_boot}: a snapshot with a parent is encrypted as the parent is; leave "+
		"the parent or the encryption out")
	f.When(slices.ContainsFunc(s.Groups, func(g string) bool { return g != everybody }),
		"{ami_groups}: only the group %q exists", everybody)
	f.When(len(s.Groups) > 0 && (s.Encrypt || len(s.RegionKeys) > 0), "{ami_groups}: %s; leave the encryption out",
		notPublic)
	for _, region := range slices.Sorted(maps.Keys(s.RegionKeys)) {
		f.When(!slices.Contains(s.Regions, region),
			"%s: the AMI is not copied to the region; add the region to {ami_regions}",
			surface.Name("region_kms_key_ids").Key(region))
	}
}

// notPublic is why an encrypted AMI cannot be public
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sharingamis-intro.html).
const notPublic = "an AMI with an encrypted snapshot cannot be public"

// checkNames checks the forms of IDs and ARNs.
func (s Spec) checkNames(f *surface.Faults) {
	for _, list := range []struct {
		field  surface.Name
		values []string
		check  func(string) error
	}{
		{"parent_snapshot", given(s.ParentSnapshot), awsnames.SnapshotID.Check},
		{"parent_ami", given(s.ParentAMI), awsnames.Image},
		{"ami_regions", s.Regions, awsnames.Region.Check}, {"ami_users", s.Users, awsnames.AccountID.Check},
		{"snapshot_users", s.SnapshotUsers, awsnames.AccountID.Check},
		{"ami_org_arns", s.Organizations, awsnames.OrganizationARN.Check},
		{"ami_ou_arns", s.Units, awsnames.UnitARN.Check},
	} {
		for _, value := range list.values {
			f.Check(list.field, list.check(value))
		}
	}
}

// given is a list with a value, or an empty list for an empty value.
func given(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// checkTags checks tags by EC2's rules.
func checkTags(tags map[string]string) error {
	if len(tags) > tagsMost {
		return surface.Errorf("%d tags are more than EC2's %d", len(tags), tagsMost)
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case key == "" || utf8.RuneCountInString(key) > tagKeyMost:
			return surface.Errorf("the key %q does not have 1 to %d characters", key, tagKeyMost)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return surface.Errorf("the key %q is reserved: AWS's keys begin with aws:", key)
		case utf8.RuneCountInString(tags[key]) > tagValueMost:
			return surface.Errorf("the value of %q has more than %d characters", key, tagValueMost)
		}
	}
	return nil
}

func (s Spec) parent() bool { return s.ParentSnapshot != "" || s.ParentAMI != "" }

// shared says whether accounts of others get the AMI or its snapshot.
func (s Spec) shared() bool {
	return len(s.Users)+len(s.Organizations)+len(s.Units)+len(s.SnapshotUsers) > 0
}

// deprecation is the time of the deprecation; zero is never.
func (s Spec) deprecation() (time.Time, error) {
	if s.DeprecateAt == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s.DeprecateAt)
	if err != nil {
		return at, surface.Errorf("{deprecate_at}: %q is not a time such as 2027-01-31T00:00:00Z", s.DeprecateAt)
	}
	return at, nil
}

// deprecationMost is how far in the future a deprecation may be, in years
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EnableImageDeprecation.html).
const (
	deprecationMost = 10
	publicMost      = 2
)

func (s Spec) checkDeprecation(now time.Time) error {
	at, err := s.deprecation()
	most, kind := deprecationMost, ""
	if len(s.Groups) > 0 {
		most, kind = publicMost, ", the most for a public AMI"
	}
	switch {
	case err != nil || at.IsZero():
		return err
	case !at.After(now):
		return surface.Errorf("{deprecate_at}: %s is not in the future", s.DeprecateAt)
	case at.After(now.AddDate(most, 0, 0)):
		return surface.Errorf("{deprecate_at}: %s is more than %d years away%s", s.DeprecateAt, most, kind)
	}
	return nil
}

// Architectures returns the values of ami_architecture.
func Architectures() []string { return []string{x86, arm} }

// BootModes returns the values of boot_mode.
func BootModes() []string { return []string{bios, uefi, both} }

// IMDSSupports returns the values of imds_support.
func IMDSSupports() []string { return []string{imdsV2, imdsOptional} }
