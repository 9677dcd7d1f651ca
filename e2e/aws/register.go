//go:build linux

package aws

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// ServeEBS serves the EBS direct APIs on loopback and points the SDK's environment to
// them. Their snapshots are the world's.
func (w *World) ServeEBS() *ebsdirect.Double {
	w.t.Helper()
	w.ebs = ebsdirect.New(w.t.TempDir())
	w.ebs.AccessKey, w.ebs.Account, w.ebs.Region = AccessKey, Account, Region
	server := httptest.NewServer(w.ebs)
	w.t.Cleanup(server.Close)
	w.t.Setenv("AWS_ENDPOINT_URL_EBS", server.URL)
	require.NotEmpty(w.t, w.Folder, "the world needs a folder for disks")
	return w.ebs
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
			one := &Snapshot{Region: w.ebs.Region, ID: id, Owner: s.Owner, Size: int(s.Size), Encrypted: s.Encrypted, KMSKey: s.Key}
			for _, t := range s.Tags {
				one.Tags = append(one.Tags, Tag(t))
			}
			w.Snapshots, i = append(w.Snapshots, one), len(w.Snapshots)
		}
		w.Snapshots[i].State = s.State
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

// check returns the error of EC2 for parameters that are wrong
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html). A
// missing parameter with a default that no node wants is an error too.
func (in registerIn) check() error {
	wrong := func(format string, args ...any) error {
		return endpoint.Fail("InvalidParameterValue", format, args...)
	}
	switch {
	case len(in.Name) < 3 || len(in.Name) > 128 || strings.Trim(in.Name, nameRunes) != "":
		return endpoint.Fail("InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, and ()[] ./-'@_")
	case in.Architecture != "x86_64" && in.Architecture != "arm64":
		return wrong("the architecture %q (the default is i386)", in.Architecture)
	case in.Virtualization != "hvm":
		return wrong("the virtualization type %q (the default is paravirtual)", in.Virtualization)
	case !slices.Contains([]string{"legacy-bios", "uefi", "uefi-preferred"}, in.BootMode):
		return wrong("the boot mode %q", in.BootMode)
	case in.Architecture == "arm64" && in.BootMode != "uefi":
		return wrong("the boot mode %s for arm64", in.BootMode)
	case !in.ENA:
		return wrong("an image without ENA")
	case in.SRIOV != "" && in.SRIOV != "simple", in.IMDS != "" && in.IMDS != "v2.0":
		return wrong("sriovNetSupport %q, imdsSupport %q", in.SRIOV, in.IMDS)
	case in.TPM != "" && (in.TPM != "v2.0" || in.BootMode != "uefi"):
		return wrong("tpmSupport %q with the boot mode %s", in.TPM, in.BootMode)
	}
	if raw, err := base64.StdEncoding.DecodeString(in.UEFI); err != nil || len(raw) > 64<<10 {
		return wrong("uefiData is not Base64 of up to 64 KiB")
	}
	for _, d := range in.Devices {
		if err := d.EBS.check(); err != nil {
			return err
		}
	}
	return nil
}

// nameRunes are the characters of an image's name.
const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789()[] ./-'@_"

func (d registerDrive) check() error {
	gp3 := d.Type == "gp3"
	switch {
	case d.Encrypted != nil || d.Key != "":
		return endpoint.Fail("InvalidBlockDeviceMapping", "the encryption of a snapshot cannot be set")
	case d.Throughput != 0 && (!gp3 || d.Throughput < 125 || d.Throughput > 2000):
		return endpoint.Fail("InvalidParameterValue", "throughput %d of %s", d.Throughput, d.Type)
	case d.IOPS != 0 && (d.Type == "gp2" || d.IOPS < 100):
		return endpoint.Fail("InvalidParameterValue", "iops %d of %s", d.IOPS, d.Type)
	case d.Rate != 0 && (d.Snapshot == "" || d.Rate < 100 || d.Rate > 300):
		return endpoint.Fail("InvalidParameterValue", "volumeInitializationRate %d", d.Rate)
	}
	return nil
}

// registerImage registers an image of a snapshot. The disk of its instances is what a
// volume of the snapshot holds.
func (w *World) registerImage(region string, in registerIn) (createdOut, error) {
	w.takeOver()
	if err := errors.Join(in.check(), w.free(region, in.Name)); err != nil {
		return createdOut{}, err
	}
	i := slices.IndexFunc(in.Devices, func(d registerDevice) bool { return d.Name == in.RootDevice })
	if in.RootDevice == "" || i < 0 || len(in.Devices) != 1 {
		return createdOut{}, endpoint.Fail("InvalidBlockDeviceMapping", "the root device %q is not the only one of the mapping", in.RootDevice)
	}
	drive := in.Devices[i].EBS
	taken, err := w.ownSnapshot(region, drive.Snapshot)
	switch {
	case err != nil:
		return createdOut{}, err
	case taken.State != "completed":
		return createdOut{}, endpoint.Fail("InvalidSnapshot.InvalidState", "The snapshot %s is %s", taken.ID, taken.State)
	case drive.Size != 0 && drive.Size < taken.Size:
		return createdOut{}, endpoint.Fail("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", drive.Size, taken.ID, taken.Size)
	}
	if taken.Disk.Image == "" && w.ebs != nil {
		if taken.Disk.Image, err = w.volumeFile(taken); err != nil {
			return createdOut{}, err
		}
	}
	made := Image{
		Description: in.Description, State: "available", Type: "machine", Architecture: in.Architecture, BootMode: in.BootMode, RootDevice: in.RootDevice,
		RootType: "ebs", Virtualization: in.Virtualization, ENA: in.ENA, IMDS: in.IMDS, TPM: in.TPM, Disk: taken.Disk,
		Devices: []Drive{{Name: in.RootDevice, Snapshot: taken.ID, Size: max(drive.Size, taken.Size), Type: drive.Type, Encrypted: taken.Encrypted}},
	}
	for _, s := range in.Specifications {
		if s.Kind != "image" {
			return createdOut{}, endpoint.Refuse("tags for %q", s.Kind)
		}
		made.Tags = s.Tags
	}
	made.Region, made.ID, made.Owner, made.Name, made.Created = region, w.next("ami"), Account, in.Name, created()
	w.Images = append(w.Images, &made)
	return createdOut{made.ID}, nil
}

// volumeFile writes what a volume of a snapshot holds to a sparse file.
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
