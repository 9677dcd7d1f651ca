//go:build e2e

package ebs_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// TestBuildUsesVersionAndNetworkOfCluster builds the image for a cluster from
// the cluster's name alone: version and network come from EKS, the base image
// from its publisher's parameter.
func TestBuildUsesVersionAndNetworkOfCluster(t *testing.T) {
	all := build(t)
	c := newCloud(t, mirror.Options{})
	var subnets struct {
		Subnets []struct {
			ID  string `xml:"subnetId"`
			VPC string `xml:"vpcId"`
		} `xml:"subnetSet>item"`
	}
	c.call("DescribeSubnets", &subnets)
	subnet := subnets.Subnets[len(subnets.Subnets)-1]
	c.Do("eks:POST /clusters", `{"name":"my-cluster","version":"1.36","roleArn":"arn:aws:iam::`+aws.Account+`:role/cluster","resourcesVpcConfig":{"subnetIds":["`+subnet.ID+`"]},
		"kubernetesNetworkConfig":{"serviceIpv4Cidr":"10.100.0.0/16"}}`)
	c.Clusters["my-cluster"] = map[string]any{"resourcesVpcConfig": map[string]any{"vpcId": subnet.VPC, "clusterSecurityGroupId": "sg-cluster"}}
	var found struct {
		Images []aws.Image `xml:"imagesSet>item"`
	}
	c.call("DescribeImages", &found, "Owner.1", debian, "Filter.1.Name", "name", "Filter.1.Value.1", names["debian13"])
	require.Len(t, found.Images, 1)
	c.Published["/aws/service/debian/release/13/latest/amd64"] = found.Images[0].ID

	d := newWorkstation(t, c, all)
	template, err := filepath.Abs(repository + "/examples/cluster")
	require.NoError(t, err)
	out, err := d.offer("build", "-var", "cluster=my-cluster", "-var", "ssh_interface=private_ip", "-var", "source_url="+c.mirror.URL(), "-var", "allow_http=true", template)
	require.NoError(t, err, out)

	found.Images = nil
	c.call("DescribeImages", &found, "Owner.1", "self")
	require.Len(t, found.Images, 1)
	image := found.Images[0]
	assert.Regexp(t, `^my-cluster-debian-[0-9]{14}$`, image.Name)
	tags := tagsOf(image.Tags)
	want := map[string]string{
		"eksnode:kubernetes-version": lifecycle.Kubernetes(), "eksnode:distro": "debian", "eksnode:base-image": names["debian13"], "eksnode:architecture": "amd64",
	}
	for _, id := range asset.IDs() {
		want["eksnode:asset:"+id] = lifecycle.Default(id)
	}
	assert.Equal(t, want, tags)
	assert.Contains(t, image.Description, "EKS node, Kubernetes 1.36.3, debian on amd64: cni-plugins ")
	assert.Equal(t, aws.Parameter{Value: image.ID, Type: "String", DataType: "aws:ec2:image", Version: 1}, c.Parameter(region, "/eksnode/my-cluster/debian"))
	for _, call := range c.Calls() {
		if call.Action == "RunInstances" {
			assert.Contains(t, call.Body, "SubnetId="+subnet.ID, "the builder machine must be in the cluster's network")
		}
	}
	assert.Empty(t, c.Refusals())
	assert.Zero(t, c.strays(), "a program connected to an address outside the lab")

	// An unknown version is refused, not guessed.
	c.Clusters["my-cluster"]["version"] = "1.99"
	out, err = d.offer("build", "-var", "cluster=my-cluster", template)
	require.Error(t, err)
	assert.Contains(t, flat(out), "1.99")
	assert.Equal(t, 1, c.Count()["ec2:RunInstances"])
}

type machines struct{ *machine.Lab }

func (l machines) Launch(ctx context.Context, launch aws.Launch) (aws.Machine, error) {
	data, err := instanceData(launch)
	if err != nil {
		return nil, err
	}
	config := machine.Config{
		Root: launch.Disk.Root, Image: launch.Disk.Image,
		InstanceID: launch.InstanceID, User: launch.User, UserData: data,
	}
	if launch.AuthorizedKey != "" {
		config.AuthorizedKeys = []string{launch.AuthorizedKey}
	}
	started, err := l.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	return started, nil
}

// instanceData returns the instance's user data after a part that sets the
// default user. A real AMI configures its default user itself, but all base
// systems of the tests are the same and need the user's name
// (https://cloudinit.readthedocs.io/en/22.4.2/topics/format.html).
func instanceData(launch aws.Launch) ([]byte, error) {
	var data bytes.Buffer
	parts := multipart.NewWriter(&data)
	fmt.Fprintf(&data, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n\n", parts.Boundary())
	write := func(contentType string, content []byte) error {
		part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {contentType}})
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	err := write("text/cloud-config", fmt.Appendf(nil, "#cloud-config\nuser: %s\n", launch.User))
	if err == nil && len(launch.UserData) > 0 {
		// cloud-init detects the type of a text/plain part by its content.
		err = write("text/plain", launch.UserData)
	}
	if err == nil {
		err = parts.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("writing the instance data: %w", err)
	}
	return data.Bytes(), nil
}

