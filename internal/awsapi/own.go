package awsapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
)

// Deprecate marks an image as deprecated from a time on.
func (a *AWS) Deprecate(ctx context.Context, image string, at time.Time) error {
	_, err := a.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: aws.String(image), DeprecateAt: aws.Time(at)})
	return explain("deprecating the image "+image, err)
}

// Deregister deregisters an image. Its snapshots stay.
func (a *AWS) Deregister(ctx context.Context, image string) error {
	_, err := a.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: aws.String(image)})
	return explain("deregistering the image "+image, err)
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
	_, err = a.ssm.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(parameter), Value: aws.String(image), Type: types.ParameterTypeString, DataType: aws.String("aws:ec2:image"), Overwrite: aws.Bool(true),
	})
	doing := "putting " + image + " into the parameter " + parameter
	if err != nil {
		return explain(doing, err)
	}
	for n := 1; ; n++ {
		value, err := a.Parameter(ctx, parameter)
		if err == nil && value == image {
			return nil
		}
		if err != nil && !strings.Contains(err.Error(), "ParameterNotFound") {
			return err
		}
		if n == 2*looks {
			return fmt.Errorf("%s: the parameter did not change; SSM refuses image IDs that it cannot describe", doing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(a.settle):
		}
	}
}
