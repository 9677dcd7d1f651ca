// Package amiimport makes an AMI of a disk image, without an instance: it audits the
// disk, uploads what the disk uses as an EBS snapshot, and registers the AMI.
package amiimport

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Spec describes the AMI. Fields are named as those of Packer's builder amazon-ebs.
// The comments of the fields are the reference of the post-processor and the help of
// the command.
type Spec struct {
	// Name of the AMI, unique in the account and region.
	Name string `mapstructure:"ami_name" required:"true"`
	// Description of the AMI.
	Description string `mapstructure:"ami_description"`
	// Effect of an audit of the root partition before the upload: `fail`, `warn` or
	// `off`. With `fail`, a disk with findings is not uploaded. The audit needs root.
	// Defaults to `fail`.
	Audit string `mapstructure:"audit"`
	// Rules or rule groups that the audit skips.
	SkipRules []string `mapstructure:"skip_rules"`
	// Number of the root partition. Defaults to the partition with the type, label or
	// content of a root.
	Partition int `mapstructure:"root_partition"`
	// Architecture, `x86_64` or `arm64`. Defaults to that of the boot loader or of the
	// programs on the disk.
	Architecture string `mapstructure:"ami_architecture"`
	// Boot mode, `legacy-bios`, `uefi` or `uefi-preferred`. Defaults to what the disk
	// can boot.
	BootMode string `mapstructure:"boot_mode"`
	// UEFI variable store in Base64, such as the output of `uefivars`.
	UEFIData string `mapstructure:"uefi_data"`
	// TPM of instances, `v2.0`. Needs the boot mode `uefi`.
	TPM string `mapstructure:"tpm_support"`
	// Set the SR-IOV attribute, for instance types older than ENA.
	SRIOV bool `mapstructure:"sriov_support"`
	// Name of the root device. Defaults to `/dev/xvda`.
	RootDevice string `mapstructure:"root_device_name"`
	// Size of the root volume in GiB. Defaults to the size of the disk.
	VolumeSize int `mapstructure:"volume_size"`
	// Type of the root volume. Defaults to `gp3`.
	VolumeType string `mapstructure:"volume_type"`
	// IOPS of the root volume.
	IOPS int `mapstructure:"iops"`
	// Throughput of the root volume in MiB/s, from 125 to 2000.
	Throughput int `mapstructure:"throughput"`
	// Rate in MiB/s, from 100 to 300, at which EC2 loads a new root volume from the
	// snapshot.
	InitializationRate int `mapstructure:"volume_initialization_rate"`
	// Encrypt the snapshot.
	Encrypt bool `mapstructure:"encrypt_boot"`
	// ARN of the KMS key for the snapshot. Defaults to the account's default key.
	KMSKey string `mapstructure:"kms_key_id"`
	// Snapshot with blocks that need not be uploaded, such as that of the last import.
	// The new snapshot is encrypted as the parent is.
	ParentSnapshot string `mapstructure:"parent_snapshot"`
	// AMI whose root snapshot is the parent.
	ParentAMI string `mapstructure:"parent_ami"`
	// Tags of the AMI and the snapshot.
	Tags map[string]string `mapstructure:"tags"`
	// More tags of the snapshot.
	SnapshotTags map[string]string `mapstructure:"snapshot_tags"`
	// Regions to copy the AMI to.
	Regions []string `mapstructure:"ami_regions"`
	// KMS keys of the copies, by region.
	RegionKeys map[string]string `mapstructure:"region_kms_key_ids"`
	// Accounts that may start instances of the AMI.
	Users []string `mapstructure:"ami_users"`
	// Groups that may start instances of the AMI; only `all` exists.
	Groups []string `mapstructure:"ami_groups"`
	// ARNs of organizations that may start instances of the AMI.
	Organizations []string `mapstructure:"ami_org_arns"`
	// ARNs of organizational units that may start instances of the AMI.
	Units []string `mapstructure:"ami_ou_arns"`
	// Accounts that may use the snapshot.
	SnapshotUsers []string `mapstructure:"snapshot_users"`
	// Time at which EC2 deprecates the AMI, such as `2027-01-31T00:00:00Z`.
	DeprecateAt string `mapstructure:"deprecate_at"`
	// Keep the pending snapshot after a failure, so that the next run continues the
	// upload.
	Keep bool `mapstructure:"keep_snapshot"`
}