// checkNothingLeft looks for leftovers of a build that made no image.
func (c *cloud) checkNothingLeft() {
	c.t.Helper()
	count := c.Count()
	c.t.Logf("%d calls: %v", len(c.Calls()), count)
	assert.Equal(c.t, 1, count["ec2:RunInstances"], "packer ended before the machine was launched")
	assert.Zero(c.t, count["ec2:CreateImage"])
	assert.Equal(c.t, 1, count["ec2:DeleteKeyPair"])
	assert.Equal(c.t, 1, count["ec2:DeleteSecurityGroup"])
	assert.Empty(c.t, c.Inventory(region, abroad))
	assert.Empty(c.t, c.Refusals())
	assert.Zero(c.t, c.strays(), "a program connected to an address outside the lab")
}

// TestFailedBuildLeavesNothing pins a wrong checksum for the kubelet.
func TestFailedBuildLeavesNothing(t *testing.T) {
	all := build(t)
	c := newCloud(t, mirror.Options{})
	d := newWorkstation(t, c, all)
	pin := `checksums={"1.36.3/x86_64"={"kubelet"="` + strings.Repeat("0", 64) + `"}}`
	out, err := d.run("build", d.variables("-var", pin, "-only=amazon-ebs.al2023-x86_64-*")...)
	require.Error(t, err)
	assert.Contains(t, out, `but checksums["kubelet"] says 0000`)
	c.checkNothingLeft()
}

// TestInterruptedBuildLeavesNothing presses Ctrl-C during the download of the
// kubelet over a slow line.
func TestInterruptedBuildLeavesNothing(t *testing.T) {
	all := build(t)
	c := newCloud(t, mirror.Options{BytesPerSecond: 8 << 20})
	d := newWorkstation(t, c, all)
	var out bytes.Buffer
	command := d.command(append(append([]string{"build", "-only=amazon-ebs.al2023-x86_64-*"}, d.variables()...), d.template)...)
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	require.Eventually(t, func() bool {
		for _, request := range c.mirror.Requests() {
			if strings.HasSuffix(request.Path, "/kubelet") && request.Bytes > 0 {
				return true
			}
		}
		return len(ended) > 0
	}, limit, 100*time.Millisecond)
	require.Empty(t, ended, "packer ended before Ctrl-C")
	// Like a terminal, the test sends SIGINT to all processes of packer. The
	// started process would forward only SIGTERM.
	require.NoError(t, syscall.Kill(-command.Process.Pid, syscall.SIGINT))
	begin := time.Now()
	assert.Error(t, <-ended)
	t.Logf("packer ended %s after Ctrl-C and printed\n%s", time.Since(begin).Round(100*time.Millisecond), &out)
	c.checkNothingLeft()
}

const (
	region     = "us-east-1"
	abroad     = "eu-west-1" // regions of the copies
	mirrorPort = "8080"

	amazon    = "137112412989"
	arch      = "647457786197"
	debian    = "136693071363"
	canonical = "099720109477"
)

// limit bounds a test, so that a hang becomes a failure with a log. Programs are compiled
// before: without caches that takes longer.
const limit = 15 * time.Minute

// cloud is a lab with AWS in it.
type cloud struct {
	*aws.World
	t      *testing.T
	ctx    context.Context
	lab    *lab.Lab
	url    string         // address of AWS
	mirror *mirror.Server // address of the mirror for the node's programs
}

func newCloud(t *testing.T, line mirror.Options) *cloud {
	t.Helper()
	assets := lab.Assets(t)
	l := lab.Open(t, limit, machine.Nspawn)
	c := newAPI(t, l)
	c.Machines, c.Images = machines{l.Lab}, baseImages(l.Root)
	c.mirror = l.ServeMirror(t, l.Port(mirrorPort), assets.Folder, line)
	return c
}

func newAPI(t *testing.T, l *lab.Lab) *cloud {
	t.Helper()
	w := aws.New(t).Prompt("Packer's own builder decides what is repeated")
	w.Folder, w.Region = t.TempDir(), region
	// Loopback of the lab's namespace: the machines cannot reach it.
	listener, err := l.Listen(l.Ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: w}
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	go func() { _ = server.Serve(listener) }() // ErrServerClosed
	return &cloud{World: w, t: t, ctx: l.Ctx, lab: l, url: "http://" + listener.Addr().String()}
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
	out, err := c.lab.Command(c.ctx, "nstat", "-aszj", "IpOutNoRoutes", "Ip6OutNoRoutes").Output()
	require.NoError(c.t, err)
	found := testkit.JSON[struct{ Kernel map[string]int }](c.t, out).Kernel
	require.Len(c.t, found, 2, "%s", out)
	return found["IpOutNoRoutes"] + found["Ip6OutNoRoutes"]
}

// TestConnectionsOutOfTheLabAreCounted proves that strays counts connections.
// Without it, a broken counter would let every build pass.
func TestConnectionsOutOfTheLabAreCounted(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	c := &cloud{t: t, ctx: l.Ctx, lab: l}
	before := c.strays()
	for _, stray := range []string{"/dev/tcp/192.0.2.1/443", "/dev/udp/192.0.2.53/53", "/dev/tcp/2001:db8::1/443"} {
		var failed *exec.ExitError
		require.ErrorAs(t, l.Command(l.Ctx, "bash", "-c", "exec 3<>"+stray).Run(), &failed)
	}
	assert.Equal(t, before+3, c.strays())
}
