package awsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Recipe says how to register an image again after its deregistration.
type Recipe struct {
	Region string `json:"region"`
	// Image is the ID before the deregistration. The next one has another ID, Restored.
	Image    string `json:"image"`
	Restored string `json:"restored,omitempty"`
	// Earlier are the IDs before that.
	Earlier   []string `json:"earlier,omitempty"`
	Snapshots []string `json:"snapshots"`
	// EarlierSnapshots are those of images that interrupted imports have replaced before.
	EarlierSnapshots []string `json:"earlier_snapshots,omitempty"`
	// Register is an input of `aws ec2 register-image --cli-input-json`.
	Register json.RawMessage `json:"register"`
	// Permissions are the launch permissions. The snapshots keep their own.
	Permissions []types.LaunchPermission `json:"permissions"`
	Deprecated  time.Time                `json:"deprecated,omitzero"`
}

// Recipe reads how to register an image again.
func (a *AWS) Recipe(ctx context.Context, id string) (Recipe, error) {
	doing := "reading how to register the image " + id + " again"
	out, err := a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id},
		IncludeDeprecated: aws.Bool(true), IncludeDisabled: aws.Bool(true)})
	if err != nil {
		return Recipe{}, explain(doing, err)
	}
	if len(out.Images) != 1 {
		return Recipe{}, fmt.Errorf("%s: %w", doing, &APIError{Code: "InvalidAMIID.NotFound"})
	}
	was := out.Images[0]
	i := imageOf(was, a.Region)
	shared, err := a.attribute(ctx, doing, id, types.ImageAttributeNameLaunchPermission)
	switch {
	case err != nil:
		return Recipe{}, err
	case len(i.Snapshots) == 0:
		return Recipe{}, fmt.Errorf("%s: the image has no snapshot", doing)
	}
	in := registration(was)
	if was.BootMode != "" && was.BootMode != types.BootModeValuesLegacyBios {
		stored, err := a.attribute(ctx, doing, id, types.ImageAttributeNameUefiData)
		if err != nil {
			return Recipe{}, err
		}
		if stored.UefiData != nil {
			in.UefiData = stored.UefiData.Value
		}
	}
	r := Recipe{Region: a.Region, Image: id, Snapshots: i.Snapshots, Permissions: shared.LaunchPermissions,
		Deprecated: i.Deprecated}
	return r, bare(in, &r.Register)
}

func registration(was types.Image) *ec2.RegisterImageInput {
	in := &ec2.RegisterImageInput{
		Name: was.Name, Description: was.Description, Architecture: was.Architecture, BootMode: was.BootMode,
		VirtualizationType: aws.String(string(was.VirtualizationType)), EnaSupport: was.EnaSupport,
		RootDeviceName: was.RootDeviceName, SriovNetSupport: was.SriovNetSupport, TpmSupport: was.TpmSupport,
		KernelId: was.KernelId, RamdiskId: was.RamdiskId, BlockDeviceMappings: was.BlockDeviceMappings,
	}
	if was.ImdsSupport != "" {
		in.ImdsSupport = types.ImdsSupportValuesV20
	}
	for n := range in.BlockDeviceMappings {
		// RegisterImage refuses these with a snapshot
		if e := in.BlockDeviceMappings[n].Ebs; e != nil && e.SnapshotId != nil {
			e.Encrypted, e.KmsKeyId = nil, nil
		}
	}
	tags := tagsOf(was.Tags)
	for key := range tags {
		if strings.HasPrefix(key, "aws:") {
			delete(tags, key)
		}
	}
	in.TagSpecifications = Tagged(types.ResourceTypeImage, tags)
	return in
}

// bare is a part of an answer by the names of the AWS CLI, without empty values, which the
// AWS CLI refuses.
func bare(in, into any) error {
	text, err := json.Marshal(in)
	var tree any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err == nil {
		prune(tree)
		text, err = json.Marshal(tree)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("writing an answer as JSON: %w", err)
	}
	return nil
}

func prune(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for key, value := range t {
			if value == nil || value == "" {
				delete(t, key)
			}
			prune(value)
		}
	case []any:
		for _, value := range t {
			prune(value)
		}
	}
}

// Restore registers an image again, with its tags, launch permissions and deprecation.
// After a deregistration without an answer, the image may still be there.
func (a *AWS) Restore(ctx context.Context, r Recipe) (Image, error) {
	in := &ec2.RegisterImageInput{}
	if err := json.Unmarshal(r.Register, in); err != nil {
		return Image{}, fmt.Errorf("reading how to register the image %s again: %w", r.Image, err)
	}
	i, err := a.register(ctx, in, func(i Image) bool {
		return i.ID != r.Image && slices.Equal(i.Snapshots, r.Snapshots)
	})
	if hasCode(err, "InvalidAMIName.Duplicate") {
		if was, looking := a.Named(ctx, aws.ToString(in.Name)); looking == nil && was.ID == r.Image {
			return was, nil
		}
	}
	if err != nil {
		return i, err
	}
	a = a.ForNew()
	errs := []error{a.permit(ctx, i.ID, r.Permissions)}
	if soon := time.Now().Add(2 * time.Minute); !r.Deprecated.IsZero() { // EC2 refuses the past
		at := r.Deprecated
		if at.Before(soon) {
			at = soon
		}
		errs = append(errs, a.Deprecate(ctx, i.ID, at))
	}
	return i, errors.Join(errs...)
}