// name is the form of an AMI's name
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html).
var name = regexp.MustCompile(`^[A-Za-z0-9()\[\] ./'@_-]{3,128}$`)

// Validate returns the faults of the spec, joined.
func (s Spec) Validate() error {
	var errs []error
	fail := func(condition bool, format string, args ...any) {
		if condition {
			errs = append(errs, surface.Errorf(format, args...))
		}
	}
	fail(!name.MatchString(s.Name), "%s: %q is not a name of 3 to 128 letters, digits and ()[] ./-'@_", surface.Name("ami_name"), s.Name)
	for _, one := range []struct {
		field   surface.Name
		value   string
		allowed []string
	}{
		{"audit", s.Audit, scrub.Audits()}, {"ami_architecture", s.Architecture, []string{"x86_64", "arm64"}},
		{"boot_mode", s.BootMode, []string{"legacy-bios", "uefi", "uefi-preferred"}}, {"tpm_support", s.TPM, []string{"v2.0"}},
		{"volume_type", s.VolumeType, []string{"gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"}},
	} {
		fail(one.value != "" && !slices.Contains(one.allowed, one.value), "%s: %q is not known; known: %s", one.field, one.value, strings.Join(one.allowed, ", "))
	}
	for _, one := range []struct {
		field            surface.Name
		value, low, high int
		unit             string
	}{
		{"root_partition", s.Partition, 1, 128, ""}, {"volume_size", s.VolumeSize, 1, 65536, " GiB"}, {"iops", s.IOPS, 100, 256000, ""},
		{"throughput", s.Throughput, 125, 2000, " MiB/s"}, {"volume_initialization_rate", s.InitializationRate, 100, 300, " MiB/s"},
	} {
		fail(one.value != 0 && (one.value < one.low || one.value > one.high), "%s: %d is not from %d to %d%s", one.field, one.value, one.low, one.high, one.unit)
	}
	fail(s.Throughput != 0 && s.VolumeType != "" && s.VolumeType != "gp3", "%s: only gp3 has a throughput", surface.Name("throughput"))
	fail(s.TPM != "" && s.BootMode != "" && s.BootMode != "uefi", "%s: a TPM needs the boot mode uefi", surface.Name("tpm_support"))
	fail(s.KMSKey != "" && !s.Encrypt, "%s has no effect without %s", surface.Name("kms_key_id"), surface.Name("encrypt_boot"))
	fail(s.ParentSnapshot != "" && s.ParentAMI != "", "%s and %s exclude each other", surface.Name("parent_snapshot"), surface.Name("parent_ami"))
	fail(s.parent() && s.Encrypt, "%s: a snapshot with a parent is encrypted as the parent is", surface.Name("encrypt_boot"))
	fail(slices.ContainsFunc(s.Groups, func(g string) bool { return g != "all" }), `%s: only the group "all" exists`, surface.Name("ami_groups"))
	for region := range s.RegionKeys {
		fail(!slices.Contains(s.Regions, region), "%s: the AMI is not copied to the region; add it to %s", surface.Name("region_kms_key_ids").Key(region), surface.Name("ami_regions"))
	}
	if _, err := s.deprecation(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s Spec) parent() bool { return s.ParentSnapshot != "" || s.ParentAMI != "" }

// deprecation is the time of the deprecation; zero is never.
func (s Spec) deprecation() (time.Time, error) {
	if s.DeprecateAt == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, s.DeprecateAt)
	if err != nil {
		return at, surface.Errorf("%s: %q is not a time such as 2027-01-31T00:00:00Z", surface.Name("deprecate_at"), s.DeprecateAt)
	}
	return at, nil
}
