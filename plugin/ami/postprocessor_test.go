package ami

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	registryimage "github.com/hashicorp/packer-plugin-sdk/packer/registry/image"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

type fields = map[string]any

// The data of the builder reaches templates before the import: as a placeholder when the
// template is loaded, and from the artifact afterwards.
func TestTemplatesUseTheDataOfTheBuild(t *testing.T) {
	var p PostProcessor
	placeholders := map[string]string{"PackerRunUUID": "Build_PackerRunUUID. To set this dynamically in the Packer template, you must use the `build` function", "ID": "Build_ID. To set this dynamically in the Packer template, you must use the `build` function"}
	require.NoError(t, p.Configure(fields{
		"ami_name": "node-{{ build `ID` }}-{{ clean_resource_name \"a:b\" }}", "ami_description": "{{ .BuildName }} by {{ build_type }}",
		"tags": fields{"{{ .ID }}": "{{ .ID }}"}, "packer_build_name": "logs", "packer_builder_type": "qemu", "skip_rules": []string{"{{ build_name }}"},
	}, placeholders))
	c, err := p.Config.rendered(texts(map[any]any{"ID": "42", "Number": 1}))
	require.NoError(t, err)
	assert.Equal(t, "node-42-a-b", c.Name)
	assert.Equal(t, "logs by qemu", c.Description)
	assert.Equal(t, map[string]string{"42": "42"}, c.Tags)
	assert.Equal(t, []string{"logs"}, c.SkipRules)
	_, err = p.Config.rendered(nil)
	require.ErrorContains(t, err, "tags: \"{{ .ID }}\" refers to a value that does not exist; known: BuildName, BuilderType")
}

type artifact struct {
	builder string
	files   []string
	state   map[string]any
}

func (a artifact) BuilderId() string     { return a.builder }
func (a artifact) Files() []string       { return a.files }
func (a artifact) Id() string            { return "VM" }
func (a artifact) String() string        { return "VM" }
func (a artifact) State(name string) any { return a.state[name] }
func (a artifact) Destroy() error        { return nil }

// folder makes a folder with files of builders. Names with disk have a partition table.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	in := t.TempDir()
	for _, name := range names {
		content := strings.Repeat("x", 64<<10)
		switch filepath.Ext(name) {
		case ".vmdk":
			content = "KDMV" + content
		case ".gz":
			content = "\x1f\x8b" + content
		}
		require.NoError(t, os.WriteFile(filepath.Join(in, name), []byte(content), 0o600))
		if strings.Contains(name, "disk") && !strings.Contains(name, ".") {
			require.NoError(t, os.Truncate(filepath.Join(in, name), 8<<20))
			cmd := exec.Command("sfdisk", "-q", filepath.Join(in, name))
			cmd.Stdin = strings.NewReader("label: gpt\nstart=2048, size=4096\n")
			testkit.Output(t, cmd)
		}
	}
	return in
}

func TestTheDiskIsFoundAmongTheFiles(t *testing.T) {
	for name, c := range map[string]struct {
		builder string
		files   string
		state   string // files of diskPaths
		want    string // file, or error
	}{
		"qemu":                    {"transcend.qemu", "efivars.fd disk", "disk", "disk"},
		"qemu without a state":    {"transcend.qemu", "disk efivars.fd", "", "disk"},
		"qemu with an empty disk": {"transcend.qemu", "disk disk-1.raw efivars.fd", "disk disk-1.raw", "disk"},
		"qemu with two disks":     {"transcend.qemu", "disk disk-1", "disk disk-1", "the artifact has several disk images, but an AMI of eksnode-ami has one: disk, disk-1; set disk to the path of the disk with the root file system"},
		"file":                    {"packer.file", "anything", "", "anything"},
		"artifice":                {"packer.post-processor.artifice", "disk SHA256SUMS", "", "disk"},
		"several":                 {"packer.post-processor.artifice", "disk1 disk2", "", "the artifact has several disk images"},
		"compress":                {"packer.post-processor.compress", "disk.gz", "", "disk.gz"},
		"null":                    {"fnoeding.null", "", "", "the artifact of fnoeding.null has no files, so it has no disk image; set disk, or use a builder that writes a disk image, such as qemu"},
		"googlecompute":           {"packer.googlecompute", "", "", "the artifact of packer.googlecompute has no files"},
		"virtualbox": {"mitchellh.virtualbox", "box.ovf box.vmdk", "",
			"no file of the artifact of mitchellh.virtualbox is a disk image; set disk to the path of one:\nbox.ovf has no partitions and no file system\nopening the disk image box.vmdk: the format VMDK is not supported; convert the image: qemu-img convert -f vmdk -O raw box.vmdk box.raw"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(folder(t, strings.Fields(c.files)...))
			a := artifact{builder: c.builder, files: strings.Fields(c.files), state: map[string]any{}}
			var paths []any // as RPC sends them
			for i, path := range strings.Fields(c.state) {
				if paths = append(paths, path); i > 0 {
					paths[i] = []byte(path)
				}
			}
			a.state["diskPaths"] = paths
			got, err := diskOf(a)
			if err != nil {
				got = err.Error()
			}
			assert.Contains(t, got, c.want)
			assert.Equal(t, strings.Contains(c.want, " "), err != nil)
		})
	}
	many := artifact{builder: "x", files: make([]string, filesMost+1)}
	_, err := diskOf(many)
	require.EqualError(t, err, "the artifact of x has 101 files; set disk to the path of the disk image")
}

func TestAFailureKeepsTheInput(t *testing.T) {
	var p PostProcessor
	require.NoError(t, p.Configure(fields{"ami_name": "node"}))
	input := artifact{builder: "packer.file", files: []string{"/no/such/disk"}}
	out, keep, force, err := p.PostProcess(context.Background(), packersdk.TestUi(t), input)
	require.EqualError(t, err, "opening the disk image /no/such/disk: no such file or directory")
	assert.Equal(t, packersdk.Artifact(input), out)
	assert.True(t, keep)
	assert.False(t, force)
}

func TestTheArtifactHasTheFormOfAmazonEBS(t *testing.T) {
	a := &Artifact{source: "disk.raw", generated: map[string]any{"ID": "1"}, images: []awsapi.Image{
		{Region: "us-east-1", ID: "ami-2", Name: "node", Architecture: "arm64", BootMode: "uefi", Snapshots: []string{"snap-2"}},
		{Region: "eu-west-1", ID: "ami-1", Name: "node", Architecture: "arm64", BootMode: "uefi", Snapshots: []string{"snap-1"}},
	}}
	assert.Equal(t, "eu-west-1:ami-1,us-east-1:ami-2", a.Id())
	assert.Equal(t, "AMIs were created:\neu-west-1: ami-1\nus-east-1: ami-2\n", a.String())
	assert.Equal(t, "packer.post-processor.eksnode-ami", a.BuilderId())
	assert.Empty(t, a.Files())
	assert.Equal(t, map[string]any{"ID": "1"}, a.State("generated_data"))
	assert.Nil(t, a.State("other"))
	images := a.State(registryimage.ArtifactStateURI).([]*registryimage.Image)
	require.Len(t, images, 2)
	assert.Equal(t, &registryimage.Image{
		ProviderName: "aws", ProviderRegion: "us-east-1", ImageID: "ami-2", SourceImageID: "disk.raw",
		Labels: map[string]string{"name": "node", "architecture": "arm64", "boot_mode": "uefi", "snapshot": "snap-2"},
	}, images[0])
	require.NoError(t, images[0].Validate())
}
