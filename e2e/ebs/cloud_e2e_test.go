//go:build e2e

package ebs_test

import (
	"context"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/ssm"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/sts"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

const (
	region     = "us-east-1"
	abroad     = "eu-west-1" // where images are copied to
	accessKey  = "AKIADOUBLE"
	mirrorPort = "8080"

	amazon    = "137112412989"
	arch      = "647457786197"
	debian    = "136693071363"
	canonical = "099720109477"
)

// limit bounds a test, so that a hang becomes a failure with a log.
const limit = 15 * time.Minute

// cloud is a lab with AWS in it.
type cloud struct {
	t      *testing.T
	ctx    context.Context
	lab    *machine.Lab
	double *ec2.Double
	api    *endpoint.Endpoint
	client endpoint.Client
	mirror *mirror.Server // of the node's programs
	ssm    *ssm.Store
	// clusters are EKS's; whoever adds one does so before anybody asks.
	clusters map[string]map[string]any
}

func newCloud(t *testing.T, line mirror.Options) *cloud {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, root, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })

	c := newAPI(t, ctx, lab, ec2.Config{Machines: ec2.Lab{Lab: lab}, Images: baseImages(root)})
	c.serveMirror(line)
	return c
}

// newAPI puts a double into a lab.
func newAPI(t *testing.T, ctx context.Context, lab *machine.Lab, config ec2.Config) *cloud {
	t.Helper()
	config.Folder, config.Regions = t.TempDir(), []string{region, abroad}
	double, err := ec2.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, double.Close()) })
	store := &ssm.Store{}
	clusters := map[string]map[string]any{}
	api := endpoint.New(accessKey, double.Service(), sts.Service(double.Account()), store.Service(), aws.EKS(clusters))
	// Loopback of the lab's namespace: the machines do not reach it.
	listener, err := lab.Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: api}
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	go func() { _ = server.Serve(listener) }() // ErrServerClosed
	return &cloud{t: t, ctx: ctx, lab: lab, double: double, api: api, ssm: store, clusters: clusters, client: endpoint.Client{
		URL: "http://" + listener.Addr().String(), AccessKey: accessKey, Region: region,
		HTTP: &http.Client{Transport: &http.Transport{DialContext: lab.Dial}},
	}}
}

// names of the base images that the example finds.
var names = map[string]string{
	"al2023": "al2023-ami-minimal-2023.9.20251110.1-kernel-6.12-x86_64", "arch": "arch-linux-std-hvm-2025.11.15.x86_64-ebs",
	"debian12": "debian-12-amd64-20251112-2294", "ubuntu2404": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20251022",
}

