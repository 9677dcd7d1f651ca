//go:build linux

package aws

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Machines makes the machines behind instances.
type Machines interface {
	// Launch boots a machine and returns when it accepts logins. When ctx ends
	// before that, nothing of the machine may be left.
	Launch(ctx context.Context, launch Launch) (Machine, error)
}

// Launch is what an instance's machine is made from.
type Launch struct {
	InstanceID string
	Disk       Disk
	// User is the account that the image logs its owner in with.
	User string
	// AuthorizedKey is the public half of the instance's key pair, a line for
	// that account's authorized_keys; empty when it has none.
	AuthorizedKey string
	UserData      []byte
}

// Disk is what an image boots from: the tree of a base system, or a captured
// disk.
type Disk struct{ Root, Image string }

// Machine is a machine as an instance needs it.
type Machine interface {
	Address() netip.Addr
	// PowerOff pushes the power button and returns when the machine is off.
	PowerOff(ctx context.Context) error
	// Capture writes the disk of a machine that is off to a file.
	Capture(ctx context.Context, file string) error
	// Close kills the machine and removes everything of it.
	Close() error
}

var material = regexp.MustCompile(`(?s)<keyMaterial>(.*?)</keyMaterial>`)

// createKeyPair keeps the public half, which moto does not tell, as instances
// receive it: with the pair's name as its comment, by which a key that was left
// in an image is recognized.
func (w *World) createKeyPair(ctx context.Context, call endpoint.Call, in struct {
	Name           string             `query:"KeyName"`
	Type           string             `query:"KeyType"`
	Specifications []tagSpecification `query:"TagSpecification"`
}) (any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return raw, err
	}
	found := material.FindSubmatch(raw.Body)
	if found == nil {
		return nil, fmt.Errorf("reading moto's key pair: there is no key in %s", raw.Body)
	}
	signer, err := ssh.ParsePrivateKey(found[1])
	if err != nil {
		return nil, fmt.Errorf("reading moto's key pair: %w", err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.keys[call.Region+"/"+in.Name] = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))) + " " + in.Name
	return raw, nil
}

type metadataOptions struct {
	Endpoint string `query:"HttpEndpoint" xml:"httpEndpoint,omitempty"`
	Tokens   string `query:"HttpTokens" xml:"httpTokens,omitempty"`
	HopLimit int    `query:"HttpPutResponseHopLimit" xml:"httpPutResponseHopLimit,omitempty"`
	Tags     string `query:"InstanceMetadataTags" xml:"instanceMetadataTags,omitempty"`
}

type tagSpecification struct {
	Kind string `query:"ResourceType"`
	Tags []Tag  `query:"Tag"`
}

type volumeSpec struct {
	Size      int    `query:"VolumeSize"`
	Type      string `query:"VolumeType"`
	Encrypted bool   `query:"Encrypted"`
	KMSKey    string `query:"KmsKeyId"`
	Delete    bool   `query:"DeleteOnTermination"`
	IOPS      int    `query:"Iops"`
	Speed     int    `query:"Throughput"`
}

type runInstancesIn struct {
	Image    string   `query:"ImageId"`
	Type     string   `query:"InstanceType"`
	Min      int      `query:"MinCount"`
	Max      int      `query:"MaxCount"`
	KeyPair  string   `query:"KeyName"`
	Groups   []string `query:"SecurityGroupId"`
	Subnet   string   `query:"SubnetId"`
	UserData string   `query:"UserData"`
	Mappings []struct {
		Device string     `query:"DeviceName"`
		EBS    volumeSpec `query:"Ebs"`
	} `query:"BlockDeviceMapping"`
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
	// Nothing is billed, and there is always room.
	Enclave struct {
		Enabled bool `query:"Enabled"`
	} `query:"EnclaveOptions"`
	Credits struct {
		CPU string `query:"CpuCredits"`
	} `query:"CreditSpecification"`
	Reservation struct {
		Preference string `query:"CapacityReservationPreference"`
	} `query:"CapacityReservationSpecification"`
}

// check refuses what a machine cannot have, and finds the image.
func (w *World) check(region string, in runInstancesIn) (*Image, error) {
	i, err := find(w.Images, region, in.Image, "InvalidAMIID.NotFound")
	switch {
	case err != nil:
		return nil, err
	case in.Enclave.Enabled || in.Shutdown != "" && in.Shutdown != "stop":
		return nil, endpoint.Refuse("enclaves, and shutdowns that terminate")
	case in.Min < 1 || in.Max != in.Min:
		return nil, endpoint.Fail("InvalidParameterValue", "between %d and %d instances", in.Min, in.Max)
	}
	for _, m := range in.Mappings {
		if m.Device != i.RootDevice {
			return nil, endpoint.Refuse("the device %s: a machine has one disk, and the image's is %s", m.Device, i.RootDevice)
		}
		for _, d := range i.Devices {
			if m.EBS.Size != 0 && m.EBS.Size < d.Size {
				return nil, endpoint.Fail("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", m.EBS.Size, d.Snapshot, d.Size)
			}
		}
	}
	return i, nil
}

var (
	instanceIDs = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)
	instances   = regexp.MustCompile(`<instanceId>(\S+)</instanceId>\s*<imageId>`)
	address     = regexp.MustCompile(`<privateIpAddress>[0-9.]+</privateIpAddress>`)
)

