//go:build linux

package aws

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"

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
	w.ebs.AccessKey, w.ebs.Account, w.ebs.Region, w.ebs.Allowed = AccessKey, Account, Region, w.allowed
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
			one := &Snapshot{Region: w.ebs.Region, ID: id, Owner: s.Owner, Size: int(s.Size), Encrypted: s.Encrypted, KMSKey: s.Key}
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
