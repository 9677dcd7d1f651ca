//go:build linux

package publish

import (
	"bytes"
	"io"
	"os"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

var _ packersdk.PostProcessor = new(PostProcessor)

// All tests run where nothing but loopback can be reached.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

type artifact string

func (a artifact) BuilderId() string { return "mitchellh.amazonebs" }
func (a artifact) Files() []string   { return nil }
func (a artifact) Id() string        { return string(a) }
func (a artifact) String() string    { return string(a) }
func (a artifact) State(string) any  { return nil }
func (a artifact) Destroy() error    { return nil }

func TestPublish(t *testing.T) {
	for name, c := range map[string]struct {
		artifact artifact
		change   func(*aws.World)
		want     string // an error; empty: published
	}{
		"one region":    {"eu-west-1:ami-0123456789abcdef0", func(*aws.World) {}, ""},
		"two regions":   {"eu-west-1:ami-0123456789abcdef0,eu-north-1:ami-22222222", func(*aws.World) {}, ""},
		"not there yet": {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Fail("ec2:DescribeImages", 1, "InvalidAMIID.NotFound", 400) }, ""},
		"being made":    {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Images[3].State = "pending" }, "in eu-west-1: publishing the image ami-0123456789abcdef0: it is pending"},
		"denied":        {"eu-west-1:ami-0123456789abcdef0", func(w *aws.World) { w.Deny("ssm:PutParameter") }, "in eu-west-1: putting ami-0123456789abcdef0 into the parameter /nodes/1.34: the permission ssm:PutParameter is missing"},
		"no image":      {"/tmp/disk.raw", func(*aws.World) {}, `reading the artifact "/tmp/disk.raw": it is no image of the amazon plugin`},
	} {
		t.Run(name, func(t *testing.T) {
			w := aws.Sample()
			w.Serve(t)
			c.change(w)
			var p PostProcessor
			require.NoError(t, p.Configure(map[string]any{"parameter": "/nodes/1.34"}))
			var said bytes.Buffer
			ui := &packersdk.BasicUi{Reader: new(bytes.Buffer), Writer: &said, ErrorWriter: io.Discard}
			kept, keep, _, err := p.PostProcess(t.Context(), ui, c.artifact)
			assert.Equal(t, c.artifact, kept)
			assert.True(t, keep)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "aws:ec2:image", w.DataTypes["/nodes/1.34"])
			assert.Contains(t, c.artifact, w.Parameters["/nodes/1.34"])
			assert.Contains(t, said.String(), "/nodes/1.34 in eu-west-1 is ami-0123456789abcdef0\n")
		})
	}
}

func TestConfigure(t *testing.T) {
	var p PostProcessor
	require.ErrorContains(t, p.Configure(map[string]any{"region": "x"}), "* parameter: the SSM parameter's name is missing\n* region: the image's regions are taken; leave it out")
	require.ErrorContains(t, p.Configure(map[string]any{"parameter": "a b"}), `* parameter: "a b" is no parameter's name such as /eksnode/debian/1.34/amd64`)
	require.NoError(t, p.Configure(map[string]any{"parameter": "<unknown>"}))
}