// runInstances answers when the machines accept logins. EC2 answers before that;
// clients ask on until the state is running in either case.
func (w *World) runInstances(ctx context.Context, call endpoint.Call, in runInstancesIn) (any, error) {
	w.mutex.Lock()
	image, err := w.check(call.Region, in)
	w.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(in.UserData)
	if err != nil {
		return nil, endpoint.Fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data: %v", err)
	}
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return raw, err
	}
	if image.IMDS == "v2.0" {
		in.Metadata.Tokens, in.Metadata.HopLimit = "required", max(2, in.Metadata.HopLimit)
	}
	for _, found := range instanceIDs.FindAllSubmatch(raw.Body, -1) {
		id := string(found[1])
		if w.running[id] != nil { // it stands in its network interface, too
			continue
		}
		launch := Launch{InstanceID: id, Disk: image.Disk, User: image.User, UserData: data}
		if err := w.boot(ctx, call, launch, in); err != nil {
			_, failure := w.try(call.Region, "ec2:TerminateInstances", "InstanceId.1", id)
			return nil, fmt.Errorf("launching %s: %w", id, errors.Join(err, failure))
		}
	}
	return raw, nil
}

// boot starts an instance's machine and keeps what moto does not: how the
// metadata service is reached, and the machine's own address.
func (w *World) boot(ctx context.Context, call endpoint.Call, launch Launch, in runInstancesIn) error {
	w.mutex.Lock()
	w.metadata[launch.InstanceID] = fmt.Sprintf("<metadataOptions><state>applied</state><httpTokens>%s</httpTokens><httpPutResponseHopLimit>%d</httpPutResponseHopLimit><httpEndpoint>%s</httpEndpoint></metadataOptions>",
		cmp.Or(in.Metadata.Tokens, "optional"), max(1, in.Metadata.HopLimit), cmp.Or(in.Metadata.Endpoint, "enabled"))
	launch.AuthorizedKey = w.keys[call.Region+"/"+in.KeyPair]
	w.mutex.Unlock()
	if w.Machines == nil {
		return nil
	}
	m, err := w.Machines.Launch(ctx, launch)
	if err != nil {
		return err
	}
	described, err := w.try(call.Region, "ec2:DescribeInstances", "InstanceId.1", launch.InstanceID)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.running[launch.InstanceID] = m
	if found := address.Find(described); found != nil {
		w.names.add("<privateIpAddress>"+m.Address().String()+"</privateIpAddress>", string(found))
	}
	return nil
}

// describeInstances adds what moto does not keep.
func (w *World) describeInstances(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	answer, err := w.forwarded([]string{"InstanceId", "Filter", "MaxResults"})(ctx, protocol, call)
	raw, written := answer.(*endpoint.Raw)
	if err != nil || !written {
		return answer, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	raw.Body = instances.ReplaceAllFunc(raw.Body, func(at []byte) []byte {
		id := w.names.in(string(instances.FindSubmatch(at)[1]))
		return append([]byte(w.metadata[id]), at...)
	})
	return raw, nil
}

type instanceIn struct {
	IDs []string `query:"InstanceId"`
}

func (w *World) stopInstances(ctx context.Context, call endpoint.Call, in instanceIn) (any, error) {
	return w.each(ctx, call, in, func(_ string, m Machine) error { return m.PowerOff(ctx) })
}

func (w *World) terminateInstances(ctx context.Context, call endpoint.Call, in instanceIn) (any, error) {
	return w.each(ctx, call, in, func(id string, m Machine) error {
		w.mutex.Lock()
		delete(w.running, id)
		w.mutex.Unlock()
		return m.Close()
	})
}

// each does something to the machines of instances, and has moto note it.
func (w *World) each(ctx context.Context, call endpoint.Call, in instanceIn, do func(string, Machine) error) (any, error) {
	for _, id := range in.IDs {
		w.mutex.Lock()
		id = w.names.in(id)
		m := w.running[id]
		w.mutex.Unlock()
		if m == nil {
			continue
		}
		if err := do(id, m); err != nil {
			return nil, fmt.Errorf("%s %s: %w", call.Action, id, err)
		}
	}
	return w.forward(ctx, call)
}

// createTags tags images and snapshots, and has moto tag everything else.
func (w *World) createTags(ctx context.Context, call endpoint.Call, in struct {
	IDs  []string `query:"ResourceId"`
	Tags []Tag    `query:"Tag"`
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []*[]Tag
	for _, id := range in.IDs {
		if i, err := find(w.Images, call.Region, id, ""); err == nil {
			all = append(all, &i.Tags)
		}
		if s, err := find(w.Snapshots, call.Region, id, ""); err == nil {
			all = append(all, &s.Tags)
		}
	}
	switch len(all) {
	case len(in.IDs):
	case 0:
		return w.forward(ctx, call)
	default:
		return nil, endpoint.Refuse("tags for images and others at once: %q", in.IDs)
	}
	for _, tags := range all {
		for _, new := range in.Tags {
			*tags = append(slices.DeleteFunc(slices.Clone(*tags), func(t Tag) bool { return t.Key == new.Key }), new)
		}
	}
	return done{true}, nil
}

// next makes an identifier, such as "ami-00000000000000001". They are numbered,
// so that a test's log is the same in each run.
func (w *World) next(kind string) string {
	w.serial++
	return fmt.Sprintf("%s-%017s", kind, strconv.FormatInt(int64(w.serial), 16))
}
