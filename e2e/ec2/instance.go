package ec2

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// state is the state of an instance
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html).
type state string

const (
	pending      state = "pending"
	running      state = "running"
	shuttingDown state = "shutting-down"
	terminated   state = "terminated"
	stopping     state = "stopping"
	stopped      state = "stopped"
)

func (s state) code() int {
	return map[state]int{pending: 0, running: 16, shuttingDown: 32, terminated: 48, stopping: 64, stopped: 80}[s]
}

// instance is a machine and what EC2 says about it.
type instance struct {
	place
	reservation, token string
	image              *image
	instanceType       string
	keyPair            string
	subnet             *subnet
	groups             []*securityGroup
	volume             *volume
	networkInterface   string
	metadata           metadataOptions
	ebsOptimized       bool
	launched           time.Time
	state              state
	reason             stateReason
	cancel             context.CancelFunc // of a launch that goes on

	// operation is held while something is done to the machine; it is taken
	// without the double's lock. The machine changes under both.
	operation sync.Mutex
	machine   Machine
	address   netip.Addr
	hostname  string
}

type stateReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

// State is an instance's state.
type State struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

// Instance is a machine.
type Instance struct {
	ID             string      `xml:"instanceId"`
	Image          string      `xml:"imageId"`
	State          State       `xml:"instanceState"`
	Reason         string      `xml:"reason"`
	StateReason    stateReason `xml:"stateReason"`
	Hostname       string      `xml:"privateDnsName"`
	Address        string      `xml:"privateIpAddress,omitempty"`
	KeyPair        string      `xml:"keyName,omitempty"`
	LaunchIndex    int         `xml:"amiLaunchIndex"`
	Type           string      `xml:"instanceType"`
	Launched       string      `xml:"launchTime"`
	Zone           string      `xml:"placement>availabilityZone"`
	Tenancy        string      `xml:"placement>tenancy"`
	Subnet         string      `xml:"subnetId"`
	VPC            string      `xml:"vpcId"`
	Architecture   string      `xml:"architecture"`
	RootDeviceType string      `xml:"rootDeviceType"`
	RootDevice     string      `xml:"rootDeviceName"`
	Devices        []Device    `xml:"blockDeviceMapping>item"`
	Virtualization string      `xml:"virtualizationType"`
	Hypervisor     string      `xml:"hypervisor"`
	ENA            bool        `xml:"enaSupport"`
	EBSOptimized   bool        `xml:"ebsOptimized"`
	Token          string      `xml:"clientToken"`
	Groups         []Group     `xml:"groupSet>item"`
	Interfaces     []Interface `xml:"networkInterfaceSet>item"`
	Metadata       Metadata    `xml:"metadataOptions"`
	Tags           []Tag       `xml:"tagSet>item"`
}

// Device is a volume of an instance.
type Device struct {
	Name                string `xml:"deviceName"`
	Volume              string `xml:"ebs>volumeId"`
	State               string `xml:"ebs>status"`
	DeleteOnTermination bool   `xml:"ebs>deleteOnTermination"`
}

// Group names a security group.
type Group struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

// Interface is a network interface.
type Interface struct {
	ID   string `xml:"networkInterfaceId"`
	Tags []Tag  `xml:"tagSet>item"`
}

// Metadata is how an instance reaches its metadata service.
type Metadata struct {
	State    string `xml:"state"`
	Tokens   string `xml:"httpTokens"`
	HopLimit int    `xml:"httpPutResponseHopLimit"`
	Endpoint string `xml:"httpEndpoint"`
	Tags     string `xml:"instanceMetadataTags"`
}

func (d *Double) shapeInstance(i *instance) Instance {
	shape := Instance{
		ID: i.id, Image: i.image.id, State: State{i.state.code(), string(i.state)},
		Reason: i.reason.Message, StateReason: i.reason, Hostname: i.hostname,
		KeyPair: i.keyPair, Type: i.instanceType, Launched: timestamp(i.launched),
		Zone: i.subnet.zone, Tenancy: "default", Subnet: i.subnet.id, VPC: i.subnet.vpc,
		Architecture: i.image.architecture, RootDeviceType: "ebs", RootDevice: i.image.rootDevice,
		Virtualization: "hvm", Hypervisor: "xen", ENA: true, EBSOptimized: i.ebsOptimized, Token: i.token,
		Tags: d.tags[i.id],
		Metadata: Metadata{
			State: "applied", Tokens: i.metadata.Tokens, HopLimit: i.metadata.HopLimit,
			Endpoint: i.metadata.Endpoint, Tags: i.metadata.Tags,
		},
	}
	if i.state == terminated {
		return shape
	}
	if i.address.IsValid() {
		shape.Address = i.address.String()
	}
	shape.Devices = []Device{{i.volume.device, i.volume.id, "attached", *i.volume.spec.DeleteOnTermination}}
	shape.Interfaces = []Interface{{i.networkInterface, d.tags[i.networkInterface]}}
	for _, group := range i.groups {
		shape.Groups = append(shape.Groups, Group{group.id, group.name})
	}
	return shape
}

type describeInstancesIn struct {
	IDs     []string `query:"InstanceId"`
	Filters []filter `query:"Filter"`
}

