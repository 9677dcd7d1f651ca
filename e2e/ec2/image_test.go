package ec2

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// describe answers the images that a call finds.
func (b *bench) describe(parameters map[string]string) []Image {
	b.Helper()
	var out describeImagesOut
	b.call("DescribeImages", parameters, &out)
	return out.Images
}

func (b *bench) describeOne(id string) Image {
	b.Helper()
	found := b.describe(map[string]string{"ImageId.1": id})
	require.Len(b, found, 1)
	return found[0]
}

func TestLifeOfAnImage(t *testing.T) {
	b := newBench(t)
	defer b.close()
	instance := b.run(map[string]string{
		"BlockDeviceMapping.1.DeviceName": "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeSize": "9",
		"BlockDeviceMapping.1.Ebs.VolumeType": "io2", "BlockDeviceMapping.1.Ebs.Encrypted": "true",
	})
	parameters := map[string]string{
		"InstanceId": instance, "Name": "node", "Description": "a node",
		"TagSpecification.1.ResourceType": "image", "TagSpecification.1.Tag.1.Key": "of", "TagSpecification.1.Tag.1.Value": "image",
		"TagSpecification.2.ResourceType": "snapshot", "TagSpecification.2.Tag.1.Key": "of", "TagSpecification.2.Tag.1.Value": "snapshot",
	}
	assert.Contains(t, b.refused(endpoint.Refused, "CreateImage", parameters), "an image of an instance that is running")
	b.call("StopInstances", map[string]string{"InstanceId.1": instance}, nil)
	b.await(instance, "stopped")
	var made imageID
	b.call("CreateImage", parameters, &made)

	got := b.describeOne(made.ID)
	assert.Equal(t, "available", got.State)
	assert.Equal(t, "123456789012", got.Owner)
	assert.Equal(t, "node", got.Name)
	assert.Equal(t, "a node", got.Description)
	assert.Equal(t, instance, got.SourceInstance)
	assert.False(t, got.Public)
	assert.Equal(t, []Tag{{"of", "image"}}, got.Tags)
	require.Len(t, got.Devices, 1)
	snapshot := got.Devices[0].Snapshot
	assert.Equal(t, []Drive{{"/dev/xvda", snapshot, 9, "io2", true, true}}, got.Devices)
	var snapshots describeSnapshotsOut
	b.call("DescribeSnapshots", map[string]string{"Owner.1": "self"}, &snapshots)
	require.Len(t, snapshots.Snapshots, 1)
	assert.Equal(t, snapshot, snapshots.Snapshots[0].ID)
	assert.True(t, snapshots.Snapshots[0].Encrypted)
	assert.Equal(t, []Tag{{"of", "snapshot"}}, snapshots.Snapshots[0].Tags)
	disk := filepath.Join(b.folder, snapshot+".raw")
	text, err := os.ReadFile(disk)
	require.NoError(t, err)
	assert.Equal(t, "disk of "+instance, string(text))

	b.refused("InvalidSnapshot.InUse", "DeleteSnapshot", map[string]string{"SnapshotId": snapshot})
	b.call("DeregisterImage", map[string]string{"ImageId": made.ID}, nil)
	b.refused("InvalidAMIID.NotFound", "DescribeImages", map[string]string{"ImageId.1": made.ID})
	b.refused("InvalidAMIID.NotFound", "DeregisterImage", map[string]string{"ImageId": made.ID})
	assert.FileExists(t, disk)
	b.call("DeleteSnapshot", map[string]string{"SnapshotId": snapshot}, nil)
	assert.NoFileExists(t, disk)
	b.refused("InvalidSnapshot.NotFound", "DeleteSnapshot", map[string]string{"SnapshotId": snapshot})
	assert.NotContains(t, b.double.Inventory(), "snapshot "+snapshot)
}

