//go:build linux

package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Machines starts the machines behind instances.
type Machines interface {
	// Launch boots a machine and returns when the machine accepts logins. If ctx
	// ends earlier, Launch must remove everything of the machine.
	Launch(ctx context.Context, launch Launch) (Machine, error)
}

// Launch describes the machine to start for an instance.
type Launch struct {
	InstanceID string
	Disk       Disk
	// User is the login name that the image sets up.
	User string
	// AuthorizedKey is the public half of the instance's key pair: a line for the
	// user's authorized_keys. It is empty without a key pair.
	AuthorizedKey string
	// Role is the role of the instance profile, or empty.
	Role     string
	UserData []byte
}

// Disk is the boot disk of an image: the tree of a base system, or a captured
// disk.
type Disk struct{ Root, Image string }

// Machine is the machine behind an instance.
type Machine interface {
	Address() netip.Addr
	// Boot turns on a machine that is off, and returns when the machine accepts logins.
	Boot(ctx context.Context) error
	// Console returns what the machine has written to its console.
	Console() string
	// PowerOff pushes the power button and returns when the machine is off.
	PowerOff(ctx context.Context) error
	// Capture writes the disk of a stopped machine to a file.
	Capture(ctx context.Context, file string) error
	// Close kills the machine and removes all its files.
	Close() error
}

var material = regexp.MustCompile(`(?s)<keyMaterial>(.*?)</keyMaterial>`)

