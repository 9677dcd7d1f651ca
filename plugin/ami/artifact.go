package ami

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	registryimage "github.com/hashicorp/packer-plugin-sdk/packer/registry/image"

	"github.com/eksnode/packer-plugin-eksnode/internal/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

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
	var all []string
	for _, i := range a.images {
		all = append(all, i.Region+colon+i.ID)
	}
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
				"name": i.Name, "architecture": i.Architecture, "boot_mode": i.BootMode, "snapshot": strings.Join(i.Snapshots, ","),
			}
			all = append(all, &registryimage.Image{ProviderName: "aws", ProviderRegion: i.Region, ImageID: i.ID, SourceImageID: a.source, Labels: labels})
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
