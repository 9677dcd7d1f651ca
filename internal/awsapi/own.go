package awsapi

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
)

// Deprecate marks an image as deprecated from a time on.
func (a *AWS) Deprecate(ctx context.Context, image string, at time.Time) error {
	return a.settled(ctx, func() error {
		_, err := a.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: aws.String(image), DeprecateAt: aws.Time(at)})
		return explain("deprecating the image "+image, err)
	})
}

// Deregister deregisters an image. Its snapshots stay.
func (a *AWS) Deregister(ctx context.Context, image string) error {
	return a.settled(ctx, func() error {
		_, err := a.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: aws.String(image)})
		return explain("deregistering the image "+image, err)
	})
}

// CheckParameter checks the name of a parameter to publish to.
func CheckParameter(name string) error { return awsnames.Parameter(name) }

// Publish writes an image ID to an SSM parameter, which EC2 accepts in place of an
// ID. SSM checks the ID before the parameter changes; Publish waits for that.
func (a *AWS) Publish(ctx context.Context, parameter, image string) error {
	i, err := a.Image(ctx, image)
	if err != nil {
		return err
	}
	if i.State != "available" {
		return fmt.Errorf("publishing the image %s: the image is %s", image, i.State)
	}
	// SSM keeps 100 versions, and each write makes one.
	if has, err := a.hasImage(ctx, parameter, image); err != nil || has {
		return err
	}
	doing := "putting " + image + " into the parameter " + parameter
	_, err = a.ssm.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(parameter), Value: aws.String(image), Type: types.ParameterTypeString, DataType: aws.String(imageType), Overwrite: aws.Bool(true),
	})
	if err != nil {
		return explain(doing, err)
	}
	unchanged := fmt.Errorf("%s: the parameter did not change within five minutes; SSM refuses image IDs that it cannot describe", doing)
	return a.repeated(ctx, patienceMost*a.settle, func(err error) bool { return err == unchanged }, func() error {
		if has, err := a.hasImage(ctx, parameter, image); err != nil || has {
			return err
		}
		return unchanged
	})
}

// imageType is the data type of parameters that EC2 accepts in place of an image ID.
const imageType = "aws:ec2:image"

// hasImage says whether a parameter has an image ID and EC2's data type already.
func (a *AWS) hasImage(ctx context.Context, name, image string) (bool, error) {
	out, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
	if err = explain("reading the parameter "+name, err); err != nil {
		if IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	return out.Parameter != nil && aws.ToString(out.Parameter.Value) == image && aws.ToString(out.Parameter.DataType) == imageType, nil
}
