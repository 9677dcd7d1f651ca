//go:build linux

package aws

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// ServeEBS serves the EBS direct APIs on loopback and points the SDK's environment to
// them. Their snapshots are the world's.
func (w *World) ServeEBS() *ebsdirect.Double {
	w.t.Helper()
	w.ebs = ebsdirect.New(w.t.TempDir())
	w.joinEBS()
	server := httptest.NewServer(w.ebs)
	w.t.Cleanup(server.Close)
	w.ebsURL = server.URL
	w.t.Setenv("AWS_ENDPOINT_URL_EBS", server.URL)
	require.NotEmpty(w.t, w.Folder, "the world needs a folder for disks")
	return w.ebs
}

// joinEBS makes EBS that of the world's account.
func (w *World) joinEBS() {
	w.ebs.AccessKey, w.ebs.Account, w.ebs.Region, w.ebs.Allowed = AccessKey, Account, w.region(), w.allowed
	w.ebs.Around = w.aroundEBS
	w.Behave(w.front.Behaviour)
}

// takeOver brings the world's snapshots up to date with those of EBS. The caller holds
// the mutex.
func (w *World) takeOver() {
	if w.ebs == nil {
		return
	}
	ids := w.ebs.IDs()
	for _, id := range ids {
		s, known := w.ebs.Describe(id)
		if !known {
			continue
		}
		i := slices.IndexFunc(w.Snapshots, func(one *Snapshot) bool { return one.ID == id })
		if i < 0 {
			one := &Snapshot{Region: w.ebs.Region, ID: id, Owner: s.Owner, Size: int(s.Size), Encrypted: s.Encrypted,
				KMSKey: s.Key, Volume: s.Volume}
			for _, t := range s.Tags {
				one.Tags = append(one.Tags, Tag(t))
			}
			w.Snapshots, i = append(w.Snapshots, one), len(w.Snapshots)
			if s.Begun() { // EBS shows the state late by itself
				w.front.late[one] = &late{hidden: w.front.Seen}
			}
		}
		w.Snapshots[i].State, w.Snapshots[i].Message = s.State, s.Message
	}
}

type registerIn struct {
	Name           string             `query:"Name"`
	Description    string             `query:"Description"`
	Architecture   string             `query:"Architecture"`
	BootMode       string             `query:"BootMode"`
	Virtualization string             `query:"VirtualizationType"`
	ENA            bool               `query:"EnaSupport"`
	SRIOV          string             `query:"SriovNetSupport"`
	IMDS           string             `query:"ImdsSupport"`
	TPM            string             `query:"TpmSupport"`
	UEFI           string             `query:"UefiData"`
	RootDevice     string             `query:"RootDeviceName"`
	Devices        []registerDevice   `query:"BlockDeviceMapping"`
	Specifications []tagSpecification `query:"TagSpecification"`
}

type registerDevice struct {
	Name string        `query:"DeviceName"`
	EBS  registerDrive `query:"Ebs"`
}

type registerDrive struct {
	Snapshot   string `query:"SnapshotId"`
	Size       int    `query:"VolumeSize"`
	Type       string `query:"VolumeType"`
	IOPS       int    `query:"Iops"`
	Throughput int    `query:"Throughput"`
	Rate       int    `query:"VolumeInitializationRate"`
	Delete     *bool  `query:"DeleteOnTermination"`
	Encrypted  *bool  `query:"Encrypted"`
	Key        string `query:"KmsKeyId"`
}

// registerImage registers an image of a snapshot. The disk of its instances is what a
// volume of the snapshot holds.
func (w *World) registerImage(region string, in registerIn) (createdOut, error) {
	w.takeOver()
	if err := in.check(); err != nil {
		return createdOut{}, err
	}
	if err := w.free(region, in.Name); err != nil {
		return createdOut{}, err
	}
	drive := in.Devices[0].EBS
	taken, err := w.ownSnapshot(region, drive.Snapshot)
	switch {
	case err != nil:
		return createdOut{}, err
	case taken.State != "completed":
		// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
		return createdOut{}, endpoint.Fail("IncorrectState", "Snapshot '%s' is not 'completed'.", taken.ID)
	case drive.Size != 0 && drive.Size < taken.Size:
		return createdOut{}, endpoint.Fail("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", drive.Size, taken.ID, taken.Size)
	}
	if taken.Disk.Image == "" && w.ebs != nil && w.Folder != "" {
		if taken.Disk.Image, err = w.volumeFile(taken); err != nil {
			return createdOut{}, err
		}
	}
	made := Image{
		Description: in.Description, State: "available", Type: "machine", Architecture: in.Architecture, BootMode: in.BootMode, RootDevice: in.RootDevice,
		RootType: "ebs", Virtualization: in.Virtualization, ENA: in.ENA, IMDS: in.IMDS, TPM: in.TPM, UEFI: in.UEFI, Disk: taken.Disk,
		Devices: []Drive{{Name: in.RootDevice, Snapshot: taken.ID, Size: max(drive.Size, taken.Size), Type: drive.Type, Encrypted: taken.Encrypted}},
	}
	for _, s := range in.Specifications {
		made.Tags = s.Tags
	}
	made.Region, made.ID, made.Owner, made.Name, made.Created = region, w.next("ami"), Account, in.Name, created()
	w.Images = append(w.Images, &made)
	w.born(&made)
	return createdOut{made.ID}, nil
}

