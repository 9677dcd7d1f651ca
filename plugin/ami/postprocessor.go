// Package ami is the Packer post-processor `eksnode-ami`: it makes an AMI of a disk
// image, such as that of the builder qemu, without an instance.
package ami

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	registryimage "github.com/hashicorp/packer-plugin-sdk/packer/registry/image"
	"github.com/hashicorp/packer-plugin-sdk/template/config"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"
	"github.com/mitchellh/mapstructure"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/disk"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// PostProcessor implements packersdk.PostProcessor.
type PostProcessor struct{ validate.Block[Config] }

// Configure decodes and checks the fields, and joins all problems.
func (p *PostProcessor) Configure(raws ...any) error {
	templates := interpolate.Context{Funcs: functions(), Data: struct{}{}}
	placeholders, raws := config.DetectContextData(raws...)
	var decoded mapstructure.Metadata
	err := p.Decode(&config.DecodeOpts{
		PluginType: "eksnode-ami", Interpolate: true, InterpolateContext: &templates, Metadata: &decoded,
		InterpolateFilter: &interpolate.RenderFilter{Exclude: withData()},
	}, raws...)
	if err != nil {
		return err
	}
	p.Config.ctx = templates // Decode resets the config
	paths := access.Home(&p.Config.Signing)
	checked, err := p.Config.rendered(texts(placeholders))
	return validate.All(err, paths, checked.check(decoded.Keys))
}

// check returns the faults of the fields, joined. Keys are the fields that the template
// sets.
func (c *Config) check(keys []string) error {
	known := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.Name) {
		known.Name = "unknown"
	}
	// Each of the two needs the other.
	if validate.IsUnknown(c.Statement) {
		known.Statement = "unknown"
	}
	if validate.IsUnknown(c.StatementKey) {
		known.StatementKey = "unknown"
	}
	// An unknown boolean is false here, and an unknown list is empty.
	if slices.Contains(keys, "encrypt_boot") {
		known.Encrypt = known.Encrypt || known.KMSKey != ""
	}
	if slices.Contains(keys, "force_deregister") {
		known.ForceDeregister = known.ForceDeregister || known.ForceDeleteSnapshot
	}
	if slices.Contains(keys, "ami_regions") && len(known.Regions) < max(1, len(c.Regions)) {
		known.RegionKeys = nil
	}
	path := c.Disk
	return errors.Join(known.Validate(), validate.Home("disk", &path), c.Config.Prepare(), c.checkRoot())
}

// PostProcess implements packersdk.PostProcessor. It makes an AMI of the artifact's
// disk image, and keeps the artifact unless keep_input_artifact is false.
func (p *PostProcessor) PostProcess(ctx context.Context, ui packersdk.Ui,
	input packersdk.Artifact) (packersdk.Artifact, bool, bool, error) {
	made, err := p.process(ctx, ui, input)
	if err != nil {
		if len(input.Files()) > 0 {
			ui.Say("Packer deletes the files of an artifact after a failure, unless another post-processor of the " +
				"build, such as manifest, keeps them")
		}
		return input, true, false, err
	}
	return made, true, false, nil
}

func (p *PostProcessor) process(ctx context.Context, ui packersdk.Ui, input packersdk.Artifact) (*Artifact, error) {
	generated := input.State("generated_data")
	c, err := p.Config.rendered(texts(generated))
	if err == nil {
		err = validate.Home("disk", &c.Disk)
	}
	if err == nil && c.Disk == "" {
		c.Disk, err = diskOf(input)
		c.takeParent(input)
	}
	if err != nil {
		return nil, err
	}
	c.ForceDeregister = c.ForceDeregister || c.PackerForce // as amazon-ebs does
	ui.Say("Importing the disk image " + c.Disk)
	meter := access.NewMeter(ui)
	r, err := amiimport.Import{
		Spec: c.Spec, Disk: c.Disk, Open: func(ctx context.Context) (*awsapi.AWS, error) { return c.Config.Open(ctx) },
		Say: meter.Line, Progress: meter.Blocks,
	}.Run(ctx)
	if r.Audit != nil {
		remote.PrintAudit(ui, r.Audit)
	}
	if err != nil {
		return nil, err
	}
	meter.Line("The snapshot is %s: %s of %s sent", r.Upload.Snapshot.ID, show.Size(snapshot.Bytes(r.Upload.Sent)),
		show.Size(snapshot.Bytes(r.Disk.Blocks)))
	return &Artifact{
		images: append([]awsapi.Image{r.Image}, r.Copies...), source: cmp.Or(c.ParentAMI,
			filepath.Base(c.Disk)), generated: generated, access: c.Config,
	}, nil
}

