package awsapi

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Selector selects resources by ID, or by name and tags together.
type Selector struct {
	ID, Name string
	// Owner is an account, self or amazon. It is only for images.
	Owner string
	// Tags must all match. The value * matches every value.
	Tags map[string]string
}

// filters are the filters of a selector. id and name are EC2's names for them.
func (s Selector) filters(id, name string) []types.Filter {
	var list []types.Filter
	if s.ID != "" {
		list = append(list, filters(id, s.ID)...)
	}
	if s.Name != "" {
		list = append(list, filters(name, s.Name)...)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		if value := s.Tags[key]; value == "*" {
			list = append(list, filters("tag-key", key)...)
		} else {
			list = append(list, filters("tag:"+key, value)...)
		}
	}
	return list
}

// SelectSubnets returns the IDs of the selected subnets.
func (a *AWS) SelectSubnets(ctx context.Context, s Selector) ([]string, error) {
	var ids []string
	pages := ec2.NewDescribeSubnetsPaginator(a.ec2, &ec2.DescribeSubnetsInput{Filters: s.filters("subnet-id", "")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("searching for subnets", err)
		}
		for _, in := range page.Subnets {
			ids = append(ids, aws.ToString(in.SubnetId))
		}
	}
	return ids, nil
}

// SelectSecurityGroups returns the IDs of the selected security groups.
func (a *AWS) SelectSecurityGroups(ctx context.Context, s Selector) ([]string, error) {
	var ids []string
	pages := ec2.NewDescribeSecurityGroupsPaginator(a.ec2, &ec2.DescribeSecurityGroupsInput{Filters: s.filters("group-id", "group-name")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("searching for security groups", err)
		}
		for _, in := range page.SecurityGroups {
			ids = append(ids, aws.ToString(in.GroupId))
		}
	}
	return ids, nil
}

// SelectImages returns the selected images. Without an owner, a selector with a
// name finds only images of the account and of Amazon, as in Karpenter.
func (a *AWS) SelectImages(ctx context.Context, s Selector) ([]Image, error) {
	in := &ec2.DescribeImagesInput{Filters: s.filters("image-id", "name"), IncludeDeprecated: aws.Bool(true)}
	switch {
	case s.Owner != "":
		in.Owners = []string{s.Owner}
	case s.Name != "":
		in.Owners = []string{"self", "amazon"}
	}
	var images []Image
	pages := ec2.NewDescribeImagesPaginator(a.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("searching for images", err)
		}
		for _, found := range page.Images {
			images = append(images, imageOf(found, a.Region))
		}
	}
	return images, nil
}