func TestDescribeImages(t *testing.T) {
	b := newBench(t)
	defer b.close()
	own := b.image(b.run(nil), "node")
	b.call("CreateTags", map[string]string{"ResourceId.1": own, "Tag.1.Key": "team", "Tag.1.Value": "nodes"}, nil)
	for name, test := range map[string]struct {
		parameters map[string]string
		want       []string
	}{
		"all":             {nil, []string{baseImage, own}},
		"mine":            {map[string]string{"Owner.1": "self"}, []string{own}},
		"an account's":    {map[string]string{"Owner.1": foreign}, []string{baseImage}},
		"several owners":  {map[string]string{"Owner.1": foreign, "Owner.2": "self"}, []string{baseImage, own}},
		"nobody's":        {map[string]string{"Owner.1": "999999999999"}, nil},
		"by id":           {map[string]string{"ImageId.1": own}, []string{own}},
		"by name":         {map[string]string{"Filter.1.Name": "name", "Filter.1.Value.1": "al2023-*"}, []string{baseImage}},
		"by other values": {map[string]string{"Filter.1.Name": "name", "Filter.1.Value.1": "x", "Filter.1.Value.2": "node"}, []string{own}},
		"by both":         {map[string]string{"Filter.1.Name": "name", "Filter.1.Value.1": "*", "Filter.2.Name": "is-public", "Filter.2.Value.1": "false"}, []string{own}},
		"by tag":          {map[string]string{"Filter.1.Name": "tag:team", "Filter.1.Value.1": "node?"}, []string{own}},
		"by root device":  {map[string]string{"Filter.1.Name": "root-device-name", "Filter.1.Value.1": "/dev/sda1"}, nil},
		"deprecated too":  {map[string]string{"IncludeDeprecated": "true", "Owner.1": foreign}, []string{baseImage}},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, image := range b.describe(test.parameters) {
				ids = append(ids, image.ID)
			}
			assert.Equal(t, test.want, ids)
		})
	}
	b.refused(endpoint.Refused, "DescribeImages", map[string]string{"Filter.1.Name": "hypervisor", "Filter.1.Value.1": "xen"})
	b.refused("InvalidAMIID.NotFound", "DescribeImages", map[string]string{"ImageId.1": "ami-0"})
	assert.Empty(t, b.in(abroad).describe(map[string]string{"Owner.1": "self"}))
	assert.Len(t, b.in(abroad).describe(nil), 1, "the others' images are everywhere")
}

func TestImageAttributes(t *testing.T) {
	b := newBench(t)
	defer b.close()
	id := b.image(b.run(nil), "node")
	b.call("ModifyImageAttribute", map[string]string{"ImageId": id, "Description.Value": "a node"}, nil)
	b.call("ModifyImageAttribute", map[string]string{"ImageId": id, "ImdsSupport.Value": "v2.0"}, nil)
	b.call("ModifyImageAttribute", map[string]string{
		"ImageId": id, "UserGroup.1": "all", "LaunchPermission.Add.1.Group": "all",
	}, nil)
	b.call("EnableImageDeprecation", map[string]string{"ImageId": id, "DeprecateAt": "2030-01-01T00:00:00Z"}, nil)
	got := b.describeOne(id)
	assert.Equal(t, "a node", got.Description)
	assert.Equal(t, "v2.0", got.IMDS)
	assert.True(t, got.Public)
	assert.Equal(t, "2030-01-01T00:00:00Z", got.Deprecated)

	launched := b.instance(b.run(map[string]string{"ImageId": id}))
	assert.Equal(t, "required", launched.Metadata.Tokens, "the image says so")
	assert.Equal(t, 2, launched.Metadata.HopLimit)

	b.refused("InvalidParameterValue", "ModifyImageAttribute", map[string]string{"ImageId": id, "ImdsSupport.Value": "v1.0"})
	b.refused(endpoint.Refused, "ModifyImageAttribute", map[string]string{"ImageId": id, "ProductCode.1": "p"})
	b.refused("AuthFailure", "ModifyImageAttribute", map[string]string{"ImageId": baseImage, "Description.Value": "mine"})
	b.refused("AuthFailure", "DeregisterImage", map[string]string{"ImageId": baseImage})
	b.refused("AuthFailure", "EnableImageDeprecation", map[string]string{"ImageId": baseImage, "DeprecateAt": "x"})
}
