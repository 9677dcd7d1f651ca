package ec2

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// fakes are machines that take no time, unless they are told to.
type fakes struct {
	mutex    sync.Mutex
	launches []Launch
	machines map[string]*fake
	hold     chan struct{} // launches and power-offs wait until it is closed, when there is one
	deaf     bool          // launches do not notice that nobody wants them any more
	refuse   error         // what launches fail with
	// closing is sent to by each close before it begins, when there is one.
	closing chan struct{}
}

func (f *fakes) wait(ctx context.Context) error {
	f.mutex.Lock()
	hold := f.hold
	f.mutex.Unlock()
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakes) Launch(ctx context.Context, launch Launch) (Machine, error) {
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	made := &fake{fakes: f, launch: launch, running: true, address: netip.AddrFrom4([4]byte{10, 0, 0, byte(len(f.machines) + 1)})}
	f.launches = append(f.launches, launch)
	f.machines[launch.InstanceID] = made
	return made, nil
}

// machine answers the machine of an instance, nil for one that is gone.
func (f *fakes) machine(id string) *fake {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.machines[id]
}

type fake struct {
	*fakes
	launch  Launch
	address netip.Addr
	running bool
	broken  error // what a power-off, a capture and a close fail with
}

func (f *fake) Address() netip.Addr { return f.address }
func (f *fake) Hostname() string    { return "host-of-" + f.launch.InstanceID }

func (f *fake) Running() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.running
}

func (f *fake) PowerOff(ctx context.Context) error {
	if err := f.wait(ctx); err != nil {
		return err
	}
	f.set(false)
	return f.broken
}

func (f *fake) set(running bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.running = running
}

func (f *fake) Capture(_ context.Context, file string) error {
	if f.broken != nil {
		return f.broken
	}
	return os.WriteFile(file, []byte("disk of "+f.launch.InstanceID), 0o600)
}

func (f *fake) Close() error {
	if f.closing != nil {
		f.closing <- struct{}{}
		f.closing <- struct{}{}
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.machines, f.launch.InstanceID)
	return f.broken
}

const (
	home    = "us-east-1"
	abroad  = "eu-west-1"
	foreign = "137112412989"
)

// bench is a double with fake machines, and somebody who calls it.
type bench struct {
	*testing.T
	double *Double
	fakes  *fakes
	client endpoint.Client
	folder string
}

// newBench has an image of somebody else: ami-00000000000000001 at home.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, fakes: &fakes{machines: map[string]*fake{}}, folder: t.TempDir()}
	var err error
	b.double, err = New(Config{
		Machines: b.fakes, Folder: b.folder, Regions: []string{home, abroad},
		Images: []BaseImage{{
			Name: "al2023-ami-minimal-2023.9", Owner: foreign, User: "ec2-user",
			Created: time.Date(2025, 11, 15, 12, 0, 0, 0, time.UTC), Disk: Disk{Root: "/base"},
		}},
	})
	require.NoError(t, err)
	server := httptest.NewServer(endpoint.New("AKIATEST", b.double.Service()))
	t.Cleanup(server.Close)
	b.client = endpoint.Client{URL: server.URL, AccessKey: "AKIATEST", Region: home}
	return b
}

const baseImage = "ami-00000000000000001"

// in answers the same bench in another region.
func (b *bench) in(region string) *bench {
	other := *b
	other.client.Region = region
	return &other
}

func (b *bench) call(action string, parameters map[string]string, answer any) {
	b.Helper()
	require.NoError(b, b.client.Call(b.Context(), b.double.Service(), action, parameters, answer))
}

// refused makes a call that has to fail with a code, and answers the message.
func (b *bench) refused(code, action string, parameters map[string]string) string {
	b.Helper()
	var failure *endpoint.Failure
	err := b.client.Call(b.Context(), b.double.Service(), action, parameters, nil)
	require.ErrorAs(b, err, &failure, "%s %v", action, parameters)
	assert.Equal(b, code, failure.Code, failure.Message)
	return failure.Message
}

func (b *bench) close() {
	b.Helper()
	assert.NoError(b, b.double.Close())
}

func TestNewChecks(t *testing.T) {
	machines := &fakes{}
	for want, config := range map[string]Config{
		`making the double of EC2: account "12" is not 12 digits`:           {Account: "12", Machines: machines, Folder: "x"},
		`making the double of EC2: it needs machines`:                       {Folder: "x"},
		`making the double of EC2: it needs a folder for captured disks`:    {Machines: machines},
		`making the double of EC2: account "12345678901a" is not 12 digits`: {Account: "12345678901a", Machines: machines, Folder: "x"},
	} {
		_, err := New(config)
		assert.EqualError(t, err, want)
	}
}

func TestUnknownRegion(t *testing.T) {
	b := newBench(t)
	defer b.close()
	message := b.in("mars-1").refused(endpoint.Refused, "DescribeImages", nil)
	assert.Equal(t, `the double does not understand the region "mars-1": it has ["us-east-1" "eu-west-1"]`, message)
	b.in("mars-1").refused(endpoint.Refused, "CreateImage", map[string]string{"InstanceId": "i-1", "Name": "n"})
}

func TestCloseEndsEverything(t *testing.T) {
	b := newBench(t)
	b.run(nil)
	b.fakes.hold = make(chan struct{})
	b.run(nil) // this one never comes up
	require.NoError(t, b.double.Close())
	assert.Empty(t, b.fakes.machines)
	assert.NotContains(t, b.double.Inventory(), "instance")
}

func TestCloseTellsWhatFailed(t *testing.T) {
	b := newBench(t)
	id := b.run(nil)
	b.fakes.machine(id).broken = errors.New("stuck")
	assert.ErrorContains(t, b.double.Close(), "stuck")
}

func TestDisk(t *testing.T) {
	b := newBench(t)
	defer b.close()
	disk, err := b.double.Disk(home, baseImage)
	require.NoError(t, err)
	assert.Equal(t, Disk{Root: "/base"}, disk)
	disk, err = b.double.Disk(home, b.image(b.run(nil), "one"))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(b.folder, "snap-00000000000000003.raw"), disk.Image)
	_, err = b.double.Disk(abroad, baseImage)
	assert.ErrorContains(t, err, "InvalidAMIID.NotFound")
}
