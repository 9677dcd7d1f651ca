package ec2

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// image stops an instance and makes an image of it.
func (b *bench) image(instance, name string) string {
	b.Helper()
	b.call("StopInstances", map[string]string{"InstanceId.1": instance}, nil)
	b.await(instance, "stopped")
	var out imageID
	b.call("CreateImage", map[string]string{"InstanceId": instance, "Name": name}, &out)
	return out.ID
}

func TestCreateImageRefuses(t *testing.T) {
	b := newBench(t)
	instance := b.run(nil)
	b.image(instance, "taken")
	for _, test := range []struct{ name, value, code string }{
		{"InstanceId", "i-0", "InvalidInstanceID.NotFound"},
		{"Name", "taken", "InvalidAMIName.Duplicate"},
		{"Name", "", "MissingParameter"},
		{"TagSpecification.1.ResourceType", "volume", endpoint.Refused},
		{"BlockDeviceMapping.1.DeviceName", "/dev/xvdb", endpoint.Refused},
		{"NoReboot", "true", endpoint.Refused},
	} {
		parameters := map[string]string{"InstanceId": instance, "Name": "free"}
		parameters[test.name] = test.value
		b.refused(test.code, "CreateImage", parameters)
	}
	before := b.double.Inventory()
	b.fakes.machine(instance).broken = errors.New("disk full")
	assert.Contains(t, b.refused("DoubleFailed", "CreateImage", map[string]string{"InstanceId": instance, "Name": "free"}), "disk full")
	assert.Equal(t, before, b.double.Inventory())
	assert.ErrorContains(t, b.double.Close(), "disk full")
}

func TestCreateImageOfATerminatedInstance(t *testing.T) {
	b := newBench(t)
	defer b.close()
	instance := b.run(nil)
	b.call("TerminateInstances", map[string]string{"InstanceId.1": instance}, nil)
	b.await(instance, "terminated")
	b.refused(endpoint.Refused, "CreateImage", map[string]string{"InstanceId": instance, "Name": "late"})
}

func TestCopyImage(t *testing.T) {
	b := newBench(t)
	defer b.close()
	source := b.image(b.run(nil), "node")
	b.call("CreateTags", map[string]string{"ResourceId.1": source, "Tag.1.Key": "team", "Tag.1.Value": "nodes"}, nil)
	parameters := map[string]string{
		"Name": "node", "SourceImageId": source, "SourceRegion": home, "Encrypted": "true", "CopyImageTags": "true",
		"KmsKeyId": "", "ClientToken": "t",
	}
	var copied imageID
	b.in(abroad).call("CopyImage", parameters, &copied)
	got := b.in(abroad).describeOne(copied.ID)
	assert.Equal(t, "node", got.Name)
	assert.True(t, got.Devices[0].Encrypted)
	assert.Equal(t, []Tag{{"team", "nodes"}}, got.Tags)
	assert.False(t, b.describeOne(source).Devices[0].Encrypted, "the source stays as it is")
	b.refused("InvalidAMIName.Duplicate", "CopyImage", parameters)
	b.in(abroad).refused("InvalidAMIID.NotFound", "CopyImage", map[string]string{"Name": "x", "SourceImageId": source, "SourceRegion": abroad})
	keyed := map[string]string{"Name": "x", "SourceImageId": source, "SourceRegion": home, "KmsKeyId": "arn:aws:kms:" + home + ":123456789012:alias/x"}
	b.in(abroad).refused("InvalidParameterDependency", "CopyImage", keyed)
	keyed["Encrypted"] = "true"
	b.in(abroad).refused("InvalidParameterValue", "CopyImage", keyed)
	keyed["KmsKeyId"] = "alias/x"
	var secret imageID
	b.in(abroad).call("CopyImage", keyed, &secret)
	root := b.in(abroad).describeOne(secret.ID).Devices[0].Snapshot
	var found describeSnapshotsOut
	b.in(abroad).call("DescribeSnapshots", map[string]string{"SnapshotId.1": root}, &found)
	assert.Equal(t, "alias/x", found.Snapshots[0].KMSKey)
	b.in(abroad).call("DeregisterImage", map[string]string{"ImageId": secret.ID}, nil)
	b.in(abroad).call("DeleteSnapshot", map[string]string{"SnapshotId": root}, nil)

	disk, err := b.double.Disk(abroad, copied.ID)
	require.NoError(t, err)
	b.call("DeregisterImage", map[string]string{"ImageId": source}, nil)
	b.call("DeleteSnapshot", map[string]string{"SnapshotId": "snap-00000000000000003"}, nil)
	assert.FileExists(t, disk.Image, "the copy needs it")
	b.in(abroad).call("DeregisterImage", map[string]string{"ImageId": copied.ID}, nil)
	b.in(abroad).call("DeleteSnapshot", map[string]string{"SnapshotId": got.Devices[0].Snapshot}, nil)
	assert.NoFileExists(t, disk.Image)
}