// Reservation is the instances of one launch.
type Reservation struct {
	ID        string     `xml:"reservationId"`
	Owner     string     `xml:"ownerId"`
	Instances []Instance `xml:"instancesSet>item"`
}

type describeInstancesOut struct {
	Reservations []Reservation `xml:"reservationSet>item"`
}

func (d *Double) describeInstances(region string, in describeInstancesIn) (describeInstancesOut, error) {
	var out describeInstancesOut
	chosen, err := selected(inRegion(d.instances, region), in.IDs, "InvalidInstanceID.NotFound",
		func(i *instance) string { return i.id },
		func(i *instance) (bool, error) {
			return matches(in.Filters, map[string]string{
				"instance-id": i.id, "image-id": i.image.id, "instance-state-name": string(i.state),
			}, d.tags[i.id])
		})
	for _, instance := range chosen {
		out.Reservations = append(out.Reservations, Reservation{
			ID: instance.reservation, Owner: d.config.Account, Instances: []Instance{d.shapeInstance(instance)},
		})
	}
	return out, err
}

// observe notices the instances that have powered themselves off.
func (d *Double) observe() {
	for _, instance := range d.instances {
		if instance.state == running && !instance.machine.Running() {
			instance.state = stopped
			instance.reason = stateReason{"Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown"}
		}
	}
}

type instanceIDs struct {
	IDs []string `query:"InstanceId"`
}

// Change is what has become of an instance.
type Change struct {
	ID       string `xml:"instanceId"`
	Current  State  `xml:"currentState"`
	Previous State  `xml:"previousState"`
}

type changes struct {
	Changes []Change `xml:"instancesSet>item"`
}

// named answers the instances that a call names.
func (d *Double) named(region string, in instanceIDs) ([]*instance, error) {
	var all []*instance
	for _, id := range in.IDs {
		instance, err := find(d.instances, region, id, "InvalidInstanceID.NotFound")
		if err != nil {
			return nil, err
		}
		all = append(all, instance)
	}
	return all, nil
}

// change puts an instance into another state and says so.
func (c *changes) change(instance *instance, to state) {
	before := State{instance.state.code(), string(instance.state)}
	instance.state = to
	c.Changes = append(c.Changes, Change{instance.id, State{to.code(), string(to)}, before})
}

func (d *Double) stopInstances(region string, in instanceIDs) (changes, error) {
	var out changes
	instances, err := d.named(region, in)
	if err != nil {
		return out, err
	}
	for _, instance := range instances {
		switch instance.state {
		case stopping, stopped:
			out.change(instance, instance.state)
		case running:
			out.change(instance, stopping)
			instance.reason = stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"}
			d.background(func(ctx context.Context) error { return d.stop(ctx, instance) })
		default:
			return out, endpoint.Fail("IncorrectInstanceState", "the instance '%s' is %s", instance.id, instance.state)
		}
	}
	return out, nil
}

func (d *Double) stop(ctx context.Context, instance *instance) error {
	instance.operation.Lock()
	defer instance.operation.Unlock()
	if instance.machine == nil {
		return nil // terminated first
	}
	err := instance.machine.PowerOff(ctx)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if err != nil {
		instance.reason = stateReason{"Server.InternalError", err.Error()}
		return fmt.Errorf("stopping %s: %w", instance.id, err)
	}
	if instance.state == stopping {
		instance.state = stopped
	}
	return nil
}

func (d *Double) terminateInstances(region string, in instanceIDs) (changes, error) {
	var out changes
	instances, err := d.named(region, in)
	if err != nil {
		return out, err
	}
	for _, instance := range instances {
		if instance.state == shuttingDown || instance.state == terminated {
			out.change(instance, instance.state)
			continue
		}
		out.change(instance, shuttingDown)
		instance.cancel()
		d.background(func(context.Context) error { return d.terminate(instance) })
	}
	return out, nil
}

func (d *Double) terminate(instance *instance) error {
	instance.operation.Lock()
	defer instance.operation.Unlock()
	var err error
	if instance.machine != nil {
		err = instance.machine.Close()
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if err != nil {
		instance.reason = stateReason{"Server.InternalError", err.Error()}
		return fmt.Errorf("terminating %s: %w", instance.id, err)
	}
	d.end(instance, stateReason{"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"})
	return nil
}

// end makes an instance one that has been.
func (d *Double) end(instance *instance, reason stateReason) {
	instance.machine, instance.state, instance.reason = nil, terminated, reason
	d.release(instance)
}

type modifyInstanceIn struct {
	ID  string `query:"InstanceId"`
	ENA *struct {
		Value bool `query:"Value"`
	} `query:"EnaSupport"`
}

// modifyInstance takes what ena_support sends; every instance has it anyway.
func (d *Double) modifyInstance(region string, in modifyInstanceIn) (done, error) {
	changed, err := find(d.instances, region, in.ID, "InvalidInstanceID.NotFound")
	if err != nil {
		return done{}, err
	}
	if changed.state != stopped {
		return done{}, endpoint.Fail("IncorrectInstanceState", "the instance '%s' is not in the 'stopped' state", in.ID)
	}
	if in.ENA == nil || !in.ENA.Value {
		return done{}, endpoint.Refuse("instances without ENA")
	}
	return done{Return: true}, nil
}

// oneLine shortens an error to what fits into a reason.
func oneLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
