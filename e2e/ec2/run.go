package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type metadataOptions struct {
	Endpoint string `query:"HttpEndpoint"`
	Tokens   string `query:"HttpTokens"`
	HopLimit int    `query:"HttpPutResponseHopLimit"`
	Tags     string `query:"InstanceMetadataTags"`
}

type runInstancesIn struct {
	Image          string             `query:"ImageId"`
	Type           string             `query:"InstanceType"`
	Min            int                `query:"MinCount"`
	Max            int                `query:"MaxCount"`
	KeyPair        string             `query:"KeyName"`
	Groups         []string           `query:"SecurityGroupId"`
	Subnet         string             `query:"SubnetId"`
	UserData       string             `query:"UserData"`
	Mappings       []deviceMapping    `query:"BlockDeviceMapping"`
	EBSOptimized   bool               `query:"EbsOptimized"`
	Metadata       metadataOptions    `query:"MetadataOptions"`
	Shutdown       string             `query:"InstanceInitiatedShutdownBehavior"`
	Specifications []tagSpecification `query:"TagSpecification"`
	Token          string             `query:"ClientToken"`
	Placement      struct {
		Zone string `query:"AvailabilityZone"`
	} `query:"Placement"`
	Profile struct {
		Name string `query:"Name"`
	} `query:"IamInstanceProfile"`
	Enclave struct {
		Enabled bool `query:"Enabled"`
	} `query:"EnclaveOptions"`
	// Nothing is billed, and there is always room.
	Credits struct {
		CPU string `query:"CpuCredits"`
	} `query:"CreditSpecification"`
	Reservation struct {
		Preference string `query:"CapacityReservationPreference"`
	} `query:"CapacityReservationSpecification"`
}

func (in runInstancesIn) check() error {
	switch {
	case in.Min < 1 || in.Max < in.Min:
		return endpoint.Fail("InvalidParameterValue", "between %d and %d instances", in.Min, in.Max)
	case in.Profile.Name != "":
		return endpoint.Refuse("the instance profile %q: it has no roles", in.Profile.Name)
	case in.Enclave.Enabled:
		return endpoint.Refuse("enclaves")
	case cmp.Or(in.Shutdown, "stop") != "stop":
		return endpoint.Refuse("InstanceInitiatedShutdownBehavior %q", in.Shutdown)
	}
	return nil
}

// runInstances makes instances and answers; their machines boot afterwards.
func (d *Double) runInstances(region string, in runInstancesIn) (Reservation, error) {
	if err := in.check(); err != nil {
		return Reservation{}, err
	}
	if same := d.launchedWith(region, in.Token); len(same) > 0 {
		return d.shapeReservation(same), nil
	}
	model, launch, err := d.plan(region, in)
	if err != nil {
		return Reservation{}, err
	}
	tags, err := tagsFor(in.Specifications, "instance", "volume", "network-interface")
	if err != nil {
		return Reservation{}, err
	}
	reservation := d.next("r")
	var launched []*instance
	for range in.Max {
		one := d.addInstance(model, reservation)
		d.tag(one.id, tags["instance"])
		d.tag(one.volume.id, tags["volume"])
		d.tag(one.networkInterface, tags["network-interface"])
		launch.InstanceID = one.id
		d.launch(one, launch)
		launched = append(launched, one)
	}
	return d.shapeReservation(launched), nil
}

// launchedWith answers the instances of an earlier call with the same token: a
// client that repeats a call after a broken connection sends it again.
func (d *Double) launchedWith(region, token string) []*instance {
	if token == "" {
		return nil
	}
	return slices.DeleteFunc(inRegion(d.instances, region), func(i *instance) bool { return i.token != token })
}

func (d *Double) shapeReservation(instances []*instance) Reservation {
	reservation := Reservation{ID: instances[0].reservation, Owner: d.config.Account}
	for _, instance := range instances {
		reservation.Instances = append(reservation.Instances, d.shapeInstance(instance))
	}
	return reservation
}

// blueprint is what the instances of one launch have in common.
type blueprint struct {
	region       string
	image        *image
	subnet       *subnet
	groups       []*securityGroup
	spec         volumeSpec
	in           runInstancesIn
	metadata     metadataOptions
	instanceType string
}