func (w *World) volumeFile(s *Snapshot) (string, error) {
	content, err := w.ebs.Volume(s.ID, s.Encrypted)
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.Folder, s.ID+".raw")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	block, zeros := make([]byte, ebsdirect.BlockSize), make([]byte, ebsdirect.BlockSize)
	for at := int64(0); ; at += ebsdirect.BlockSize {
		_, err := io.ReadFull(content, block)
		if errors.Is(err, io.EOF) {
			return path, f.Truncate(at)
		}
		if err == nil && !bytes.Equal(block, zeros) {
			_, err = f.WriteAt(block, at)
		}
		if err != nil {
			return "", fmt.Errorf("writing the volume of %s: %w", s.ID, err)
		}
	}
}

// This file has the rules of RegisterImage. "API" is
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html,
// "EbsBlockDevice" its type of that name, and "UG" a page of
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/.

// imageName is the form of an image's name (API, Name).
var imageName = regexp.MustCompile(`^[A-Za-z0-9()\[\] ./'@_-]{3,128}$`)

// snapshotForm is the form of a snapshot's ID (UG, using-ids.html). Tests have short
// ones too.
var snapshotForm = regexp.MustCompile(`^snap-[0-9a-f]+$`)

func wrong(format string, args ...any) error {
	return endpoint.Fail("InvalidParameterValue", format, args...)
}

// check returns the error of EC2 for parameters that are wrong. A missing parameter
// with a default that no node wants is an error too.
func (in registerIn) check() error {
	switch {
	case !imageName.MatchString(in.Name):
		return endpoint.Fail("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, and ()[] ./-'@_")
	case utf8.RuneCountInString(in.Description) > 255: // not documented for this call; CopyImage and CreateImage have the limit
		return wrong("the description has more than 255 characters")
	case in.Architecture != "x86_64" && in.Architecture != "arm64": // API: the default is i386
		return wrong("the architecture %q (the default is i386)", in.Architecture)
	case in.Virtualization != "hvm": // API: the default is paravirtual
		return wrong("the virtualization type %q (the default is paravirtual)", in.Virtualization)
	case !in.ENA: // API: not set by default, and only for hvm
		return wrong("an image without ENA")
	case in.SRIOV != "" && in.SRIOV != "simple": // API, SriovNetSupport
		return wrong("sriovNetSupport %q", in.SRIOV)
	case in.IMDS != "" && in.IMDS != "v2.0": // API, ImdsSupport
		return wrong("imdsSupport %q", in.IMDS)
	}
	for _, check := range []func() error{in.checkBoot, in.checkTags, in.checkDevices} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkBoot checks boot mode, TPM and UEFI data.
func (in registerIn) checkBoot() error {
	raw, err := base64.StdEncoding.DecodeString(in.UEFI)
	switch {
	case !slices.Contains([]string{"legacy-bios", "uefi", "uefi-preferred"}, in.BootMode): // API, BootMode; a missing one is legal, but no node wants it
		return wrong("the boot mode %q", in.BootMode)
	case in.Architecture == "arm64" && in.BootMode != "uefi": // UG, ami-boot.html: Graviton has only UEFI; uefi-preferred is not documented
		return wrong("the boot mode %s for arm64", in.BootMode)
	case in.TPM != "" && in.TPM != "v2.0": // API, TpmSupport
		return wrong("tpmSupport %q", in.TPM)
	case in.TPM != "" && in.BootMode != "uefi": // UG, enable-nitrotpm-prerequisites.html, and https://github.com/flatcar/mantle/pull/582
		return wrong("tpmSupport %q with the boot mode %s", in.TPM, in.BootMode)
	case in.TPM != "" && in.Architecture != "x86_64": // https://github.com/balena-os/balena-yocto-scripts/pull/298
		return wrong("Invalid machineArchitecture value '%s' for tpmSupport", in.Architecture)
	case err != nil || len(raw) > 64<<10: // API, UefiData: Base64; UG, uefi-secure-boot-optionB.html: 64 KB
		return wrong("uefiData is not Base64 of up to 64 KiB")
	case in.UEFI != "" && in.BootMode == "legacy-bios": // not documented
		return wrong("uefiData with the boot mode legacy-bios")
	}
	return nil
}

// checkTags checks the tags (API, TagSpecifications: only for the image; UG,
// Using_Tags.html, for their forms).
func (in registerIn) checkTags() error {
	for _, s := range in.Specifications {
		if s.Kind != "image" {
			return wrong("'%s' is not a valid taggable resource type for this operation.", s.Kind)
		}
		if err := checkTags(s.Tags); err != nil {
			return err
		}
	}
	return nil
}

func checkTags(tags []Tag) error {
	seen := map[string]bool{}
	if len(tags) > 50 {
		return endpoint.Fail("TagLimitExceeded", "the resource has %d tags; the maximum is 50", len(tags))
	}
	for _, t := range tags {
		switch {
		case t.Key == "" || utf8.RuneCountInString(t.Key) > 128 || utf8.RuneCountInString(t.Value) > 256:
			return wrong("Tag key or value exceeds the maximum length: %q", t.Key)
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return wrong("Tag keys starting with 'aws:' are reserved for internal use")
		case seen[t.Key]:
			return wrong("Duplicate tag key '%s' specified.", t.Key)
		}
		seen[t.Key] = true
	}
	return nil
}

func (in registerIn) checkDevices() error {
	for _, d := range in.Devices {
		for _, check := range []func() error{d.EBS.check, d.EBS.checkType} {
			if err := check(); err != nil {
				return err
			}
		}
	}
	// API, RootDeviceName; an image with other disks is not one of ours.
	if len(in.Devices) != 1 || in.RootDevice == "" || in.Devices[0].Name != in.RootDevice {
		return endpoint.Fail("InvalidBlockDeviceMapping", "the root device %q is not the only one of the mapping", in.RootDevice)
	}
	return nil
}

func (d registerDrive) check() error {
	switch {
	case d.Encrypted != nil || d.Key != "": // EbsBlockDevice, Encrypted: never with a snapshot; KmsKeyId: not for this call
		return endpoint.Fail("InvalidBlockDeviceMapping", "the encryption of a snapshot cannot be set")
	case d.Snapshot == "": // an empty root volume cannot boot
		return endpoint.Fail("InvalidBlockDeviceMapping", "the root device has no snapshot")
	case !snapshotForm.MatchString(d.Snapshot):
		return endpoint.Fail("InvalidSnapshotID.Malformed", "The snapshot ID '%s' is not valid", d.Snapshot)
	case d.Rate != 0 && (d.Rate < 100 || d.Rate > 300): // EbsBlockDevice, VolumeInitializationRate
		return wrong("volumeInitializationRate %d", d.Rate)
	case d.Throughput != 0 && d.Type != "gp3": // EbsBlockDevice, Throughput
		return endpoint.Fail("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", d.Type)
	case d.Throughput != 0 && (d.Throughput < 125 || d.Throughput > 2000): // EbsBlockDevice, Throughput
		return wrong("Volume throughput of %d is not from 125 to 2000.", d.Throughput)
	}
	return nil
}

// volumeTypes are the ranges of volumes that can be root volumes (EbsBlockDevice,
// VolumeSize and Iops). st1 and sc1 cannot
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html).
var volumeTypes = map[string]struct {
	sizes [2]int // in GiB
	iops  [2]int // zeros: cannot be set
	ratio int    // most IOPS for each GiB (the same page)
}{
	"gp2": {sizes: [2]int{1, 16384}}, "standard": {sizes: [2]int{1, 1024}},
	"gp3": {[2]int{1, 65536}, [2]int{3000, 80000}, 500},
	"io1": {[2]int{4, 16384}, [2]int{100, 64000}, 50}, "io2": {[2]int{4, 65536}, [2]int{100, 256000}, 1000},
}

