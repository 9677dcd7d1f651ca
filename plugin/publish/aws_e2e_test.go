//go:build e2e && linux

package publish

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

const two = "eu-north-1:ami-22222222,eu-west-1:ami-0123456789abcdef0"

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

type artifact string

func (a artifact) BuilderId() string { return "mitchellh.amazonebs" }
func (a artifact) Files() []string   { return nil }
func (a artifact) Id() string        { return string(a) }
func (a artifact) String() string    { return string(a) }
func (a artifact) State(string) any  { return nil }
func (a artifact) Destroy() error    { return nil }

func TestPublishSetsTheParameters(t *testing.T) {
	home := map[string]string{aws.Region: aws.NodeImage}
	for name, c := range map[string]struct {
		artifact artifact
		change   func(*aws.World)
		want     string // error; empty if published
		images   map[string]string
	}{
		"one region":      {"eu-west-1:ami-0123456789abcdef0", func(*aws.World) {}, "", home},
		"two regions":     {"eu-west-1:ami-0123456789abcdef0,eu-north-1:ami-22222222", func(*aws.World) {}, "", map[string]string{aws.Region: aws.NodeImage, "eu-north-1": aws.Debian}},
		"not visible yet": {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Fail("ec2:DescribeImages", 1, "InvalidAMIID.NotFound", 400) }, "", home},
		"pending":         {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Image(aws.NodeImage).State = "pending" }, "in eu-west-1: publishing the image ami-0123456789abcdef0: the image is pending", nil},
		"denied":          {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Deny("ssm:PutParameter") }, "in eu-west-1: putting ami-0123456789abcdef0 into the parameter /nodes/1.34: the permission ssm:PutParameter is missing", nil},
		"a denied region": {two, func(w *aws.World) { w.Deny("eu-north-1") },
			"in eu-north-1: describing the image ami-22222222: the permission ec2:DescribeImages is missing", home},
		"an unreachable region": {two, func(w *aws.World) { w.CutRegion("eu-north-1") }, "in eu-north-1: describing the image ami-22222222: ", home},
		"another region's AMI":  {two, func(w *aws.World) { w.Image(aws.Debian).Region = "us-east-1" }, "in eu-north-1: describing the image ami-22222222: InvalidAMIID.NotFound", home},
		"no region":             {"ami-0123456789abcdef0", func(*aws.World) {}, `reading the artifact "ami-0123456789abcdef0": it is no image of the amazon plugin`, nil},
		"a short ID":            {"eu-west-1:ami-1", func(*aws.World) {}, `reading the artifact "eu-west-1:ami-1": it is no image of the amazon plugin`, nil},
		"not an AMI":            {"/tmp/disk.raw", func(*aws.World) {}, `reading the artifact "/tmp/disk.raw": it is no image of the amazon plugin`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := aws.Sample(t).Prompt("each call has one attempt")
			w.Serve()
			t.Setenv("AWS_MAX_ATTEMPTS", "1")
			c.change(w)
			var p PostProcessor
			require.NoError(t, p.Configure(map[string]any{"parameter": "/nodes/1.34"}))
			var said bytes.Buffer
			ui := &packersdk.BasicUi{Reader: new(bytes.Buffer), Writer: &said, ErrorWriter: io.Discard}
			kept, keep, _, err := p.PostProcess(t.Context(), ui, c.artifact)
			assert.Equal(t, c.artifact, kept)
			assert.True(t, keep)
			w.Heal()
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
			} else {
				require.NoError(t, err)
			}
			for region, image := range c.images {
				assert.Equal(t, aws.Parameter{Value: image, Type: "String", DataType: "aws:ec2:image", Version: 1}, w.Parameter(region, "/nodes/1.34"))
			}
			assert.Equal(t, c.images != nil, strings.Contains(said.String(), "/nodes/1.34 in eu-west-1 is ami-0123456789abcdef0\n"))
		})
	}
}