// takeParent makes the base image of the builder eksnode-disk the parent, so that only
// changed blocks travel, unless the template names one, or the region is another.
func (c *Config) takeParent(input packersdk.Artifact) {
	text, _ := input.State(disk.StateParent).(string)
	from, err := snapshot.ParseNamed(text)
	if err != nil || text == "" || c.ParentAMI != "" || c.ParentSnapshot != "" || c.Region != "" &&
		c.Region != from.Region {
		return
	}
	c.Region = from.Region
	if from.IsSnapshot() {
		c.ParentSnapshot = from.ID
	} else {
		c.ParentAMI = from.ID
	}
}

// builderID identifies the artifacts of this post-processor. Post-processors for AMIs
// read the ID of an artifact, which has the form of the amazon plugin's.
const builderID = "packer.post-processor.eksnode-ami"

// destroyMost is how long the removal of an artifact's AMIs may take.
const destroyMost = 3 * awsapi.Patience

// Artifact is an AMI and its copies. It implements packersdk.Artifact.
type Artifact struct {
	images []awsapi.Image
	// source is the parent AMI, or the name of the disk image.
	source string
	// generated is the data of the builder, for later post-processors.
	generated any
	access    access.Config
}

// BuilderId implements packersdk.Artifact.
func (*Artifact) BuilderId() string { return builderID }

// Files implements packersdk.Artifact. AMIs have no files.
func (*Artifact) Files() []string { return nil }

// Id is "REGION:AMI,REGION:AMI", as for the amazon plugin.
func (a *Artifact) Id() string { return a.list(":", ",") }

// String lists the AMIs for a person.
func (a *Artifact) String() string { return "AMIs were created:\n" + a.list(": ", "\n") + "\n" }

func (a *Artifact) list(colon, separator string) string {
	all := show.Each(a.images, func(i awsapi.Image) string { return i.Region + colon + i.ID })
	slices.Sort(all)
	return strings.Join(all, separator)
}

// State returns the AMIs for HCP Packer, or the data of the builder.
func (a *Artifact) State(name string) any {
	switch name {
	case "generated_data":
		return a.generated
	case registryimage.ArtifactStateURI:
		var all []*registryimage.Image
		for _, i := range a.images {
			labels := map[string]string{
				"name": i.Name, "architecture": i.Architecture, "boot_mode": i.BootMode,
				"snapshot": strings.Join(i.Snapshots, ","),
			}
			all = append(all, &registryimage.Image{ProviderName: "aws", ProviderRegion: i.Region, ImageID: i.ID,
				SourceImageID: a.source, Labels: labels})
		}
		return all
	}
	return nil
}

// Destroy deregisters the AMIs and deletes their snapshots.
func (a *Artifact) Destroy() error {
	ctx, cancel := context.WithTimeout(context.Background(), destroyMost)
	defer cancel()
	var errs []error
	for _, i := range a.images {
		in := a.access
		in.Region = i.Region
		opened, err := in.Open(ctx)
		if err == nil {
			err = amiimport.Remove(ctx, opened, i)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("in %s: %w", i.Region, err))
		}
	}
	return errors.Join(errs...)
}

// checkRoot returns an error at the start of `packer build` if this user cannot audit
// the disk, so that the build does not fail after the machine was built.
func (c *Config) checkRoot() error {
	if os.Geteuid() == 0 || c.Audit == string(scrub.AuditOff) || validate.IsUnknown(c.Audit) || !building() {
		return nil
	}
	return fmt.Errorf(`audit: %w; with audit = "off", the disk is uploaded without an audit`, diskaudit.ErrNeedsRoot)
}

// building says whether Packer runs `packer build`. Packer tells its plugins nothing
// about its subcommand, and `packer validate` needs no root. If the command of the
// parent process cannot be read, the error comes before the upload.
func building() bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	first := slices.IndexFunc(args[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	return first >= 0 && args[1:][first] == "build"
}
