package ec2

import (
	"encoding/base64"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// launchOf is the least that RunInstances takes, with more parameters.
func launchOf(more map[string]string) map[string]string {
	parameters := map[string]string{"ImageId": baseImage, "MinCount": "1", "MaxCount": "1"}
	maps.Copy(parameters, more)
	return parameters
}

// run launches an instance and, when machines take no time, waits for it.
func (b *bench) run(more map[string]string) string {
	b.Helper()
	var out Reservation
	b.call("RunInstances", launchOf(more), &out)
	require.Len(b, out.Instances, 1)
	assert.Equal(b, "pending", out.Instances[0].State.Name)
	if b.fakes.hold == nil {
		b.await(out.Instances[0].ID, "running")
	}
	return out.Instances[0].ID
}

func TestTerminateJustAsItComesUp(t *testing.T) {
	b := newBench(t)
	b.fakes.closing, b.fakes.hold, b.fakes.deaf = make(chan struct{}), make(chan struct{}), true
	id := b.run(nil)
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, nil)
	close(b.fakes.hold)
	b.closesWhileShuttingDown(id)
	b.close()
}

func TestTerminateBeforeItIsUp(t *testing.T) {
	b := newBench(t)
	b.fakes.hold = make(chan struct{}) // for ever
	id := b.run(nil)
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, nil)
	b.await(id, "terminated")
	assert.Empty(t, b.double.Inventory())
	b.close()
}

func TestLaunchThatFails(t *testing.T) {
	b := newBench(t)
	b.fakes.refuse = errors.New("no init found\nconsole: …")
	var out Reservation
	b.call("RunInstances", launchOf(nil), &out)
	gone := b.await(out.Instances[0].ID, "terminated")
	assert.Equal(t, stateReason{"Server.InternalError", "Server.InternalError: no init found"}, gone.StateReason)
	assert.Empty(t, b.double.Inventory())
	assert.ErrorContains(t, b.double.Close(), "launching i-00000000000000001: no init found\nconsole")
}

func TestWhatAMachineIsMadeFrom(t *testing.T) {
	b := newBench(t)
	defer b.close()
	var key KeyPair
	b.call("CreateKeyPair", map[string]string{"KeyName": "mine", "KeyType": "ed25519"}, &key)
	id := b.run(map[string]string{
		"KeyName": "mine", "UserData": base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")),
	})
	require.Len(t, b.fakes.launches, 1)
	launch := b.fakes.launches[0]
	assert.Equal(t, id, launch.InstanceID)
	assert.Equal(t, Disk{Root: "/base"}, launch.Disk)
	assert.Equal(t, "ec2-user", launch.User)
	assert.Regexp(t, `^ssh-ed25519 \S+ mine$`, launch.AuthorizedKey)
	assert.Equal(t, "#!/bin/sh\n", string(launch.UserData))

	second := b.run(map[string]string{"ImageId": b.image(id, "captured")})
	assert.Equal(t, Disk{Image: b.folder + "/snap-00000000000000003.raw"}, b.fakes.machine(second).launch.Disk)
	assert.Equal(t, "ec2-user", b.fakes.machine(second).launch.User, "a captured image lets the same user in")
	assert.Empty(t, b.fakes.machine(second).launch.AuthorizedKey)
}

func TestRunInstancesKeepsWhatItIsTold(t *testing.T) {
	b := newBench(t)
	defer b.close()
	var group createSecurityGroupOut
	b.call("CreateSecurityGroup", map[string]string{"GroupName": "ssh", "GroupDescription": "d", "VpcId": ""}, &group)
	got := b.instance(b.run(map[string]string{
		"SecurityGroupId.1": group.ID, "SubnetId": "subnet-00000000000000002", "EbsOptimized": "true",
		"MetadataOptions.HttpEndpoint": "enabled", "MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpPutResponseHopLimit": "2",
		"TagSpecification.1.ResourceType": "instance", "TagSpecification.1.Tag.1.Key": "of", "TagSpecification.1.Tag.1.Value": "instance",
		"TagSpecification.2.ResourceType": "volume", "TagSpecification.2.Tag.1.Key": "of", "TagSpecification.2.Tag.1.Value": "volume",
		"TagSpecification.3.ResourceType": "network-interface", "TagSpecification.3.Tag.1.Key": "of", "TagSpecification.3.Tag.1.Value": "interface",
	}))
	assert.Equal(t, []Group{{group.ID, "ssh"}}, got.Groups)
	assert.Equal(t, "us-east-1b", got.Zone)
	assert.True(t, got.EBSOptimized)
	assert.Equal(t, Metadata{State: "applied", Tokens: "required", HopLimit: 2, Endpoint: "enabled", Tags: "disabled"}, got.Metadata)
	assert.Equal(t, []Tag{{"of", "instance"}}, got.Tags)
	assert.Equal(t, []Tag{{"of", "interface"}}, got.Interfaces[0].Tags)
	assert.Equal(t, []Tag{{"of", "volume"}}, b.volume(got.Devices[0].Volume).Tags)
}

func TestRunInstancesTwiceWithOneToken(t *testing.T) {
	b := newBench(t)
	defer b.close()
	parameters := launchOf(map[string]string{"ClientToken": "again", "MinCount": "2", "MaxCount": "2"})
	var first, second Reservation
	b.call("RunInstances", parameters, &first)
	b.call("RunInstances", parameters, &second)
	require.Len(t, second.Instances, 2)
	assert.Equal(t, first.Instances[0].ID, second.Instances[0].ID)
	for _, instance := range first.Instances {
		b.await(instance.ID, "running")
	}
	assert.Len(t, b.fakes.launches, 2)
}

func TestRunInstancesRefuses(t *testing.T) {
	b := newBench(t)
	defer b.close()
	for _, test := range []struct{ name, value, code string }{
		{"ImageId", "ami-0", "InvalidAMIID.NotFound"},
		{"MinCount", "0", "InvalidParameterValue"},
		{"MinCount", "2", "InvalidParameterValue"},
		{"KeyName", "nobody's", "InvalidKeyPair.NotFound"},
		{"SecurityGroupId.1", "sg-0", "InvalidGroup.NotFound"},
		{"SubnetId", "subnet-0", "InvalidSubnetID.NotFound"},
		{"Placement.AvailabilityZone", "eu-west-1a", "InvalidSubnetID.NotFound"},
		{"UserData", "?", "InvalidUserData.Malformed"},
		{"IamInstanceProfile.Name", "node", endpoint.Refused},
		{"EnclaveOptions.Enabled", "true", endpoint.Refused},
		{"InstanceInitiatedShutdownBehavior", "terminate", endpoint.Refused},
		{"BlockDeviceMapping.1.DeviceName", "/dev/xvdb", endpoint.Refused},
		{"TagSpecification.1.ResourceType", "spot-instances-request", endpoint.Refused},
		{"InstanceMarketOptions.MarketType", "spot", endpoint.Refused},
	} {
		b.refused(test.code, "RunInstances", launchOf(map[string]string{test.name: test.value}))
	}
	assert.Empty(t, b.double.Inventory())
	assert.Empty(t, b.fakes.launches)
}
