//go:build e2e

package ebs_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// processor is the processor of the test machines. The matrix's other cells are
// only validated.
const processor = "x86_64"

// TestBuild builds an image of each distribution of the example as a user does,
// with copies in another region under keys of their own. It publishes and
// launches the images, and looks for everything that should not be there. The
// caller has only the permissions of the example's policy.
func TestBuild(t *testing.T) {
	all := build(t)
	c := newCloud(t, mirror.Options{})
	d := newWorkstation(t, c, all)
	begin := time.Now()
	args := []string{
		"-var", `tags={"team"="nodes"}`, "-var", "publish_under=/eksnode", "-var", "kms_key_id=alias/home",
		"-var", `copies={"` + abroad + `"="arn:aws:kms:` + abroad + `:123456789012:alias/abroad"}`,
	}
	for name := range names {
		args = append(args, "-only=amazon-ebs."+name+"-"+processor+"-*")
	}
	d.mustRun("build", d.variables(args...)...)
	t.Logf("packer build: %s, %d calls: %v", time.Since(begin).Round(time.Second), len(c.Calls()), c.Count())
	assert.Empty(t, c.Refusals())
	assert.Zero(t, c.strays(), "a program connected to an address outside the lab")
	checkPolicy(t, c.Count())

	images, copies := c.images(region), c.images(abroad)
	require.Len(t, images, len(names))
	require.Len(t, copies, len(names))
	left := c.Inventory(region, abroad)
	require.Len(t, left, 4*len(names), "images and copies with their snapshots: %q", left)
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			c.checkImage(t, region, name, "alias/home", image)
			c.checkImage(t, abroad, name, "arn:aws:kms:"+abroad+":123456789012:alias/abroad", copies[name])
			c.checkPublished(t, name, map[string]string{region: image.ID, abroad: copies[name].ID})
			checkReports(t, d.reports(), name+"-"+processor+"-1.36.3")
			audit(t, c, image.ID)
		})
	}
	// All images are of the same system: the nodes of one image are enough.
	t.Run("nodes", func(t *testing.T) { checkNodes(t, c, images["ubuntu2404"], "ubuntu") })
	assert.Empty(t, c.Refusals())
}

func (c *cloud) images(region string) map[string]aws.Image {
	c.t.Helper()
	var found struct {
		Images []aws.Image `xml:"imagesSet>item"`
	}
	c.callIn(region, "DescribeImages", &found, "Owner.1", "self")
	byName := map[string]aws.Image{}
	for _, image := range found.Images {
		for name := range names {
			if matched, err := filepath.Match("eksnode-"+name+"-"+processor+"-1.36.3-*", image.Name); err == nil && matched {
				byName[name] = image
			}
		}
	}
	return byName
}

func (c *cloud) checkImage(t *testing.T, region, name, key string, image aws.Image) {
	t.Helper()
	assert.Equal(t, "EKS node, Kubernetes 1.36.3, "+name, image.Description)
	assert.Equal(t, "v2.0", image.IMDS)
	assert.False(t, image.Public)
	deprecated, err := time.Parse(time.RFC3339, image.Deprecated)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now().AddDate(0, 0, 180), deprecated, 25*time.Hour)
	require.Len(t, image.Devices, 1)
	assert.True(t, image.Devices[0].Encrypted)
	assert.Equal(t, "gp3", image.Devices[0].Type)
	assert.Equal(t, 8, image.Devices[0].Size)

	var found struct {
		Snapshots []aws.Snapshot `xml:"snapshotSet>item"`
	}
	c.callIn(region, "DescribeSnapshots", &found, "SnapshotId.1", image.Devices[0].Snapshot)
	require.Len(t, found.Snapshots, 1)
	assert.Equal(t, key, found.Snapshots[0].KMSKey)
	want := map[string]string{
		"team": "nodes", "eksnode:kubernetes-version": "1.36.3", "eksnode:distro": name, "eksnode:processor": processor,
		"eksnode:base-image": names[name],
	}
	assert.Equal(t, want, tagsOf(image.Tags))
	want["eksnode:image"] = image.Name
	assert.Equal(t, want, tagsOf(found.Snapshots[0].Tags))
}

func tagsOf(tags []aws.Tag) map[string]string {
	values := map[string]string{}
	for _, tag := range tags {
		values[tag.Key] = tag.Value
	}
	return values
}

// checkPublished looks for an image's id in the parameters of each region.
func (c *cloud) checkPublished(t *testing.T, name string, ids map[string]string) {
	t.Helper()
	for region, id := range ids {
		assert.Equal(t, aws.Parameter{Value: id, Type: "String", DataType: "aws:ec2:image", Version: 1}, c.Parameter(region, "/eksnode/"+name+"/1.36/"+processor))
		assert.Equal(t, len(names), strings.Count(string(c.DoIn(region, "ssm:DescribeParameters", "{}")), `"Name"`))
	}
}