// plan looks up everything that a launch names.
func (d *Double) plan(region string, in runInstancesIn) (blueprint, Launch, error) {
	model := blueprint{region: region, in: in, instanceType: cmp.Or(in.Type, "m1.small")}
	var err error
	if model.image, err = find(d.images, region, in.Image, "InvalidAMIID.NotFound"); err != nil {
		return model, Launch{}, err
	}
	if model.subnet, err = d.chooseSubnet(region, in.Subnet, in.Placement.Zone); err != nil {
		return model, Launch{}, err
	}
	for _, id := range in.Groups {
		group, err := find(d.groups, region, id, "InvalidGroup.NotFound")
		if err != nil {
			return model, Launch{}, err
		}
		model.groups = append(model.groups, group)
	}
	if model.spec, err = volumeSpecFor(model.image, model.image.snapshot, in.Mappings); err != nil {
		return model, Launch{}, err
	}
	model.metadata = in.Metadata
	if model.image.imds == "v2.0" {
		model.metadata.Tokens, model.metadata.HopLimit = cmp.Or(in.Metadata.Tokens, "required"), cmp.Or(in.Metadata.HopLimit, 2)
	}
	launch := Launch{Disk: model.image.snapshot.disk, User: model.image.user}
	if in.KeyPair != "" {
		index := slices.IndexFunc(d.keyPairs, func(k *keyPair) bool { return k.region == region && k.name == in.KeyPair })
		if index < 0 {
			return model, launch, endpoint.Fail("InvalidKeyPair.NotFound", "the key pair '%s' does not exist", in.KeyPair)
		}
		launch.AuthorizedKey = d.keyPairs[index].authorized
	}
	if launch.UserData, err = base64.StdEncoding.DecodeString(in.UserData); err != nil {
		return model, launch, endpoint.Fail("InvalidUserData.Malformed", "invalid BASE64 encoding of user data: %v", err)
	}
	return model, launch, nil
}

func (d *Double) addInstance(model blueprint, reservation string) *instance {
	made := &instance{
		place: place{model.region, d.next("i")}, reservation: reservation, token: model.in.Token,
		image: model.image, instanceType: model.instanceType, keyPair: model.in.KeyPair,
		subnet: model.subnet, groups: model.groups, networkInterface: d.next("eni"), ebsOptimized: model.in.EBSOptimized,
		metadata: metadataOptions{
			Endpoint: cmp.Or(model.metadata.Endpoint, "enabled"), Tokens: cmp.Or(model.metadata.Tokens, "optional"),
			HopLimit: cmp.Or(model.metadata.HopLimit, 1), Tags: cmp.Or(model.metadata.Tags, "disabled"),
		},
		launched: time.Now(), state: pending,
	}
	made.volume = &volume{
		place: place{model.region, d.next("vol")}, zone: model.subnet.zone, snapshot: model.image.snapshot.id,
		device: model.image.rootDevice, instance: made.id, spec: model.spec, created: made.launched,
	}
	d.instances, d.volumes = append(d.instances, made), append(d.volumes, made.volume)
	return made
}

// launch boots an instance's machine in the background. The operation is taken
// here, before anybody else knows the instance.
func (d *Double) launch(instance *instance, launch Launch) {
	instance.operation.Lock()
	ctx, cancel := context.WithCancel(d.ctx)
	instance.cancel = cancel
	d.background(func(context.Context) error {
		defer instance.operation.Unlock()
		defer cancel()
		machine, err := d.config.Machines.Launch(ctx, launch)
		wanted := ctx.Err() == nil
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if err == nil {
			instance.machine, instance.address, instance.hostname = machine, machine.Address(), machine.Hostname()
			if instance.state == pending {
				instance.state = running
			}
			return nil
		}
		if instance.state == pending {
			d.end(instance, stateReason{"Server.InternalError", "Server.InternalError: " + oneLine(err)})
		}
		if !wanted {
			return nil // it was terminated before it was up
		}
		return fmt.Errorf("launching %s: %w", launch.InstanceID, err)
	})
}
