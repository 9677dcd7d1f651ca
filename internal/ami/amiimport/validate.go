package amiimport

import (
	"encoding/base64"
	"errors"
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

// faults collects the faults of a spec.
type faults struct{ errs []error }

func (f *faults) when(condition bool, format string, args ...any) {
	if condition {
		f.errs = append(f.errs, surface.Errorf(format, args...))
	}
}

func (f *faults) check(field surface.Name, err error) { f.when(err != nil, "%s: %w", field, err) }

// Validate returns the faults of the spec, joined.
func (s Spec) Validate() error {
	var f faults
	s.checkWords(&f)
	s.checkVolume(&f)
	s.checkEncryption(&f)
	s.checkNames(&f)
	f.check("tags", checkTags(s.Tags))
	f.check("snapshot_tags", checkTags(joined(s.Tags, s.SnapshotTags)))
	_, err := s.deprecation()
	return errors.Join(append(f.errs, err)...)
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
func (s Spec) checkWords(f *faults) {
	f.when(s.Name == "", "%s is missing; name the AMI, such as my-node-1", surface.Name("ami_name"))
	if s.Name != "" {
		f.check("ami_name", awsnames.ImageName(s.Name))
	}
	f.when(utf8.RuneCountInString(s.Description) > descriptionMost, "%s: the text has more than %d characters",
		surface.Name("ami_description"), descriptionMost)
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
		f.when(one.value != "" && !slices.Contains(one.allowed, one.value), "%s: %q is not known; known: %s", one.field,
			one.value, strings.Join(one.allowed, ", "))
	}
	f.when(s.RootDevice != "" && !deviceName.MatchString(s.RootDevice),
		"%s: %q is not the name of a root device such as /dev/xvda or /dev/sda1", surface.Name("root_device_name"),
		s.RootDevice)
	s.checkBoot(f)
	data, err := base64.StdEncoding.DecodeString(s.UEFIData)
	f.when(err != nil, "%s: the text is not Base64: %w", surface.Name("uefi_data"), err)
	f.when(len(data) > uefiDataMost, "%s: the data has %d bytes, more than %d", surface.Name("uefi_data"), len(data),
		uefiDataMost)
	f.when(s.ForceDeleteSnapshot && !s.ForceDeregister, "%s has no effect without %s",
		surface.Name("force_delete_snapshot"), surface.Name("force_deregister"))
	off := s.Audit == string(scrub.AuditOff)
	s.checkStatement(f)
	f.when(len(s.SkipRules) > 0 && off, "%s has no effect without an audit", surface.Name("skip_rules"))
	f.when(s.Node != "" && off, "%s has no effect without an audit", surface.Name("node"))
	f.when(s.Partition != 0 && off, "%s has no effect without an audit", surface.Name("root_partition"))
	// The distribution is not known yet.
	if err := (scrub.Spec{Skip: s.SkipRules}).Validate(scrub.ToAudit, distros.ScrubRules()); err != nil {
		f.errs = append(f.errs, err)
	}
}

// checkBoot checks what the architecture, the boot mode, the TPM and the UEFI data say about
// each other, as far as they are known.
func (s Spec) checkBoot(f *faults) {
	f.when(s.TPM != "" && s.Architecture == arm, "%s: %s", surface.Name("tpm_support"), noTPM)
	f.when(s.TPM != "" && s.BootMode != "" && s.BootMode != uefi, "%s: a TPM needs the boot mode %s, not %s",
		surface.Name("tpm_support"), uefi, s.BootMode)
	f.when(s.UEFIData != "" && s.BootMode == bios, "%s has no effect with the boot mode %s",
		surface.Name("uefi_data"), bios)
	f.when(s.Architecture == arm && s.BootMode != "" && s.BootMode != uefi,
		"%s: instances for arm64 boot with %s, not with %s", surface.Name("boot_mode"), uefi, s.BootMode)
}

// noTPM is why an AMI for arm64 has no TPM. RegisterImage says "Invalid
// machineArchitecture value 'arm64' for tpmSupport"
// (https://github.com/balena-os/balena-yocto-scripts/pull/298).
const noTPM = "EC2 has a TPM only for x86_64, not for arm64"

// checkEncryption checks what the fields for encryption, parents and sharing say about
// each other.
func (s Spec) checkEncryption(f *faults) {
	f.when(s.KMSKey != "" && !s.Encrypt, "%s has no effect without %s", surface.Name("kms_key_id"),
		surface.Name("encrypt_boot"))
	f.when(s.ParentSnapshot != "" && s.ParentAMI != "", "%s exclude each other",
		surface.Name("parent_snapshot and parent_ami"))
	f.when(s.parent() && s.Encrypt, "%s: a snapshot with a parent is encrypted as the parent is; leave the parent or "+
		"the encryption out", surface.Name("encrypt_boot"))
	f.when(slices.ContainsFunc(s.Groups, func(g string) bool { return g != everybody }), "%s: only the group %q exists",
		surface.Name("ami_groups"), everybody)
	f.when(len(s.Groups) > 0 && (s.Encrypt || len(s.RegionKeys) > 0), "%s: %s; leave the encryption out",
		surface.Name("ami_groups"), notPublic)
	for _, region := range slices.Sorted(maps.Keys(s.RegionKeys)) {
		f.when(!slices.Contains(s.Regions, region), "%s: the AMI is not copied to the region; add the region to %s",
			surface.Name("region_kms_key_ids").Key(region), surface.Name("ami_regions"))
	}
}

// notPublic is why an encrypted AMI cannot be public
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sharingamis-intro.html).
const notPublic = "an AMI with an encrypted snapshot cannot be public"

// checkNames checks the forms of IDs and ARNs.
func (s Spec) checkNames(f *faults) {
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
			f.check(list.field, list.check(value))
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
		return at, surface.Errorf("%s: %q is not a time such as 2027-01-31T00:00:00Z", surface.Name("deprecate_at"),
			s.DeprecateAt)
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
		return surface.Errorf("%s: %s is not in the future", surface.Name("deprecate_at"), s.DeprecateAt)
	case at.After(now.AddDate(most, 0, 0)):
		return surface.Errorf("%s: %s is more than %d years away%s", surface.Name("deprecate_at"), s.DeprecateAt, most,
			kind)
	}
	return nil
}

// Architectures returns the values of ami_architecture.
func Architectures() []string { return []string{x86, arm} }

// BootModes returns the values of boot_mode.
func BootModes() []string { return []string{bios, uefi, both} }

// IMDSSupports returns the values of imds_support.
func IMDSSupports() []string { return []string{imdsV2, imdsOptional} }