// baseImages are what the example's filters find, and what they must not. All
// are Debian, whatever their names say: the example does not tell the plugin
// which distribution it is on. An image without a disk cannot be launched.
func baseImages(root string) []ec2.BaseImage {
	newest := time.Date(2025, time.November, 15, 12, 0, 0, 0, time.UTC)
	return []ec2.BaseImage{
		{Name: names["al2023"], Owner: amazon, User: "ec2-user", Created: newest, Disk: ec2.Disk{Root: root}},
		{Name: names["arch"], Owner: arch, User: "arch", Created: newest, Disk: ec2.Disk{Root: root}},
		{Name: names["debian12"], Owner: debian, User: "admin", Created: newest, Disk: ec2.Disk{Root: root}},
		{Name: names["ubuntu2404"], Owner: canonical, User: "ubuntu", RootDevice: "/dev/sda1", Created: newest, Disk: ec2.Disk{Root: root}},
		// Older ones.
		{Name: "al2023-ami-minimal-2023.8.20250915.0-kernel-6.12-x86_64", Owner: amazon, Created: newest.AddDate(0, -2, 0)},
		{Name: "arch-linux-std-hvm-2025.11.01.x86_64-ebs", Owner: arch, Created: newest.AddDate(0, 0, -14)},
		{Name: "debian-12-amd64-20250910-2200", Owner: debian, Created: newest.AddDate(0, -2, 0)},
		// The full image, another kernel, another architecture, another version.
		{Name: "al2023-ami-2023.9.20251110.1-kernel-6.12-x86_64", Owner: amazon, Created: newest.AddDate(0, 0, 1)},
		{Name: "al2023-ami-minimal-2023.9.20251110.1-kernel-6.1-x86_64", Owner: amazon, Created: newest.AddDate(0, 0, 1)},
		{Name: "al2023-ami-minimal-2023.9.20251110.1-kernel-6.12-arm64", Owner: amazon, Created: newest.AddDate(0, 0, 1), Architecture: "arm64"},
		{Name: "debian-12-arm64-20251112-2294", Owner: debian, Created: newest.AddDate(0, 0, 1), Architecture: "arm64"},
		{Name: "debian-13-amd64-20251112-2294", Owner: debian, Created: newest.AddDate(0, 0, 1)},
		{Name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20251022", Owner: canonical, RootDevice: "/dev/sda1", Created: newest.AddDate(0, 0, 1)},
		// Somebody who would like to be taken for them.
		{Name: names["al2023"], Owner: "666666666666", Created: newest.AddDate(1, 0, 0)},
		{Name: names["arch"], Owner: "666666666666", Created: newest.AddDate(1, 0, 0)},
		{Name: names["debian12"], Owner: "666666666666", Created: newest.AddDate(1, 0, 0)},
		{Name: names["ubuntu2404"], Owner: "666666666666", RootDevice: "/dev/sda1", Created: newest.AddDate(1, 0, 0)},
	}
}

// serveMirror serves the node's programs where the machines reach them.
func (c *cloud) serveMirror(line mirror.Options) {
	c.t.Helper()
	assets, err := mirror.Build(c.ctx, mirror.Versions{}, "amd64", c.t.Output())
	require.NoError(c.t, err)
	listener, err := c.lab.Listen(c.ctx, "tcp", net.JoinHostPort(c.lab.HostAddress(), mirrorPort))
	require.NoError(c.t, err)
	c.mirror, err = mirror.ServeOn(c.ctx, listener, assets.Folder, line)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, c.mirror.Close()) })
}

// call makes a call as somebody with an AWS client.
func (c *cloud) call(action string, parameters map[string]string, answer any) {
	c.t.Helper()
	c.callIn(region, action, parameters, answer)
}

func (c *cloud) callIn(region, action string, parameters map[string]string, answer any) {
	c.t.Helper()
	client := c.client
	client.Region = region
	require.NoError(c.t, client.Call(c.ctx, c.double.Service(), action, parameters, answer))
}

// strays counts what programs in the lab have tried to send to where no route
// leads: connections and datagrams to anybody but the double, the machines and
// the mirror.
func (c *cloud) strays() int {
	c.t.Helper()
	total := 0
	for file, name := range map[string]string{"/proc/net/snmp": "OutNoRoutes", "/proc/net/snmp6": "Ip6OutNoRoutes"} {
		text, err := c.lab.Command(c.ctx, "cat", file).Output()
		require.NoError(c.t, err)
		total += counter(c.t, string(text), name)
	}
	return total
}

// counter finds a counter in either of the kernel's two layouts: a line of names
// above a line of values, or a name and its value on a line.
func counter(t *testing.T, text, name string) int {
	t.Helper()
	lines := strings.Split(text, "\n")
	for number, line := range lines {
		for column, word := range strings.Fields(line) {
			if word != name {
				continue
			}
			values := strings.Fields(line)
			index := 1
			if column > 0 {
				values, index = strings.Fields(lines[number+1]), column
			}
			value, err := strconv.Atoi(values[index])
			require.NoError(t, err)
			return value
		}
	}
	t.Fatalf("no counter %s in\n%s", name, text)
	return 0
}

// TestStraysAreCounted keeps the builds' proof from being true by accident.
func TestStraysAreCounted(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, _, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })
	c := &cloud{t: t, ctx: ctx, lab: lab}
	before := c.strays()
	for _, stray := range []string{"/dev/tcp/192.0.2.1/443", "/dev/udp/192.0.2.53/53", "/dev/tcp/2001:db8::1/443"} {
		var failed *exec.ExitError
		require.ErrorAs(t, lab.Command(ctx, "bash", "-c", "exec 3<>"+stray).Run(), &failed)
	}
	assert.Equal(t, before+3, c.strays())
}
