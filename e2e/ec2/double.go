package ec2

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// version is that of EC2's API
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Welcome.html).
const version = "2016-11-15"

// Config describes a double.
type Config struct {
	// Account is the caller's, "123456789012" when empty.
	Account string
	// Regions that exist, "us-east-1" when empty. Each has a default VPC with a
	// subnet in each of two availability zones.
	Regions []string
	// Images of other accounts, in every region: what source_ami_filter finds.
	Images []BaseImage
	// Machines makes the instances' machines.
	Machines Machines
	// Folder is where captured disks are kept. They are the caller's to remove.
	Folder string
}

// BaseImage is a public image of another account.
type BaseImage struct {
	Name, Owner string
	// User is the account that the image's instances are logged in to.
	User string
	// Architecture is "x86_64" when empty, RootDevice "/dev/xvda".
	Architecture, RootDevice string
	Created                  time.Time
	Disk                     Disk
}

// Double is a double of EC2. Its methods may be called from several goroutines.
type Double struct {
	config Config
	ctx    context.Context // of what goes on behind answered calls
	cancel context.CancelFunc
	work   sync.WaitGroup

	mutex     sync.Mutex
	made      map[string]int
	tags      map[string][]Tag
	images    []*image
	snapshots []*snapshot
	instances []*instance
	volumes   []*volume
	keyPairs  []*keyPair
	groups    []*securityGroup
	vpcs      []*vpc
	subnets   []*subnet
	failures  []error
}

var accounts = regexp.MustCompile(`^[0-9]{12}$`)

// New makes a double. Close it.
func New(config Config) (*Double, error) {
	if config.Account == "" {
		config.Account = "123456789012"
	}
	if len(config.Regions) == 0 {
		config.Regions = []string{"us-east-1"}
	}
	switch {
	case !accounts.MatchString(config.Account):
		return nil, fmt.Errorf("making the double of EC2: account %q is not 12 digits", config.Account)
	case config.Machines == nil:
		return nil, errors.New("making the double of EC2: it needs machines")
	case config.Folder == "":
		return nil, errors.New("making the double of EC2: it needs a folder for captured disks")
	}
	double := &Double{config: config, made: map[string]int{}, tags: map[string][]Tag{}}
	double.ctx, double.cancel = context.WithCancel(context.Background())
	for _, region := range config.Regions {
		double.addNetwork(region)
		for _, base := range config.Images {
			double.addBase(region, base)
		}
	}
	return double, nil
}

// Account is the caller's account.
func (d *Double) Account() string { return d.config.Account }

// Service answers the double's calls.
func (d *Double) Service() endpoint.Service {
	return endpoint.Service{Name: "ec2", Protocol: endpoint.EC2{Version: version}, Actions: map[string]endpoint.Action{
		"DescribeRegions":   handle(d, d.describeRegions),
		"DescribeVpcs":      handle(d, d.describeVPCs),
		"DescribeSubnets":   handle(d, d.describeSubnets),
		"DescribeImages":    handle(d, d.describeImages),
		"DescribeSnapshots": handle(d, d.describeSnapshots),
		"DescribeVolumes":   handle(d, d.describeVolumes),
		"DescribeInstances": handle(d, d.describeInstances),
		"CreateTags":        handle(d, d.createTags),

		"CreateKeyPair": handle(d, d.createKeyPair),
		"DeleteKeyPair": handle(d, d.deleteKeyPair),

		"CreateSecurityGroup":           handle(d, d.createSecurityGroup),
		"DescribeSecurityGroups":        handle(d, d.describeSecurityGroups),
		"AuthorizeSecurityGroupIngress": handle(d, d.authorizeIngress),
		"DeleteSecurityGroup":           handle(d, d.deleteSecurityGroup),

		"RunInstances":            handle(d, d.runInstances),
		"ModifyInstanceAttribute": handle(d, d.modifyInstance),
		"StopInstances":           handle(d, d.stopInstances),
		"TerminateInstances":      handle(d, d.terminateInstances),
		"DeleteVolume":            handle(d, d.deleteVolume),

		// It takes the time of a capture, and locks for itself.
		"CreateImage":             endpoint.Handle(d.createImage),
		"CopyImage":               handle(d, d.copyImage),
		"EnableImageDeprecation":  handle(d, d.enableImageDeprecation),
		"ModifyImageAttribute":    handle(d, d.modifyImage),
		"ModifySnapshotAttribute": handle(d, d.modifySnapshot),
		"DeregisterImage":         handle(d, d.deregisterImage),
		"DeleteSnapshot":          handle(d, d.deleteSnapshot),
	}}
}

// handle makes an action of one that is carried out under the double's lock, in
// a region that exists.
func handle[In, Out any](d *Double, carryOut func(region string, in In) (Out, error)) endpoint.Action {
	return endpoint.Handle(func(_ context.Context, call endpoint.Call, in In) (Out, error) {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if err := d.checkRegion(call.Region); err != nil {
			var none Out
			return none, err
		}
		d.observe()
		return carryOut(call.Region, in)
	})
}

func (d *Double) checkRegion(region string) error {
	if !slices.Contains(d.config.Regions, region) {
		return endpoint.Refuse("the region %q: it has %q", region, d.config.Regions)
	}
	return nil
}

// next makes an identifier, such as "ami-00000000000000001". They are numbered,
// so that a test's log tells the same in each run.
func (d *Double) next(kind string) string {
	d.made[kind]++
	return fmt.Sprintf("%s-%017x", kind, d.made[kind])
}

// background carries something out after the call that asked for it has been
// answered. What fails there is told by Close, and in the state of what failed.
func (d *Double) background(work func(ctx context.Context) error) {
	d.work.Go(func() {
		if err := work(d.ctx); err != nil {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.failures = append(d.failures, err)
		}
	})
}

// Inventory lists what exists, but for the images of others and the networks:
// what a user would go on paying for, or wonder about. A line is a kind, an
// identifier and, where it has one, a name.
func (d *Double) Inventory() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.observe()
	var lines []string
	add := func(parts ...string) { lines = append(lines, strings.TrimSpace(strings.Join(parts, " "))) }
	for _, image := range d.images {
		if image.owner == d.config.Account {
			add("image", image.id, image.name)
		}
	}
	for _, snapshot := range d.snapshots {
		if snapshot.owner == d.config.Account {
			add("snapshot", snapshot.id)
		}
	}
	for _, instance := range d.instances {
		if instance.state != terminated {
			add("instance", instance.id, string(instance.state))
		}
	}
	for _, volume := range d.volumes {
		add("volume", volume.id)
	}
	for _, key := range d.keyPairs {
		add("key pair", key.id, key.name)
	}
	for _, group := range d.groups {
		add("security group", group.id, group.name)
	}
	return lines
}

// Disk answers what the instances of an image boot from: for a captured image,
// the file that a test can look into.
func (d *Double) Disk(region, imageID string) (Disk, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	image, err := find(d.images, region, imageID, "InvalidAMIID.NotFound")
	if err != nil {
		return Disk{}, fmt.Errorf("finding the disk of an image: %w", err)
	}
	return image.snapshot.disk, nil
}

// Close terminates all instances and waits for what goes on in the background.
// It answers what has failed there.
func (d *Double) Close() error {
	d.cancel()
	d.work.Wait()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, instance := range d.instances {
		if instance.machine != nil {
			d.failures = append(d.failures, instance.machine.Close())
			instance.machine = nil
		}
		instance.state = terminated
	}
	return errors.Join(d.failures...)
}
