//go:build e2e && linux

package awsapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func TestNewestFindsTheImage(t *testing.T) {
	byName := awsapi.Search{Owners: []string{"136693071363"}, Name: "debian-12-amd64-*", Architecture: "x86_64"}
	byParameter := byName
	byParameter.Parameter = "/aws/service/debian/release/12/latest/amd64"
	for name, c := range map[string]struct {
		search awsapi.Search
		change func(*aws.World)
		want   string // an ID, or the end of an error
	}{
		"by name":           {byName, func(*aws.World) {}, "ami-22222222"},
		"page by page":      {byName, func(w *aws.World) { w.PageSize = 1 }, "ami-22222222"},
		"by parameter":      {byParameter, func(*aws.World) {}, "ami-22222222"},
		"just published":    {byParameter, func(w *aws.World) { w.Fail("ec2:DescribeImages", 2, "InvalidAMIID.NotFound", 400) }, "ami-22222222"},
		"throttled":         {byName, func(w *aws.World) { w.Fail("ec2:DescribeImages", 3, "RequestLimitExceeded", 503) }, "ami-22222222"},
		"deleted":           {byParameter, func(w *aws.World) { w.Fail("ec2:DescribeImages", 3, "InvalidAMIID.NotFound", 400) }, "describing the image ami-22222222: InvalidAMIID.NotFound: as the test wants it"},
		"another owner":     {byParameter, func(w *aws.World) { w.Image(aws.Debian).Owner = "666666666666" }, "checking the image ami-22222222 of the parameter /aws/service/debian/release/12/latest/amd64: the owner is 666666666666, not 136693071363"},
		"another processor": {byParameter, func(w *aws.World) { w.Image(aws.Debian).Architecture = "arm64" }, "checking the image ami-22222222 of the parameter /aws/service/debian/release/12/latest/amd64: the image is for arm64, not x86_64"},
		"no parameter":      {byParameter, func(w *aws.World) { clear(w.Published) }, `reading the parameter /aws/service/debian/release/12/latest/amd64: ParameterNotFound: Parameter /aws/service/debian/release/12/latest/amd64 not found.`},
		"parameter denied":  {byParameter, func(w *aws.World) { w.Deny("ssm:GetParameter") }, "reading the parameter /aws/service/debian/release/12/latest/amd64: the permission ssm:GetParameter is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ssm:GetParameter"},
		"search denied":     {byName, func(w *aws.World) { w.Deny("ec2:DescribeImages") }, "searching for images debian-12-amd64-* of 136693071363: the permission ec2:DescribeImages is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ec2:DescribeImages"},
		"no image":          {byName, func(w *aws.World) { w.Images = nil }, "searching for images debian-12-amd64-* of 136693071363: there is no image for x86_64 in eu-west-1"},
		"no owner":          {awsapi.Search{Name: "x"}, func(*aws.World) {}, "searching for an image: no owner is set; anyone may publish images under any name"},
		"an alias":          {awsapi.Search{Owners: []string{"amazon"}, Parameter: "/aws/service/al2023", Architecture: "arm64"}, func(*aws.World) {}, "ami-33333333"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.change(w)
			image, err := open(t, awsapi.Options{}).Newest(t.Context(), c.search)
			if err != nil {
				assert.Equal(t, c.want, err.Error())
				return
			}
			assert.Equal(t, c.want, image.ID)
		})
	}
}

func TestATruncatedImageListIsAnError(t *testing.T) {
	w := served(t)
	w.Break("ec2:DescribeImages")
	_, err := open(t, awsapi.Options{}).Image(t.Context(), "ami-22222222")
	require.ErrorContains(t, err, "describing the image ami-22222222: ")
}

// SSM validates an image ID before the parameter changes, so Publish waits.
func TestPublishWaitsForTheParameter(t *testing.T) {
	for name, c := range map[string]struct {
		delay int
		want  string // the error's end; empty means published
	}{
		"at once": {0, ""},
		"later":   {11, ""},
		"never":   {100, "putting ami-0123456789abcdef0 into the parameter /nodes: the parameter did not change within five minutes; SSM refuses image IDs that it cannot describe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			w.Put("/nodes", aws.OldDebian)
			w.Behave(aws.Behaviour{Stale: c.delay})
			err := open(t, awsapi.Options{}).Publish(t.Context(), "/nodes", "ami-0123456789abcdef0")
			if c.want != "" {
				require.EqualError(t, err, c.want)
				assert.Equal(t, "ami-11111111", w.Parameter(aws.Region, "/nodes").Value)
				return
			}
			require.NoError(t, err)
			written := w.Parameter(aws.Region, "/nodes")
			assert.Equal(t, "ami-0123456789abcdef0", written.Value)
			require.NoError(t, open(t, awsapi.Options{}).Publish(t.Context(), "/nodes", "ami-0123456789abcdef0"))
			assert.Equal(t, written.Version, w.Parameter(aws.Region, "/nodes").Version, "SSM keeps 100 versions")
		})
	}
}
