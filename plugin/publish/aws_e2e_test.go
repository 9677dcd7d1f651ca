//go:build e2e && linux

package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

const two = "eu-north-1:ami-22222222,eu-west-1:ami-0123456789abcdef0"

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(aws.Alone(m.Run))
}

func quick(t *testing.T) context.Context { return awsapi.WithPauses(t.Context(), time.Millisecond) }

// imported makes an AMI of a disk with a manifest and a file, and a copy of the AMI.
func imported(t *testing.T, file string) artifact {
	t.Helper()
	disk := testkit.DiskOf(t, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/machine-id": "", file: "a text\n",
		"etc/eks/eksnode/manifest.json": `{"schema": "eksnode.image/v1", "distro": "debian", "arch": "amd64",
			"kubernetes_version": "1.34.4"}`,
	}, 64, "-O", "^has_journal")
	r, err := amiimport.Import{
		Spec: amiimport.Spec{Name: "node", Audit: "off", Architecture: "x86_64", BootMode: "legacy-bios",
			Regions: []string{"eu-north-1"}},
		Disk: disk, Folder: t.TempDir(), Say: t.Logf,
		Open: func(ctx context.Context) (*awsapi.AWS, error) { return awsapi.Open(ctx, awsapi.Options{}) },
	}.Run(quick(t))
	require.NoError(t, err)
	return artifact("eu-north-1:" + r.Copies[0].ID + ",eu-west-1:" + r.Image.ID)
}

// Nothing is published before its disk was audited and its statement signed.
func TestPublishSignsAStatement(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		change func(*aws.World)
		want   string
	}{
		"clean": {file: "srv/a"},
		"findings": {file: "etc/ssh/ssh_host_rsa_key",
			want: "the audit of the disk found what an image must not have"},
		"another AMI": {"srv/a", func(w *aws.World) { w.Images[1].Source = "" }, "is no copy of ami-"},
		"no right to attach": {"srv/a", func(w *aws.World) { w.Deny("ec2:AttachImageWatermark") },
			"the permission ec2:AttachImageWatermark is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := aws.NewWithEBS(t)
			w.Prompt("the disk is what matters")
			made, folder := imported(t, c.file), t.TempDir()
			if c.change != nil {
				c.change(w)
			}
			testkit.Run(t, "sh", "-ec", `cd "$1"; openssl genpkey -quiet -algorithm ed25519 -out key.pem
printf 'source "amazon-ebs" "a" {\n  ssh_password = "hunter2-zebra"\n  region = "eu-west-1"\n}\n' > node.pkr.hcl`, "sh", folder)
			var p PostProcessor
			require.NoError(t, p.Configure(map[string]any{
				"parameter": "/nodes/1.34", "statement": folder + "/s.jsonl", "statement_key": folder + "/key.pem",
				"watermark": "eksnode/audited", "templates": []string{folder + "/node.pkr.hcl"}, "cache_folder": folder + "/cache",
				"skip_rules": []string{"not-a-node", "can-join", "changed-files", "assets", "units"},
			}))
			ui := &packersdk.BasicUi{Reader: new(bytes.Buffer), Writer: io.Discard, ErrorWriter: io.Discard}
			_, keep, _, err := p.PostProcess(quick(t), ui, made)
			assert.True(t, keep)
			disks, _ := filepath.Glob(folder + "/cache/snapshots/*")
			assert.Empty(t, disks)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				assert.Empty(t, slices.Concat(w.Images[0].Watermarks, w.Images[1].Watermarks))
				assert.Empty(t, w.Parameter(aws.Region, "/nodes/1.34"))
				return
			}
			require.NoError(t, err)
			text := []byte(testkit.Content(t, folder+"/s.jsonl"))
			key, err := attest.Open(t.Context(), folder+"/key.pem", nil)
			require.NoError(t, err)
			s, err := attest.Verify(t.Context(), text, key)
			require.NoError(t, err)
			assert.Equal(t, attest.Passed, s.Result)
			for _, i := range w.Images {
				assert.Contains(t, s.Names, i.Region+":"+i.ID)
				assert.Contains(t, s.Names, i.Region+":"+i.Devices[0].Snapshot)
				assert.Len(t, i.Watermarks, 1)
				assert.Equal(t, i.ID, w.Parameter(i.Region, "/nodes/1.34").Value)
			}
			first, _, _ := bytes.Cut(text, []byte("\n"))
			var envelope struct{ Payload []byte }
			require.NoError(t, json.Unmarshal(first, &envelope))
			assert.Contains(t, string(envelope.Payload), `region = \"eu-west-1\"`)
			assert.NotContains(t, string(envelope.Payload), "zebra")
		})
	}
}

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
			kept, keep, _, err := p.PostProcess(quick(t), ui, c.artifact)
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