// onFailure lists the policy's actions that are needed only by a failing build,
// or by settings that are not tested here.
var onFailure = []string{"ec2:DeleteVolume", "ec2:DescribeSubnets", "ec2:DescribeVpcs", "ec2:ModifyInstanceAttribute"}

// checkPolicy compares the calls of the build with the example's policy.
func checkPolicy(t *testing.T, calls map[string]int) {
	t.Helper()
	policy := testkit.JSON[struct {
		Statement []struct {
			Sid    string
			Action []string
		}
	}](t, testkit.Content(t, filepath.Join(example, "policy.json")))
	var granted []string
	for _, s := range policy.Statement {
		if s.Sid != "Keys" { // EC2 calls KMS in the caller's name
			granted = append(granted, s.Action...)
		}
	}
	delete(calls, "sts:GetCallerIdentity") // this call needs no permission
	assert.ElementsMatch(t, slices.Concat(slices.Collect(maps.Keys(calls)), onFailure), granted)
}

// checkReports looks for the reports of both provisioners on the Packer host.
func checkReports(t *testing.T, folder, source string) {
	t.Helper()
	for _, step := range []string{"provision", "scrub"} {
		text := testkit.Content(t, filepath.Join(folder, source+"-"+step+".json"))
		assert.True(t, json.Valid([]byte(text)), text)
	}
}

// repository is the project's folder. example is the folder of the template.
const (
	repository = "../.."
	example    = repository + "/examples/amazon-ebs"
)

// programs are the programs that a user has installed. Without a plugin, packer has only that
// of Amazon.
type programs struct {
	packer, amazon, plugin string
}

// build gets the tools, and builds the plugin.
func build(t *testing.T) programs {
	t.Helper()
	return installed(t, lab.Built(t, "bin/packer-plugin-eksnode"))
}

// installed gets the tools.
func installed(t *testing.T, plugin string) programs {
	t.Helper()
	packer, err := tools.Packer(t.Context(), "", t.Output())
	require.NoError(t, err)
	amazon, err := tools.Build(t.Context(), tools.NamePackerAmazon, "", runtime.GOARCH, t.Output())
	require.NoError(t, err)
	return programs{packer, amazon, plugin}
}

// workstation is a user's workstation: a home folder of its own, with AWS's
// settings in the environment, where any AWS client reads them. The example
// itself does not know that there is no AWS. AWS_ENDPOINT_URL redirects every
// call, also the calls that the builder's custom_endpoint_ec2 would not
// redirect.
type workstation struct {
	*cloud
	programs
	home     string
	template string // the example's folder
}

func newWorkstation(t *testing.T, c *cloud, all programs) *workstation {
	t.Helper()
	template, err := filepath.Abs(example)
	require.NoError(t, err)
	d := &workstation{cloud: c, programs: all, home: t.TempDir(), template: template}
	for source, plugin := range map[string]string{"github.com/hashicorp/amazon": d.amazon, "github.com/eksnode/eksnode": d.plugin} {
		if plugin == "" {
			continue
		}
		out, err := d.offer("plugins", "install", "--path", plugin, source)
		require.NoError(t, err, out)
	}
	return d
}

// mustRun runs a packer command on the example that must succeed.
func (d *workstation) mustRun(what string, args ...string) {
	d.t.Helper()
	out, err := d.run(what, args...)
	require.NoError(d.t, err, out)
}

// run runs a packer command on the example and returns its output.
func (d *workstation) run(what string, args ...string) (string, error) {
	return d.offer(append(append([]string{what}, args...), d.template)...)
}

// offer runs packer and returns its output.
func (d *workstation) offer(args ...string) (string, error) {
	var out bytes.Buffer
	command := d.command(args...)
	command.Stdout = io.MultiWriter(&out, d.t.Output())
	command.Stderr = command.Stdout
	err := command.Run()
	return out.String(), err
}

// command prepares packer in the lab's network.
func (d *workstation) command(args ...string) *exec.Cmd {
	command := d.lab.Command(d.ctx, d.packer, args...)
	command.Dir = d.home
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + d.home, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1",
		"PACKER_CONFIG_DIR=" + filepath.Join(d.home, "config"), "PACKER_PLUGIN_PATH=" + filepath.Join(d.home, "plugins"),
		"AWS_ENDPOINT_URL=" + d.url, "AWS_ACCESS_KEY_ID=" + aws.AccessKey, "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_POLL_DELAY_SECONDS=1",
	}
	return command
}

// variables are the test's values of the example's variables: the mirror, and no public
// addresses.
func (d *workstation) variables(more ...string) []string {
	return append([]string{
		"-var", "source_url=" + d.mirror.URL(), "-var", "allow_http=true",
		"-var", "ssh_interface=private_ip",
		"-var", "reports=" + d.reports(),
	}, more...)
}

func (d *workstation) reports() string { return filepath.Join(d.home, "reports") }
