package ec2

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

func (b *bench) instance(id string) Instance {
	b.Helper()
	var out describeInstancesOut
	b.call("DescribeInstances", map[string]string{"InstanceId.1": id}, &out)
	require.Len(b, out.Reservations, 1)
	return out.Reservations[0].Instances[0]
}

// await waits until an instance is in a state.
func (b *bench) await(id, state string) Instance {
	b.Helper()
	var last Instance
	require.Eventually(b, func() bool {
		last = b.instance(id)
		return last.State.Name == state
	}, time.Minute, time.Millisecond, "%s is not %s", id, state)
	return last
}

func TestLifeOfAnInstance(t *testing.T) {
	b := newBench(t)
	defer b.close()
	b.fakes.hold = make(chan struct{})
	id := b.run(map[string]string{"InstanceType": "m6i.large"})
	assert.Empty(t, b.instance(id).Address, "it is not up")
	close(b.fakes.hold)
	up := b.await(id, "running")
	assert.Equal(t, State{16, "running"}, up.State)
	assert.Equal(t, "10.0.0.1", up.Address)
	assert.Equal(t, "host-of-"+id, up.Hostname)
	assert.Equal(t, "m6i.large", up.Type)
	require.Len(t, up.Devices, 1)

	var out changes
	b.call("StopInstances", map[string]string{"InstanceId.1": id}, &out)
	assert.Equal(t, []Change{{id, State{64, "stopping"}, State{16, "running"}}}, out.Changes)
	assert.Equal(t, "Client.UserInitiatedShutdown", b.await(id, "stopped").StateReason.Code)
	assert.False(t, b.fakes.machine(id).Running())

	out = changes{}
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, &out)
	assert.Equal(t, []Change{{id, State{32, "shutting-down"}, State{80, "stopped"}}}, out.Changes)
	gone := b.await(id, "terminated")
	assert.Empty(t, gone.Devices)
	assert.Nil(t, b.fakes.machine(id))
	assert.Empty(t, b.double.Inventory(), "its volume went with it")

	b.refused("IncorrectInstanceState", "StopInstances", map[string]string{"InstanceId.1": id})
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, nil)
	for _, action := range []string{"StopInstances", "TerminateInstances", "DescribeInstances"} {
		b.refused("InvalidInstanceID.NotFound", action, map[string]string{"InstanceId.1": "i-0"})
		b.in(abroad).refused("InvalidInstanceID.NotFound", action, map[string]string{"InstanceId.1": id})
	}
}

func TestTerminateWhileItStops(t *testing.T) {
	b := newBench(t)
	b.fakes.closing = make(chan struct{})
	id := b.run(nil)
	hold := make(chan struct{})
	b.fakes.mutex.Lock()
	b.fakes.hold = hold
	b.fakes.mutex.Unlock()
	b.call("StopInstances", map[string]string{"InstanceId.1": id}, nil)
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, nil)
	close(hold)
	b.closesWhileShuttingDown(id)
	b.close()
}

// closesWhileShuttingDown waits until the machine of an instance is about to be
// closed and looks at the instance then.
func (b *bench) closesWhileShuttingDown(id string) {
	b.Helper()
	<-b.fakes.closing
	assert.Equal(b, "shutting-down", b.instance(id).State.Name)
	<-b.fakes.closing
	b.await(id, "terminated")
	assert.Empty(b, b.double.Inventory())
}

func TestStopThatFails(t *testing.T) {
	b := newBench(t)
	id := b.run(nil)
	b.fakes.machine(id).broken = errors.New("no button")
	b.call("StopInstances", map[string]string{"InstanceId.1": id}, nil)
	require.Eventually(t, func() bool { return b.instance(id).Reason == "no button" }, time.Minute, time.Millisecond)
	assert.Equal(t, "stopping", b.instance(id).State.Name)
	assert.ErrorContains(t, b.double.Close(), "stopping "+id+": no button")
}

func TestInstanceThatPowersItselfOff(t *testing.T) {
	b := newBench(t)
	defer b.close()
	id := b.run(nil)
	b.fakes.machine(id).set(false)
	assert.Equal(t, "stopped", b.instance(id).State.Name)
	assert.Equal(t, "Client.InstanceInitiatedShutdown", b.instance(id).StateReason.Code)
}

func TestDescribeInstancesFilters(t *testing.T) {
	b := newBench(t)
	defer b.close()
	one, two := b.run(nil), b.run(nil)
	b.call("StopInstances", map[string]string{"InstanceId.1": two}, nil)
	b.await(two, "stopped")
	var out describeInstancesOut
	b.call("DescribeInstances", map[string]string{"Filter.1.Name": "instance-state-name", "Filter.1.Value.1": "running"}, &out)
	require.Len(t, out.Reservations, 1)
	assert.Equal(t, one, out.Reservations[0].Instances[0].ID)
}

func TestModifyInstance(t *testing.T) {
	b := newBench(t)
	defer b.close()
	id := b.run(nil)
	parameters := map[string]string{"InstanceId": id, "EnaSupport.Value": "true"}
	b.refused("IncorrectInstanceState", "ModifyInstanceAttribute", parameters)
	b.call("StopInstances", map[string]string{"InstanceId.1": id}, nil)
	b.await(id, "stopped")
	b.call("ModifyInstanceAttribute", parameters, nil)
	parameters["EnaSupport.Value"] = "false"
	b.refused(endpoint.Refused, "ModifyInstanceAttribute", parameters)
	b.refused("InvalidInstanceID.NotFound", "ModifyInstanceAttribute", map[string]string{"InstanceId": "i-0"})
}
