//go:build e2e

package ebs_test

import (
	"context"
	"encoding/xml"
	"fmt"
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
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

const (
	region     = "us-east-1"
	abroad     = "eu-west-1" // regions of the copies
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
	*aws.World
	t      *testing.T
	ctx    context.Context
	lab    *machine.Lab
	url    string         // address of AWS
	mirror *mirror.Server // address of the mirror for the node's programs
}

func newCloud(t *testing.T, line mirror.Options) *cloud {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	lab, root, err := machine.Open(ctx, t.Output(), machine.Nspawn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })

	c := newAPI(t, ctx, lab)
	c.Machines, c.Images = machines{lab}, baseImages(root)
	c.serveMirror(line)
	return c
}

// newAPI adds AWS to a lab.
func newAPI(t *testing.T, ctx context.Context, lab *machine.Lab) *cloud {
	t.Helper()
	w := aws.New(t).Prompt("Packer's own builder decides what is repeated")
	w.Folder, w.Region = t.TempDir(), region
	// Loopback of the lab's namespace: the machines cannot reach it.
	listener, err := lab.Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: w}
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	go func() { _ = server.Serve(listener) }() // ErrServerClosed
	return &cloud{World: w, t: t, ctx: ctx, lab: lab, url: "http://" + listener.Addr().String()}
}

// names of the base images that the example finds
var names = map[string]string{
	"al2023": "al2023-ami-minimal-2023.9.20251110.1-kernel-6.12-x86_64", "arch": "arch-linux-std-hvm-2025.11.15.x86_64-ebs",
	"debian13": "debian-13-amd64-20251112-2294", "ubuntu2404": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20251022",
}

// baseImages returns images that the example's filters must find, and images
// that they must not find. All are Debian, regardless of their names: the
// example does not name the distribution to the plugin. An image without a disk
// cannot be launched.
func baseImages(root string) []*aws.Image {
	newest := time.Date(2025, time.November, 15, 12, 0, 0, 0, time.UTC)
	image := func(name, owner, user string, days int) *aws.Image {
		i := aws.NewImage("", name, owner, newest.AddDate(0, 0, days).Format(time.RFC3339))
		i.Public, i.User = true, user
		i.Devices = []aws.Drive{{Snapshot: "snap-" + owner, Size: 2, Type: "gp3"}}
		if owner == canonical || user == "ubuntu" {
			i.RootDevice = "/dev/sda1"
		}
		i.Devices[0].Name = i.RootDevice
		if user != "" {
			i.Disk = aws.Disk{Root: root}
		}
		if strings.Contains(name, "arm64") {
			i.Architecture = "arm64"
		}
		return i
	}
	all := []*aws.Image{
		image(names["al2023"], amazon, "ec2-user", 0), image(names["arch"], arch, "arch", 0),
		image(names["debian13"], debian, "admin", 0), image(names["ubuntu2404"], canonical, "ubuntu", 0),
		// Older images.
		image("al2023-ami-minimal-2023.8.20250915.0-kernel-6.12-x86_64", amazon, "", -60), image("arch-linux-std-hvm-2025.11.01.x86_64-ebs", arch, "", -14),
		image("debian-13-amd64-20250910-2200", debian, "", -60),
		// The full image, another kernel, another architecture, another version.
		image("al2023-ami-2023.9.20251110.1-kernel-6.12-x86_64", amazon, "", 1), image("al2023-ami-minimal-2023.9.20251110.1-kernel-6.1-x86_64", amazon, "", 1),
		image("al2023-ami-minimal-2023.9.20251110.1-kernel-6.12-arm64", amazon, "", 1), image("debian-13-arm64-20251112-2294", debian, "", 1),
		image("debian-12-amd64-20251112-2294", debian, "", 1), image("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20251022", canonical, "", 1),
	}
	// A publisher with similar names.
	for _, name := range names {
		all = append(all, image(name, "666666666666", "", 365))
	}
	for n, i := range all {
		i.ID = fmt.Sprintf("ami-%08x", n+1)
	}
	return all
}

// serveMirror serves the node's programs on an address that the machines reach.
func (c *cloud) serveMirror(line mirror.Options) {
	c.t.Helper()
	assets, err := mirror.Build(c.ctx, "", "amd64", c.t.Output())
	require.NoError(c.t, err)
	listener, err := c.lab.Listen(c.ctx, "tcp", net.JoinHostPort(c.lab.HostAddress(), mirrorPort))
	require.NoError(c.t, err)
	c.mirror, err = mirror.ServeOn(c.ctx, listener, assets.Folder, line)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, c.mirror.Close()) })
}

// call makes an API call with an AWS client.
func (c *cloud) call(action string, answer any, parameters ...string) {
	c.t.Helper()
	c.callIn(region, action, answer, parameters...)
}

func (c *cloud) callIn(region, action string, answer any, parameters ...string) {
	c.t.Helper()
	require.NoError(c.t, xml.Unmarshal(c.DoIn(region, "ec2:"+action, parameters...), answer))
}

// strays counts the connections and datagrams of programs in the lab to
// addresses without a route: all but the double, the machines and the mirror.
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

// counter finds a counter in either of the kernel's two layouts: a line of
// names above a line of values, or a name and its value on one line.
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

// TestConnectionsOutOfTheLabAreCounted proves that strays counts connections.
// Without it, a broken counter would let every build pass.
func TestConnectionsOutOfTheLabAreCounted(t *testing.T) {
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