// createKeyPair keeps the public key in the form that instances receive,
// because moto does not return it. The pair's name is the key's comment. By
// this comment tests recognize a key that was left in an image.
func (w *World) createKeyPair(ctx context.Context, call endpoint.Call, in struct {
	KeyName, KeyType string
	TagSpecification []tagSpecification
}) (any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return raw, err
	}
	found := material.FindSubmatch(raw.Body)
	if found == nil {
		return nil, fmt.Errorf("reading moto's key pair: no key in %s", raw.Body)
	}
	signer, err := ssh.ParsePrivateKey(found[1])
	if err != nil {
		return nil, fmt.Errorf("reading moto's key pair: %w", err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	w.keys[call.Region+"/"+in.KeyName] = public + " " + in.KeyName
	return raw, nil
}

type metadataOptions struct {
	HttpEndpoint, HttpTokens, InstanceMetadataTags string
	HttpPutResponseHopLimit                        int
}

type tagSpecification struct {
	ResourceType string
	Tag          []Tag
}

type volumeSpec struct {
	VolumeType, KmsKeyId           string
	VolumeSize, Iops, Throughput   int
	Encrypted, DeleteOnTermination bool
}

type runInstancesIn struct {
	ImageId, InstanceType, KeyName, SubnetId, UserData, ClientToken string
	InstanceInitiatedShutdownBehavior                               string
	MinCount, MaxCount                                              int
	SecurityGroupId                                                 []string
	BlockDeviceMapping                                              []struct {
		DeviceName string
		Ebs        volumeSpec
	}
	EbsOptimized       bool
	MetadataOptions    metadataOptions
	TagSpecification   []tagSpecification
	Placement          struct{ AvailabilityZone string }
	IamInstanceProfile struct{ Name string }
	EnclaveOptions     struct{ Enabled bool }
	// Nothing is billed, and capacity is unlimited.
	CreditSpecification              struct{ CpuCredits string }
	CapacityReservationSpecification struct{ CapacityReservationPreference string }
}

// check refuses parameters that a machine cannot have, and returns the image.
func (w *World) check(region string, in runInstancesIn) (*Image, error) {
	i, err := find(w.Images, region, in.ImageId, "InvalidAMIID.NotFound")
	if err == nil {
		err = w.refused(i)
	}
	switch {
	case err != nil:
		return nil, err
	case in.EnclaveOptions.Enabled || !slices.Contains([]string{"", "stop"}, in.InstanceInitiatedShutdownBehavior):
		return nil, endpoint.Refuse("enclaves, and shutdowns that terminate")
	case in.MinCount < 1 || in.MaxCount != in.MinCount:
		return nil, endpoint.Fail("InvalidParameterValue", "between %d and %d instances", in.MinCount, in.MaxCount)
	}
	for _, m := range in.BlockDeviceMapping {
		if m.DeviceName != i.RootDevice {
			return nil, endpoint.Refuse("the device %s: a machine has only the disk of its image, %s",
				m.DeviceName, i.RootDevice)
		}
		for _, d := range i.Devices {
			if m.Ebs.VolumeSize != 0 && m.Ebs.VolumeSize < d.Size {
				return nil, endpoint.Fail("InvalidBlockDeviceMapping",
					"Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB",
					m.Ebs.VolumeSize, d.Snapshot, d.Size)
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

// runInstances returns when the machines accept logins. EC2 returns earlier;
// clients poll until the state is running in either case.
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
		in.MetadataOptions.HttpTokens, in.MetadataOptions.HttpPutResponseHopLimit = "required", max(2,
			in.MetadataOptions.HttpPutResponseHopLimit)
	}
	for _, found := range instanceIDs.FindAllSubmatch(raw.Body, -1) {
		id := string(found[1])
		w.mutex.Lock()
		booted := w.running[id] != nil
		w.mutex.Unlock()
		if booted { // the address is part of its network interface, too
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

// boot starts an instance's machine. It keeps the fields that moto lacks: the options of
// the metadata service, the IPv6 address that a subnet gives, and the machine's own address.
func (w *World) boot(ctx context.Context, call endpoint.Call, launch Launch, in runInstancesIn) error {
	var six string
	if in.SubnetId != "" {
		of, err := w.try(call.Region, "ec2:DescribeSubnets", "SubnetId.1", in.SubnetId)
		if err != nil {
			return err
		}
		if bytes.Contains(of, []byte("<assignIpv6AddressOnCreation>true<")) {
			six = "<ipv6Address>" + strings.TrimSuffix(first(of, "ipv6CidrBlock"), "/64") + "a</ipv6Address>"
		}
	}
	w.mutex.Lock()
	w.metadata[launch.InstanceID] = fmt.Sprintf("<metadataOptions><state>applied</state><httpTokens>%s</httpTokens><httpPutResponseHopLimit>%d</httpPutResponseHopLimit><httpEndpoint>%s</httpEndpoint></metadataOptions>",
		cmp.Or(in.MetadataOptions.HttpTokens, "optional"), max(1, in.MetadataOptions.HttpPutResponseHopLimit),
		cmp.Or(in.MetadataOptions.HttpEndpoint, "enabled")) + six
	launch.AuthorizedKey = w.keys[call.Region+"/"+in.KeyName]
	w.mutex.Unlock()
	if w.Machines == nil {
		return nil
	}
	if in.IamInstanceProfile.Name != "" {
		profile, err := w.try(call.Region, "iam:GetInstanceProfile", "InstanceProfileName", in.IamInstanceProfile.Name)
		if err != nil {
			return err
		}
		launch.Role = first(profile, "RoleName")
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

// describeInstances adds the fields that moto does not keep.
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

type instanceIn struct{ InstanceId []string }

func (w *World) stopInstances(ctx context.Context, call endpoint.Call, in instanceIn) (any, error) {
	return w.each(ctx, call, in, func(_ string, m Machine) error { return m.PowerOff(ctx) })
}

func (w *World) rebootInstances(ctx context.Context, call endpoint.Call, in instanceIn) (any, error) {
	return w.each(ctx, call, in, func(_ string, m Machine) error { return errors.Join(m.PowerOff(ctx), m.Boot(ctx)) })
}

type consoleOut struct {
	ID     string `xml:"instanceId"`
	Output string `xml:"output"` // in Base64
}

// consoleOutput is the end of the machine's console, as much as EC2 keeps.
func (w *World) consoleOutput(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	form, err := url.ParseQuery(call.Body)
	if err != nil {
		return nil, err
	}
	w.mutex.Lock()
	id := w.names.in(form.Get("InstanceId"))
	m := w.running[id]
	w.mutex.Unlock()
	if m == nil {
		return w.forwarded([]string{"InstanceId", "Latest"})(ctx, protocol, call)
	}
	text := m.Console()
	return consoleOut{id, base64.StdEncoding.EncodeToString([]byte(text[max(0, len(text)-64<<10):]))}, nil
}

func (w *World) terminateInstances(ctx context.Context, call endpoint.Call, in instanceIn) (any, error) {
	return w.each(ctx, call, in, func(id string, m Machine) error {
		w.mutex.Lock()
		delete(w.running, id)
		w.mutex.Unlock()
		return m.Close()
	})
}

// each applies a change to the machines of instances, and forwards the call to
// moto.
func (w *World) each(ctx context.Context, call endpoint.Call, in instanceIn, do func(string, Machine) error) (any, error) {
	for _, id := range in.InstanceId {
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

// createTags tags images and snapshots, and forwards tags of other objects to
// moto.
func (w *World) createTags(ctx context.Context, call endpoint.Call, in struct {
	ResourceId []string
	Tag        []Tag
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []*[]Tag
	for _, id := range in.ResourceId {
		if i, err := find(w.Images, call.Region, id, ""); err == nil {
			all = append(all, &i.Tags)
		}
		if s, err := find(w.Snapshots, call.Region, id, ""); err == nil {
			all = append(all, &s.Tags)
		}
	}
	switch len(all) {
	case len(in.ResourceId):
	case 0:
		return w.forward(ctx, call)
	default:
		return nil, endpoint.Refuse("tags for images and others at once: %q", in.ResourceId)
	}
	for _, tags := range all {
		for _, new := range in.Tag {
			*tags = append(slices.DeleteFunc(slices.Clone(*tags), func(t Tag) bool { return t.Key == new.Key }), new)
		}
	}
	return done{true}, nil
}

// next returns a new identifier, such as "ami-00000000000000001". The ids are
// numbered, so that the log of a test is the same in each run.
func (w *World) next(kind string) string {
	w.serial++
	return fmt.Sprintf("%s-%017s", kind, strconv.FormatInt(int64(w.serial), 16))
}
