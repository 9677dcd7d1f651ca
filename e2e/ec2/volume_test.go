package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (b *bench) volume(id string) Volume {
	b.Helper()
	var out describeVolumesOut
	b.call("DescribeVolumes", map[string]string{"Filter.1.Name": "volume-id", "Filter.1.Value.1": id}, &out)
	require.Len(b, out.Volumes, 1)
	return out.Volumes[0]
}

func TestVolumes(t *testing.T) {
	b := newBench(t)
	defer b.close()
	root := func(name, value string) map[string]string {
		return map[string]string{"BlockDeviceMapping.1.DeviceName": "/dev/xvda", "BlockDeviceMapping.1.Ebs." + name: value}
	}
	plain := b.volume(b.instance(b.run(nil)).Devices[0].Volume)
	assert.Equal(t, 2, plain.Size)
	assert.Equal(t, "in-use", plain.State)
	assert.False(t, plain.Encrypted)

	b.refused("InvalidBlockDeviceMapping", "RunInstances", launchOf(root("VolumeSize", "1")))
	kept := b.run(root("DeleteOnTermination", "false"))
	id := b.instance(kept).Devices[0].Volume
	b.refused("VolumeInUse", "DeleteVolume", map[string]string{"VolumeId": id})
	b.call("TerminateInstances", map[string]string{"InstanceId.1": kept}, nil)
	b.await(kept, "terminated")
	assert.Equal(t, "available", b.volume(id).State)
	assert.Contains(t, b.double.Inventory(), "volume "+id)
	b.call("DeleteVolume", map[string]string{"VolumeId": id}, nil)
	b.refused("InvalidVolume.NotFound", "DeleteVolume", map[string]string{"VolumeId": id})

	encrypted := b.image(b.run(root("Encrypted", "true")), "encrypted")
	launch := root("Encrypted", "false")
	launch["ImageId"] = encrypted
	b.refused("InvalidBlockDeviceMapping", "RunInstances", launchOf(launch))
}
