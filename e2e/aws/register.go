//go:build linux

package aws

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// ServeEBS serves the EBS direct APIs on loopback and points the SDK's environment to
// them. Their snapshots are the world's. Where Folder is empty, it becomes a new folder.
func (w *World) ServeEBS() *ebsdirect.Double {
	w.t.Helper()
	w.ebs = ebsdirect.New(w.t.TempDir())
	w.joinEBS()
	server := httptest.NewServer(w.ebs)
	w.t.Cleanup(server.Close)
	w.ebsURL = server.URL
	w.t.Setenv("AWS_ENDPOINT_URL_EBS", server.URL)
	if w.Folder == "" {
		w.Folder = w.t.TempDir()
	}
	return w.ebs
}

// joinEBS makes EBS that of the world's account.
func (w *World) joinEBS() {
	w.ebs.AccessKey, w.ebs.Account, w.ebs.Region, w.ebs.Allowed = AccessKey, Account, w.region(), w.allowed
	w.ebs.Around, w.ebs.EC2 = w.aroundEBS, w
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
			if !s.Started.IsZero() {
				one.Started = s.Started.UTC().Format(time.RFC3339)
			}
			for _, t := range s.Tags {
				one.Tags = append(one.Tags, Tag(t))
			}
			w.Snapshots, i = append(w.Snapshots, one), len(w.Snapshots)
			if s.Begun() { // EBS shows the state late by itself
				w.front.late[one] = &late{hidden: w.front.Seen}
			}
		}
		w.Snapshots[i].State, w.Snapshots[i].Message, w.Snapshots[i].Progress = s.State, s.Message, "30%"
	}
}

type registerIn struct {
	Name, Description, Architecture, BootMode, VirtualizationType, SriovNetSupport string
	ImdsSupport, TpmSupport, UefiData, RootDeviceName                              string
	EnaSupport                                                                     bool
	BlockDeviceMapping                                                             []registerDevice
	TagSpecification                                                               []tagSpecification
}

type registerDevice struct {
	DeviceName string
	Ebs        registerDrive
}

type registerDrive struct {
	SnapshotId, VolumeType, KmsKeyId                       string
	VolumeSize, Iops, Throughput, VolumeInitializationRate int
	DeleteOnTermination, Encrypted                         *bool
}

//go:embed rules.yaml
var rulesFile []byte

var rules = sync.OnceValue(func() endpoint.Rules { return endpoint.ReadRules(rulesFile) })

// refusal is the first rule that the parameters break, with the defaults of EbsBlockDevice.
func (in registerIn) refusal() error {
	var ebs registerDrive
	if len(in.BlockDeviceMapping) > 0 {
		ebs = in.BlockDeviceMapping[0].Ebs
	}
	ebs.VolumeType = cmp.Or(ebs.VolumeType, "gp2")
	if ebs.VolumeType == "gp3" {
		ebs.Iops = cmp.Or(ebs.Iops, 3000)
	}
	in.BlockDeviceMapping = append([]registerDevice{}, in.BlockDeviceMapping...)
	in.TagSpecification = append([]tagSpecification{}, in.TagSpecification...)
	failure := rules().Refusal("RegisterImage", struct {
		registerIn
		Ebs registerDrive
	}{in, ebs})
	if failure == nil {
		return nil
	}
	return failure
}

// registerImage registers an image of a snapshot. The disk of its instances is what a
// volume of the snapshot holds.
func (w *World) registerImage(region string, in registerIn) (createdOut, error) {
	w.takeOver()
	if err := in.refusal(); err != nil {
		return createdOut{}, err
	}
	if err := w.free(region, in.Name); err != nil {
		return createdOut{}, err
	}
	drive := in.BlockDeviceMapping[0].Ebs
	taken, err := w.ownSnapshot(region, drive.SnapshotId)
	switch {
	case err != nil:
		return createdOut{}, err
	case taken.State != "completed":
		return createdOut{}, endpoint.Fail("IncorrectState", "Snapshot '%s' is not 'completed'.", taken.ID)
	case drive.VolumeSize != 0 && drive.VolumeSize < taken.Size:
		return createdOut{}, endpoint.Fail("InvalidBlockDeviceMapping",
			"Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB",
			drive.VolumeSize, taken.ID, taken.Size)
	}
	if taken.Disk.Image == "" && w.ebs != nil && w.Folder != "" {
		if taken.Disk.Image, err = w.volumeFile(taken); err != nil {
			return createdOut{}, err
		}
	}
	made := Image{
		Description: in.Description, State: "available", Type: "machine", Architecture: in.Architecture,
		BootMode: in.BootMode, RootDevice: in.RootDeviceName, RootType: "ebs", Virtualization: in.VirtualizationType,
		ENA: in.EnaSupport, IMDS: in.ImdsSupport, TPM: in.TpmSupport, UEFI: in.UefiData, Disk: taken.Disk,
		Devices: []Drive{{
			Name: in.RootDeviceName, Snapshot: taken.ID, Size: max(drive.VolumeSize, taken.Size),
			Type: drive.VolumeType, Encrypted: taken.Encrypted,
		}},
	}
	for _, s := range in.TagSpecification {
		made.Tags = s.Tag
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
