// Package amiimport makes an AMI of a disk image, without an instance: it audits the
// disk, uploads what the disk uses as an EBS snapshot, and registers the AMI.
package amiimport

// Spec describes the AMI. Fields are named as those of Packer's builder amazon-ebs.
// The comments of the fields are the reference of the post-processor and the help of
// the command.
type Spec struct {
	// Name of the AMI, unique in the account and region.
	Name string `mapstructure:"ami_name" required:"true"`
	// Description of the AMI.
	Description string `mapstructure:"ami_description"`
	// Effect of an audit of the disk before the upload: `fail`, `warn` or `off`. With
	// `fail`, a disk with findings is not uploaded. The audit needs root. Defaults to
	// `fail`.
	Audit string `mapstructure:"audit"`
	// Rules, phases or groups that the audit skips.
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
	// UEFI variable store in Base64, such as the output of `uefivars`. Needs a boot mode
	// with UEFI.
	UEFIData string `mapstructure:"uefi_data"`
	// TPM of instances, `v2.0`. Needs a disk that boots with UEFI. The boot mode is then
	// `uefi`.
	TPM string `mapstructure:"tpm_support"`
	// Metadata service of instances, `v2.0` or `optional`. With `v2.0`, requests need a
	// token, and the hop limit is 2. A launch template may change both. Defaults to
	// `v2.0`.
	IMDS string `mapstructure:"imds_support"`
	// Set the SR-IOV attribute, for instance types older than ENA.
	SRIOV bool `mapstructure:"sriov_support"`
	// Name of the root device. Defaults to `/dev/xvda`.
	RootDevice string `mapstructure:"root_device_name"`
	// Size of the root volume in GiB. Defaults to the size of the disk.
	VolumeSize int `mapstructure:"volume_size"`
	// Type of the root volume: `gp2`, `gp3`, `io1`, `io2` or `standard`. Defaults to
	// `gp3`.
	VolumeType string `mapstructure:"volume_type"`
	// IOPS of the root volume. The types `io1` and `io2` need a number.
	IOPS int `mapstructure:"iops"`
	// Throughput of the root volume in MiB/s, from 125 to 2000, for the type `gp3`.
	Throughput int `mapstructure:"throughput"`
	// Rate in MiB/s, from 100 to 300, at which EC2 loads a new root volume from the
	// snapshot.
	InitializationRate int `mapstructure:"volume_initialization_rate"`
	// Encrypt the snapshot and the copies.
	Encrypt bool `mapstructure:"encrypt_boot"`
	// ID, alias or ARN of the KMS key for the snapshot, with `encrypt_boot`. Defaults to
	// the account's default key.
	KMSKey string `mapstructure:"kms_key_id"`
	// Snapshot with blocks that need not be uploaded, such as that of the last import.
	// The new snapshot is encrypted as the parent is.
	ParentSnapshot string `mapstructure:"parent_snapshot"`
	// AMI whose root snapshot is the parent.
	ParentAMI string `mapstructure:"parent_ami"`
	// Tags of the AMI and the snapshot, in addition to those of the data source
	// eksnode-contents, which come from the image.
	Tags map[string]string `mapstructure:"tags"`
	// Additional tags of the snapshot.
	SnapshotTags map[string]string `mapstructure:"snapshot_tags"`
	// Regions to copy the AMI to.
	Regions []string `mapstructure:"ami_regions"`
	// IDs, aliases or ARNs of the KMS keys for encrypted copies, by region. An empty
	// text is the region's default key.
	RegionKeys map[string]string `mapstructure:"region_kms_key_ids"`
	// Accounts that may start instances of the AMI.
	Users []string `mapstructure:"ami_users"`
	// Groups that may start instances of the AMI. Only `all` exists, which makes the AMI
	// public.
	Groups []string `mapstructure:"ami_groups"`
	// ARNs of organizations that may start instances of the AMI.
	Organizations []string `mapstructure:"ami_org_arns"`
	// ARNs of organizational units that may start instances of the AMI.
	Units []string `mapstructure:"ami_ou_arns"`
	// Accounts that may use the snapshot.
	SnapshotUsers []string `mapstructure:"snapshot_users"`
	// Time at which EC2 deprecates the AMI and its copies, such as
	// `2027-01-31T00:00:00Z`.
	DeprecateAt string `mapstructure:"deprecate_at"`
	// Replace your AMI of the same name, in every region of the new AMI. If the new AMI
	// cannot be registered, the old one is registered again, with another ID.
	ForceDeregister bool `mapstructure:"force_deregister"`
	// Delete the snapshots of the AMIs that `force_deregister` replaces, as the last step.
	ForceDeleteSnapshot bool `mapstructure:"force_delete_snapshot"`
	// Keep the pending snapshot after a failure, so that the next run continues the
	// upload.
	Keep bool `mapstructure:"keep_snapshot"`
}
