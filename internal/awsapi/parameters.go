package awsapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// inParameters searches the values of the account's SSM parameters for images. It
// skips parameters of type SecureString: they are secrets.
func (r *References) inParameters(ctx context.Context) error {
	var names []string
	images := map[string]bool{} // images of parameters with the data type for images
	pages := ssm.NewDescribeParametersPaginator(r.aws.ssm, &ssm.DescribeParametersInput{
		ParameterFilters: []types.ParameterStringFilter{{Key: aws.String("Type"), Option: aws.String("Equals"), Values: []string{"String", "StringList"}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain("listing the SSM parameters", err)
		}
		for _, p := range page.Parameters {
			names = append(names, aws.ToString(p.Name))
			images[aws.ToString(p.Name)] = aws.ToString(p.DataType) == imageType
		}
	}
	for some := range slices.Chunk(names, 10) { // SSM's maximum
		out, err := r.aws.ssm.GetParameters(ctx, &ssm.GetParametersInput{Names: some})
		if err != nil {
			return explain("reading the SSM parameters", err)
		}
		for _, p := range out.Parameters {
			name, value := aws.ToString(p.Name), aws.ToString(p.Value)
			r.use(value, "the SSM parameter "+name)
			images[name] = images[name] || imageIDs.MatchString(value)
		}
	}
	for _, name := range names {
		if images[name] {
			if err := r.labels(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// labels searches the labelled versions of a parameter, which launch templates and
// programs may name.
func (r *References) labels(ctx context.Context, name string) error {
	pages := ssm.NewGetParameterHistoryPaginator(r.aws.ssm, &ssm.GetParameterHistoryInput{Name: aws.String(name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain("reading the versions of the SSM parameter "+name, err)
		}
		for _, v := range page.Parameters {
			if len(v.Labels) > 0 {
				r.use(aws.ToString(v.Value), fmt.Sprintf("the SSM parameter %s, version %d with the label %s", name, v.Version, strings.Join(v.Labels, ", ")))
			}
		}
	}
	return nil
}