// baseline are the IOPS that a volume of any size has.
var baseline = map[string]int{"gp3": 3000, "io1": 100, "io2": 100}

// checkType checks the parameters of the volume's type. The default type is gp2.
func (d registerDrive) checkType() error {
	d.Type = cmp.Or(d.Type, "gp2")
	limits, known := volumeTypes[d.Type]
	iops := d.IOPS
	if iops == 0 && d.Type == "gp3" {
		iops = baseline["gp3"] // EbsBlockDevice, Iops
	}
	switch {
	case !known:
		return wrong("Invalid volume type for a root volume: %s", d.Type)
	case d.Size != 0 && (d.Size < limits.sizes[0] || d.Size > limits.sizes[1]):
		return wrong("Volume of %dGiB is not from %d to %d for volume type %s", d.Size, limits.sizes[0], limits.sizes[1], d.Type)
	case iops == 0 && limits.iops[0] == 100: // EbsBlockDevice, Iops: required
		return endpoint.Fail("MissingParameter", "The parameter iops must be specified for %s volumes.", d.Type)
	case iops != 0 && limits.iops[0] == 0:
		return endpoint.Fail("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", d.Type)
	case iops != 0 && (iops < limits.iops[0] || iops > limits.iops[1]):
		return wrong("Volume iops of %d is not from %d to %d", iops, limits.iops[0], limits.iops[1])
	case d.IOPS != 0 && d.Size != 0 && iops > max(limits.ratio*d.Size, baseline[d.Type]):
		return wrong("Iops to volume size ratio of %d is too high; maximum is %d", iops/d.Size, limits.ratio)
	case d.Throughput*4 > iops && d.Throughput != 0: // https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
		return wrong("Throughput (MiBps) to iops ratio of %.6f is too high; maximum is 0.250000 MiBps per iops", float64(d.Throughput)/float64(iops))
	}
	return nil
}
